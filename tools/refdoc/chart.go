package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

const chartIntro = `# The values of the chart

` + "`helm install culvert dist/kubernetes/chart --set node.kubelet=/data/kubelet`" + ` sets a value, and
` + "`--values FILE`" + ` many. The manifest ` + "`dist/kubernetes/culvert.yaml`" + ` has the defaults of this page.

- Helm refuses names and values that the chart does not know, by its ` + "`values.schema.json`" + `.
- A value that is absent or ` + "`null`" + ` has its default. So ` + "`null`" + ` takes out a part of a value,
  such as ` + "`node.resources.limits`" + `, and no whole value.
- Your labels in a nodeSelector and your resources are added to those of the default. A list of
  yours replaces the default.

<!-- Written by tools/refdoc from dist/kubernetes/chart/values.yaml: change the comments there. -->
`

const chartReadmeIntro = `# Culvert's Helm chart

Culvert gives pods SR-IOV Virtual Functions and takes them back clean.
[docs/kubernetes.md](../../../docs/kubernetes.md) of the sources explains how to install and use it.

    helm install culvert CHART --namespace culvert-system --create-namespace --values FILE
    helm upgrade culvert CHART --namespace culvert-system --reset-then-reuse-values
    helm rollback culvert --namespace culvert-system
    helm uninstall culvert --namespace culvert-system

CHART is this folder or its archive. FILE has the values that differ from the defaults below.
An upgrade needs Helm 3.14 or newer for ` + "`--reset-then-reuse-values`" + `: it keeps your values, and takes
the others from the new chart.

<!-- Written by tools/refdoc from values.yaml: change the comments there. -->

## Values
`

// chartValue is a value of the chart: its name in the form of Helm's --set, the comment above it, and
// its default.
type chartValue struct {
	Name, Meaning string
	Default       any
}

// readChartValues reads the values of a chart with the comments above them.
func readChartValues(file string) ([]chartValue, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	values, err := listValues(document.Content[0], "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return values, nil
}

// listValues returns the values of a mapping. A mapping that has a comment and no commented value is
// one value.
func listValues(mapping *yaml.Node, prefix string) (all []chartValue, err error) {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		if value.Kind == yaml.MappingNode && hasComments(value) {
			below, err := listValues(value, name+".")
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
			continue
		}
		meaning := strings.TrimSpace(strings.ReplaceAll("\n"+key.HeadComment, "\n#", "\n"))
		if meaning == "" {
			return nil, fmt.Errorf("value %s has no comment", name)
		}
		v := chartValue{Name: name, Meaning: joinLines(meaning)}
		if err := value.Decode(&v.Default); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// hasComments reports whether a key of the mapping has a comment.
func hasComments(mapping *yaml.Node) bool {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].HeadComment != "" {
			return true
		}
	}
	return false
}

// chartPage returns a page with the table of a chart's values below its introduction.
func chartPage(intro string, values []chartValue) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(intro + "\n| value | default | meaning |\n|---|---|---|\n")
	for _, v := range values {
		shown, err := json.Marshal(v.Default)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", v.Name, shown, v.Meaning)
	}
	return out.Bytes(), nil
}

// addChart adds the files about the chart below root to all, by their paths.
func addChart(root string, all map[string][]byte) error {
	const chart = "dist/kubernetes/chart/"
	values, err := readChartValues(filepath.Join(root, chart, "values.yaml"))
	if err != nil {
		return err
	}
	if all["docs/reference/chart.md"], err = chartPage(chartIntro, values); err != nil {
		return err
	}
	if all[chart+"README.md"], err = chartPage(chartReadmeIntro, values); err != nil {
		return err
	}
	all[chart+"values.schema.json"], err = chartSchema(values, chartRules)
	return err
}

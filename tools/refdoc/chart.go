package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

const chartIntro = `# The values of the chart

` + "`helm install culvert dist/kubernetes/chart --set node.kubelet=/data/kubelet`" + ` sets a value, and
` + "`--values FILE`" + ` many. The manifest ` + "`dist/kubernetes/culvert.yaml`" + ` has the defaults of this page.

<!-- Written by tools/refdoc from dist/kubernetes/chart/values.yaml: change the comments there. -->

| value | default | meaning |
|---|---|---|
`

// chartReference returns the table of a chart's values, each with the comment above it.
func chartReference(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(chartIntro)
	if err := writeValues(&out, document.Content[0], ""); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out.Bytes(), nil
}

// writeValues writes a row for each value of a mapping. A mapping that has a comment and no commented
// value is one value.
func writeValues(out *bytes.Buffer, mapping *yaml.Node, prefix string) error {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		if value.Kind == yaml.MappingNode && hasComments(value) {
			if err := writeValues(out, value, name+"."); err != nil {
				return err
			}
			continue
		}
		meaning := strings.TrimSpace(strings.ReplaceAll("\n"+key.HeadComment, "\n#", "\n"))
		if meaning == "" {
			return fmt.Errorf("value %s has no comment", name)
		}
		var decoded any
		if err := value.Decode(&decoded); err != nil {
			return err
		}
		shown, err := json.Marshal(decoded)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", name, shown, joinLines(meaning))
	}
	return nil
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

package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// findUnlisted finds pages of docs and docs/reference to which the README's table of documents has
// no link.
func findUnlisted(tree fs.FS) ([]string, error) {
	readme, err := fs.ReadFile(tree, "README.md")
	if err != nil {
		return nil, err
	}
	_, table, _ := strings.Cut(string(readme), "\n## Documents\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var complaints []string
	for _, dir := range []string{"docs", "docs/reference"} {
		pages, err := fs.Glob(tree, dir+"/*.md")
		if err != nil {
			return nil, err
		}
		for _, page := range pages {
			if !strings.Contains(table, "]("+page+")") {
				complaints = append(complaints, fmt.Sprintf("README.md, Documents: %s is missing: add it with what it contains", page))
			}
		}
	}
	return complaints, nil
}

func TestReadmeListsEveryDocument(t *testing.T) {
	complaints, err := findUnlisted(repository(t))
	report(t, complaints, err)
}

// chartBlock matches a block of YAML in a document whose first line says that it has values of the
// chart.
var chartBlock = regexp.MustCompile("(?s)```yaml\n# values\\.yaml\n(.*?)```")

// chartValue matches a value of the chart in a command of Helm.
var chartValue = regexp.MustCompile(`--set(?:-string)? '?([a-zA-Z.]+)=`)

// findUnknownValues finds values in documents that the chart does not have.
func findUnknownValues(tree fs.FS) ([]string, error) {
	known, err := readValues(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	err = eachPage(tree, func(name, text string) error {
		var named []string
		for _, m := range chartValue.FindAllStringSubmatch(text, -1) {
			named = append(named, m[1])
		}
		for _, m := range chartBlock.FindAllStringSubmatch(text, -1) {
			var values map[string]any
			if err := yaml.Unmarshal([]byte(m[1]), &values); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			named = append(named, listValues("", values)...)
		}
		for _, value := range named {
			if !slices.Contains(known, value) {
				complaints = append(complaints, fmt.Sprintf("%s: the chart has no value %s", name, value))
			}
		}
		return nil
	})
	return complaints, err
}

// readValues returns the names of the chart's values, in the form of Helm's --set.
func readValues(tree fs.FS) ([]string, error) {
	text, err := fs.ReadFile(tree, "dist/kubernetes/chart/values.yaml")
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	return listValues("", values), nil
}

func listValues(above string, values map[string]any) (all []string) {
	for key, value := range values {
		name := above + key
		if below, isMap := value.(map[string]any); isMap && len(below) > 0 {
			all = append(all, listValues(name+".", below)...)
		} else {
			all = append(all, name)
		}
	}
	return all
}

func TestDocumentsNameValuesOfTheChart(t *testing.T) {
	complaints, err := findUnknownValues(repository(t))
	report(t, complaints, err)
}

// The SecurityContextConstraints of docs/platforms.md allow what the DaemonSet asks for, and no
// more.
func TestConstraintsOfOpenShiftAreThoseOfTheDaemonSet(t *testing.T) {
	tree := repository(t)
	page, err := fs.ReadFile(tree, "docs/platforms.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n# scc.yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var got map[string]any
	if err := yaml.Unmarshal([]byte(block), &got); err != nil {
		t.Fatal(err)
	}
	set, err := findObject(tree, "DaemonSet", "culvertd")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(constraintsOf(set), pick(got, "users", "allowHostNetwork", "allowHostDirVolumePlugin", "allowHostIPC", "allowHostPID", "allowHostPorts", "allowPrivilegedContainer",
		"allowedCapabilities", "readOnlyRootFilesystem", "seccompProfiles")); diff != "" {
		t.Errorf("docs/platforms.md, scc.yaml (-the DaemonSet +the page):\n%s", diff)
	}
}

// findObject returns an object of the one manifest.
func findObject(tree fs.FS, kind, name string) (map[string]any, error) {
	text, err := fs.ReadFile(tree, "dist/kubernetes/culvert.yaml")
	if err != nil {
		return nil, err
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, err
		}
		if object["kind"] == kind && at(object, "metadata", "name") == name {
			return object, nil
		}
	}
	return nil, errors.New("the manifest has no " + path.Join(kind, name))
}

// at returns the value below keys of an object, or nil.
func at(object map[string]any, keys ...string) any {
	var value any = object
	for _, key := range keys {
		below, _ := value.(map[string]any)
		value = below[key]
	}
	return value
}

func pick(object map[string]any, keys ...string) map[string]any {
	picked := map[string]any{}
	for _, key := range keys {
		picked[key] = object[key]
	}
	return picked
}

// constraintsOf returns the fields of SecurityContextConstraints that admit the pods of a DaemonSet,
// and nothing that these do not ask for.
func constraintsOf(set map[string]any) map[string]any {
	pod, _ := at(set, "spec", "template", "spec").(map[string]any)
	containers, _ := pod["containers"].([]any)
	init, _ := pod["initContainers"].([]any)
	var capabilities []any
	readOnly, privileged, ports := true, false, false
	for _, c := range append(init, containers...) {
		container, _ := c.(map[string]any)
		added, _ := at(container, "securityContext", "capabilities", "add").([]any)
		capabilities = append(capabilities, added...)
		readOnly = readOnly && at(container, "securityContext", "readOnlyRootFilesystem") == true
		privileged = privileged || at(container, "securityContext", "privileged") == true
		ports = ports || container["ports"] != nil
	}
	return map[string]any{
		"users":                    []any{fmt.Sprintf("system:serviceaccount:%s:%s", at(set, "metadata", "namespace"), pod["serviceAccountName"])},
		"allowHostNetwork":         pod["hostNetwork"] == true,
		"allowHostIPC":             pod["hostIPC"] == true,
		"allowHostPID":             pod["hostPID"] == true,
		"allowHostPorts":           ports,
		"allowHostDirVolumePlugin": true, // each volume of the DaemonSet is a folder of the host
		"allowPrivilegedContainer": privileged,
		"allowedCapabilities":      capabilities,
		"readOnlyRootFilesystem":   readOnly,
		"seccompProfiles":          []any{map[any]string{"RuntimeDefault": "runtime/default"}[at(pod, "securityContext", "seccompProfile", "type")]},
	}
}

func TestCheckDocuments(t *testing.T) {
	tree := fstest.MapFS{
		"README.md":                         {Data: []byte("# A\n\n[b](docs/b.md)\n\n## Documents\n\n| [a](docs/a.md) | x |\n\n## Then\n")},
		"docs/a.md":                         {Data: []byte("    helm upgrade --set node.a=1 --set 'node.gone={1}'\n\n```yaml\n# values.yaml\nnode: {a: 1, b: {c: 2, d: 3}}\n```\n\n```yaml\nother: 1\n```\n")},
		"docs/b.md":                         {Data: []byte("x\n")},
		"docs/reference/c.md":               {Data: []byte("x\n")},
		"docs/design/d.md":                  {Data: []byte("x\n")},
		"dist/kubernetes/chart/values.yaml": {Data: []byte("node:\n  a: 1\n  b: {c: 1}\n")},
	}
	var got []string
	for _, check := range []func(fs.FS) ([]string, error){findUnlisted, findUnknownValues} {
		complaints, err := check(tree)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, complaints...)
	}
	want := []string{
		"README.md, Documents: docs/b.md is missing: add it with what it contains",
		"README.md, Documents: docs/reference/c.md is missing: add it with what it contains",
		"docs/a.md: the chart has no value node.gone",
		"docs/a.md: the chart has no value node.b.d",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

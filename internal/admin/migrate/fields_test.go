package migrate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// operatorFields reads testdata/fields.yaml: every field of the operator's API, and a value of it.
func operatorFields(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile("testdata/fields.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Every field of the operator's objects is in the table, and the table has no other.
func TestFieldsAreComplete(t *testing.T) {
	for kind, values := range operatorFields(t) {
		known, used := fieldsOf(kind), map[string]bool{}
		for path := range values {
			f, ok := fieldAt(known, path)
			if !ok {
				t.Errorf("%s: spec.%s is not in the table", kind, path)
			}
			used[f.Path] = true
		}
		for _, f := range known {
			if !used[f.Path] {
				t.Errorf("%s: spec.%s is in the table and not in the operator's API", kind, f.Path)
			}
			if f.To == "" && f.Why == "" {
				t.Errorf("%s: spec.%s has no equivalent, and the table does not say why", kind, f.Path)
			}
		}
	}
}

// A field with an equivalent changes the manifests. A field without one gets a note with the
// reason.
func TestEveryFieldIsConvertedOrNamed(t *testing.T) {
	base := map[string]string{
		KindPolicy:     "resourceName: r\nnumVfs: 1\nnicSelector: {vendor: '8086'}\n",
		KindNetwork:    "resourceName: r\nvlan: 7\nvlanQoS: 2\n",
		KindPoolConfig: "", KindOperator: "", KindIBNetwork: "", KindOVSNetwork: "",
	}
	for kind, values := range operatorFields(t) {
		for path, value := range values {
			t.Run(kind+"/"+path, func(t *testing.T) {
				var spec map[string]any
				if err := yaml.Unmarshal([]byte(base[kind]), &spec); err != nil {
					t.Fatal(err)
				}
				if spec == nil {
					spec = map[string]any{}
				}
				o := Object{Kind: kind, Name: "n", Spec: spec}
				before := Convert([]Object{o}, Options{})
				set(spec, strings.Split(path, "."), value)
				after := Convert([]Object{o}, Options{})
				f, _ := fieldAt(fieldsOf(kind), path)
				named := slices.ContainsFunc(after.Notes, func(n Note) bool {
					return strings.HasPrefix(n.Field, "spec."+path) && n.Lost || n.Field == "" && n.Lost
				})
				changed := !cmp.Equal(fmt.Sprint(before.Manifests), fmt.Sprint(after.Manifests)) || cmp.Diff(before.Manifests, after.Manifests) != ""
				switch {
				case f.To == "" && !named:
					t.Errorf("it has no equivalent, and no note says so: %v", after.Notes)
				case f.To != "" && f.To != "nothing" && !changed:
					t.Errorf("the table says that it becomes %s, and nothing changed", f.To)
				}
			})
		}
	}
}

// set puts a value at a path.
func set(values map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		below, ok := values[key].(map[string]any)
		if !ok {
			below = map[string]any{}
			values[key] = below
		}
		values = below
	}
	values[path[len(path)-1]] = value
}

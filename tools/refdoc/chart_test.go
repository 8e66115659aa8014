package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The schema of the chart has each value of values.yaml with its default and a description, and no
// other one, on every level. It refuses other names on every level.
func TestChartSchemaHasTheValues(t *testing.T) {
	chart := filepath.Join("..", "..", "dist/kubernetes/chart")
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(chart, "values.schema.json")); err != nil {
		t.Fatal(err)
	}
	var top section
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	delete(top.Properties, "global") // which Helm itself passes to a chart below another one
	if count := compareSection(t, "", top, values); count < 49 {
		t.Errorf("only %d values were compared", count)
	}
}

// section is the schema of a section of the chart's values, or of one value.
type section struct {
	Properties           map[string]section
	AdditionalProperties any
	Description          string
	Default              any
}

// compareSection compares a section of the schema with the values that it is about, and returns how
// many it compared.
func compareSection(t *testing.T, name string, of section, values map[string]any) (count int) {
	t.Helper()
	if of.AdditionalProperties != false {
		t.Errorf("section %q takes unknown names", name)
	}
	for key := range of.Properties {
		if _, has := values[key]; !has {
			t.Errorf("values.yaml has no %s%s", name, key)
		}
	}
	for key, v := range values {
		one, has := of.Properties[key]
		if below, is := v.(map[string]any); is && one.Description == "" && has {
			count += compareSection(t, name+key+".", one, below)
			continue
		}
		if count++; !has || one.Description == "" || !reflect.DeepEqual(one.Default, v) {
			t.Errorf("%s%s: the schema has the default %v and the description %q, values.yaml %v", name, key, one.Default, one.Description, v)
		}
	}
	return count
}

// A value without a rule and a rule without a value are refused.
func TestChartRulesAndValuesAgree(t *testing.T) {
	values := []chartValue{{"a.b", "B.", 1}, {"c", "C.", ""}}
	for want, rules := range map[string]map[string]rule{
		"value c has no rule: add one to chartRules":   {"a.b": atLeast(0)},
		"rules without a value in values.yaml: a, a.x": {"a.b": atLeast(0), "c": boolean, "a.x": boolean, "a": boolean},
	} {
		if _, err := chartSchema(values, rules); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	text, err := chartSchema(values, map[string]rule{"a.b": atLeast(0), "c": boolean})
	if err != nil || !strings.Contains(string(text), `"minimum": 0`) {
		t.Errorf("%s, %v", text, err)
	}
}

// Each template that reads values fills in the absent ones first: Helm renders templates in any order.
func TestTemplatesFillValues(t *testing.T) {
	templates, err := filepath.Glob("../../dist/kubernetes/chart/templates/[^_]*")
	if err != nil {
		t.Fatal(err)
	}
	reading := 0
	for _, name := range templates {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		first, rest, _ := strings.Cut(string(text), "{{- include \"culvert.fillValues\" . -}}\n")
		if strings.Contains(first, ".Values") {
			t.Errorf("%s reads values before it calls culvert.fillValues", filepath.Base(name))
		}
		if strings.Contains(rest, ".Values") {
			reading++
		}
	}
	if reading < 7 {
		t.Errorf("only %d templates read values", reading)
	}
}

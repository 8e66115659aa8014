package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// dashboard is a dashboard of Grafana, as far as these tests read it
// (grafana.com, Dashboard JSON model).
type dashboard struct {
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct{ Name, Type string }
	}
	Panels []panel
}

type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource *datasource
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		RefID      string
		Datasource *datasource
		Expr       string
	}
	FieldConfig json.RawMessage
}

type datasource struct{ Type, UID string }

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(top + "/dist/grafana/culvert.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// variables has a value for each variable of the dashboard, and for those of Grafana.
var variables = strings.NewReplacer("$instance", ".*", "$__rate_interval", "2m")

// The dashboard has a version of the schema that Grafana 10.4 reads, panels with distinct IDs that do
// not overlap, and the variable of the data source, which each panel and query uses. Prometheus parses
// each query.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.UID != "culvert" || d.SchemaVersion != 39 {
		t.Errorf("UID %q, version %d of the schema", d.UID, d.SchemaVersion)
	}
	names := fmt.Sprint(d.Templating.List)
	if names != "[{datasource datasource} {instance query}]" {
		t.Errorf("variables %s", names)
	}
	source := datasource{Type: "prometheus", UID: "${datasource}"}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	var file struct {
		Groups []map[string]any `yaml:"groups"`
	}
	var records []map[string]string
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("panel %s: ID %d is not unique", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %s is over panel %q or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource == nil || *p.Datasource != source || len(p.Targets) == 0 || p.Title == "" || len(p.FieldConfig) == 0 {
			t.Errorf("panel %s: data source %v, %d queries", p.Title, p.Datasource, len(p.Targets))
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if q.Datasource == nil || *q.Datasource != source || refs[q.RefID] {
				t.Errorf("panel %s, query %s: data source %v", p.Title, q.RefID, q.Datasource)
			}
			refs[q.RefID] = true
			if expr := variables.Replace(q.Expr); strings.Contains(expr, "$") {
				t.Errorf("panel %s: unknown variable in %s", p.Title, expr)
			} else {
				records = append(records, map[string]string{"record": fmt.Sprintf("panel:%d:%s", p.ID, strings.ToLower(q.RefID)), "expr": expr})
			}
		}
	}
	file.Groups = []map[string]any{{"name": "dashboard", "rules": records}}
	var text bytes.Buffer
	if err := yaml.NewEncoder(&text).Encode(file); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := runPromtool(t, "check", "rules", name); !strings.Contains(said, fmt.Sprintf("SUCCESS: %d rules found", len(records))) || len(records) < 40 {
		t.Errorf("%d queries: %s", len(records), said)
	}
}

// Package monitoring checks what Prometheus and Grafana get of Culvert: the alerts of dist/prometheus
// and the dashboard of dist/grafana. promtool of Debian judges both (tools/prometheus).
package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	top   = "../.."
	rules = top + "/dist/prometheus/culvert-rules.yaml"
)

// runPromtool runs promtool, and returns its output.
func runPromtool(t *testing.T, args ...string) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), top+"/tools/prometheus").Output()
	if err != nil {
		t.Fatalf("tools/prometheus: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(strings.TrimSpace(string(dir)), "promtool"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// readYAML reads a file into a value.
func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// alert is an alert of the rules.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// readAlerts returns the alerts of the rules.
func readAlerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	readYAML(t, rules, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// object matches the names of Prometheus' labels that name an object.
var object = regexp.MustCompile(`\$labels\.(instance|pool|name)\b`)

// Prometheus takes the rules. Each alert has a severity, a time that it waits, a summary that names the
// object and a description with a command.
func TestRules(t *testing.T) {
	runPromtool(t, "check", "rules", rules)
	all := readAlerts(t)
	for _, a := range all {
		switch {
		case !strings.HasPrefix(a.Alert, "Culvert") || a.For == "":
			t.Errorf("%s waits %q: want a name that begins with Culvert, and a time", a.Alert, a.For)
		case a.Labels["severity"] != "critical" && a.Labels["severity"] != "warning":
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		case !object.MatchString(a.Annotations["summary"]) && a.Alert != "CulvertControllerAbsent": // there is one controller
			t.Errorf("%s: the summary names no object: %s", a.Alert, a.Annotations["summary"])
		case !strings.Contains(a.Annotations["description"], "`"):
			t.Errorf("%s: the description has no command: %s", a.Alert, a.Annotations["description"])
		}
	}
	if len(all) < 12 {
		t.Errorf("there are %d alerts", len(all))
	}
}

// Each alert fires for its cause, and it alone. It does not fire for a near miss.
func TestAlertsFire(t *testing.T) {
	const file = "testdata/alerts.yaml"
	runPromtool(t, "test", "rules", file)
	var tests struct {
		Tests []struct {
			Name   string
			Checks []struct {
				Expr    string
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	readYAML(t, file, &tests)
	fires, misses := map[string]bool{}, map[string]bool{}
	for _, one := range tests.Tests {
		name, _, _ := strings.Cut(one.Name, ":")
		near, isNear := strings.CutSuffix(name, ", near miss")
		fired := false
		for _, c := range one.Checks {
			if c.Expr != `ALERTS{alertstate="firing"}` {
				t.Errorf("%s: it asks for %s, which not all alerts are in", one.Name, c.Expr)
			}
			for _, s := range c.Samples {
				fired = true
				if !strings.Contains(s.Labels, `alertname="`+name+`"`) {
					t.Errorf("%s: %s fires", one.Name, s.Labels)
				}
			}
		}
		if fired == isNear {
			t.Errorf("%s: an alert fires: %t", one.Name, fired)
		}
		if isNear {
			misses[near] = true
		} else {
			fires[name] = true
		}
	}
	for _, a := range readAlerts(t) {
		if !fires[a.Alert] || !misses[a.Alert] {
			t.Errorf("%s: add to %s a test in which it fires, and one of a near miss", a.Alert, file)
		}
		delete(fires, a.Alert)
	}
	for name := range fires {
		t.Errorf("%s: there is no alert %s", file, name)
	}
}

package monitoring

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	// metricName matches a name of Culvert's metrics in a query.
	metricName = regexp.MustCompile(`\bculvert_[a-z_]+\b`)
	// metricRow matches a row of the reference's table: the name, the type and the labels.
	metricRow = regexp.MustCompile("(?m)^\\| `(culvert_[a-z_]+)` \\| (\\w+) \\| (.*?) \\|")
	// selector matches a metric with the labels that a query selects or excludes.
	selector = regexp.MustCompile(`\b(culvert_[a-z_]+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|!=|!~|=)"([^"]*)"`)
)

// readDocumented returns the labels of each metric of docs/reference/metrics.md, with the names of the
// series of histograms.
func readDocumented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(top + "/docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		all[row[1]] = row[3]
		if row[2] == "histogram" {
			delete(all, row[1])
			all[row[1]+"_bucket"], all[row[1]+"_count"] = row[3]+"; `le`", row[3]
		}
	}
	return all
}

// The alerts and the dashboard ask for metrics, labels and values that the programs have, by their
// reference.
func TestQueriesNameWhatThereIs(t *testing.T) {
	known := readDocumented(t)
	queries := map[string]string{}
	for _, a := range readAlerts(t) {
		queries[a.Alert] = a.Expr
	}
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			queries[p.Title+" "+q.RefID] = variables.Replace(q.Expr)
		}
	}
	seen := 0
	for title, expr := range queries {
		for _, name := range metricName.FindAllString(expr, -1) {
			seen++
			if _, is := known[name]; !is {
				t.Errorf("%s: there is no metric %s", title, name)
			}
		}
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
				if label[1] == "instance" || label[1] == "job" { // of Prometheus
					continue
				}
				_, values, has := strings.Cut(known[m[1]], "`"+label[1]+"`")
				values, _, _ = strings.Cut(values, ";")
				for value := range strings.SplitSeq(label[3], "|") {
					if !has || strings.Contains(values, ":") && !strings.Contains(values, value) {
						t.Errorf("%s: %s has no label %s with %s, but %s", title, m[1], label[1], value, known[m[1]])
					}
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d metrics were found", seen)
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/metrics"
	"github.com/culvert-net/culvert/internal/vf"
)

const metricsIntro = `# Metrics

` + "`culvertd --metrics ADDRESS`" + ` serves these metrics to Prometheus
([operations](../operations.md#looking)). culvertd reads its status for each scrape, and answers
within 10 s.

culvert-controller serves the metrics of controller-runtime and of Go, and none of its own
([access](../kubernetes.md#access-to-the-controller)).

<!-- Written by tools/refdoc from internal/node/metrics: change it there. -->

| metric | type | labels | meaning |
|---|---|---|---|
`

// metricsReference returns the table of culvertd's metrics: those that it shows of a node with one
// of everything.
func metricsReference() ([]byte, error) {
	n := metrics.NewNode(func(context.Context) (api.NodeStatus, error) {
		return api.NodeStatus{
			PFs: []api.PF{{PF: vf.PF{Name: "pf", MTU: 1500}}}, Pools: []api.Pool{{Name: "pool"}}, Services: &api.ServiceBalancing{Mechanism: "eBPF"},
			VFs: []api.VF{{Name: "pf#0", PF: "pf", Pool: "pool", Owner: &vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}, Network: "default/net", Traffic: &vf.Traffic{}}},
		}, nil
	})
	for _, operation := range []string{hold.OperationAttach, hold.OperationDetach} {
		n.Observe(operation, time.Second, nil)
	}
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		return nil, fmt.Errorf("metrics: status %d: %s", answer.Code, answer.Body)
	}
	for _, name := range metrics.Names() {
		if !strings.Contains(answer.Body.String(), "# HELP "+name+" ") {
			return nil, fmt.Errorf("metric %s is in no scrape of the node that this reference shows: add its cause to that node", name)
		}
	}
	var out bytes.Buffer
	out.WriteString(metricsIntro)
	writeMetrics(&out, answer.Body.String())
	return out.Bytes(), nil
}

// Lines of the format that Prometheus reads.
var (
	metricHelp = regexp.MustCompile(`^# HELP (\S+) (.*)`)
	metricType = regexp.MustCompile(`^# TYPE \S+ (\S+)`)
	labelValue = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// writeMetrics writes a row for each metric of a scrape.
func writeMetrics(out *bytes.Buffer, scrape string) {
	for _, part := range strings.Split(scrape, "# HELP ")[1:] {
		lines := strings.Split("# HELP "+part, "\n")
		help, kind := metricHelp.FindStringSubmatch(lines[0]), metricType.FindStringSubmatch(lines[1])
		values := map[string][]string{}
		var labels []string
		for _, line := range lines[2:] {
			for _, m := range labelValue.FindAllStringSubmatch(line, -1) {
				if m[1] == "le" {
					continue // of every histogram
				}
				if values[m[1]] == nil {
					labels = append(labels, m[1])
				}
				if !slices.Contains(values[m[1]], m[2]) {
					values[m[1]] = append(values[m[1]], m[2])
				}
			}
		}
		for i, l := range labels {
			labels[i] = "`" + l + "`"
			if len(values[l]) > 1 {
				labels[i] += ": " + strings.Join(values[l], ", ")
			}
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", help[1], kind[1], strings.Join(labels, "; "), joinLines(help[2]))
	}
}

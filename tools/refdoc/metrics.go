package main

import (
	"bytes"
	"cmp"
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
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/metrics"
	"github.com/culvert-net/culvert/internal/vf"
)

const metricsIntro = `# Metrics

` + "`culvertd --metrics ADDRESS`" + ` serves these metrics to Prometheus, and ` + "`culvert metrics`" + ` prints them
([how to read them](../metrics.md)). culvertd reads its status for each scrape, and answers within
10 s.

The number of series has a bound. A node has at most 8 for each VF that has an owner and counters,
20 for each PF, 6 for each pool, 2 for each AddressPool and 450 more. Those of
` + "`culvert_api_requests_total`" + ` come on top: at most 420, and some 30 in practice. With 256 VFs in
use on 4 PFs, 4 pools and 16 AddressPools the bound is 2,634. The number of networks of a pod does
not matter. Labels are valid UTF-8 on one line, of at most 320 bytes; a longer name is cut.

[alerts.md](../alerts.md) has alerts and a dashboard.

<!-- Written by tools/refdoc from internal/node/metrics: change it there. -->

| metric | type | labels | meaning |
|---|---|---|---|
`

// showMetrics returns a scrape of a node with one of everything.
func showMetrics() (string, error) {
	n := metrics.NewNode()
	n.AddStatus(func(context.Context) (api.NodeStatus, error) {
		return api.NodeStatus{
			Ledger: &api.LedgerFile{}, Addresses: []api.AddressUse{{Pool: "net"}},
			PFs: []api.PF{{PF: vf.PF{Name: "pf", MTU: 1500}}}, Pools: []api.Pool{{Name: "pool"}}, Services: &api.ServiceBalancing{Mechanism: "eBPF"},
			VFs: []api.VF{{Name: "pf#0", PF: "pf", Pool: "pool", Owner: &vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}, Network: "default/net", Traffic: &vf.Traffic{}}},
		}, nil
	})
	for _, operation := range []string{hold.OperationAttach, hold.OperationDetach} {
		for _, err := range []error{nil, vf.ErrInvalid} {
			n.ObserveOperation(operation, time.Second, err)
		}
		for _, step := range hold.StepsOf(operation) {
			n.ObserveStep(operation, step, time.Second, nil)
			n.ObserveStep(operation, step, time.Second, vf.ErrInvalid)
		}
	}
	n.ObserveCommit(journal.Commit{})
	verbs, resources, results := kube.RequestLabels()
	for _, verb := range verbs {
		for _, resource := range resources {
			for _, result := range results {
				n.CountRequest(verb, resource, result)
			}
		}
	}
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		return "", fmt.Errorf("metrics: status %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String(), nil
}

// metricsReference returns the table of culvertd's metrics: those that it shows of a node with one
// of everything.
func metricsReference() ([]byte, error) {
	scrape, err := showMetrics()
	if err != nil {
		return nil, err
	}
	for _, name := range metrics.Names() {
		if !strings.Contains(scrape, "# HELP "+name+" ") {
			return nil, fmt.Errorf("metric %s is in no scrape of the node that this reference shows: add its cause to that node", name)
		}
	}
	var out bytes.Buffer
	out.WriteString(metricsIntro)
	writeMetrics(&out, scrape)
	err = writeControllerMetrics(&out)
	return out.Bytes(), err
}

// Lines of the format that Prometheus reads.
var (
	metricHelp = regexp.MustCompile(`^# HELP (\S+) (.*)`)
	metricType = regexp.MustCompile(`^# TYPE \S+ (\S+)`)
	labelValue = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// mostListed is how many values of a label a row lists.
const mostListed = 14

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
				value := cmp.Or(m[2], "none")
				if !slices.Contains(values[m[1]], value) {
					values[m[1]] = append(values[m[1]], value)
				}
			}
		}
		for i, l := range labels {
			labels[i] = "`" + l + "`"
			switch n := len(values[l]); {
			case n > mostListed:
				labels[i] += fmt.Sprintf(": %d words", n)
			case n > 1:
				labels[i] += ": " + strings.Join(values[l], ", ")
			}
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", help[1], kind[1], strings.Join(labels, "; "), joinLines(help[2]))
	}
}

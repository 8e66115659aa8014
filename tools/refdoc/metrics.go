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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/cluster/controller"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/metrics"
	"github.com/culvert-net/culvert/internal/vf"
)

const metricsIntro = `# Metrics

` + "`culvertd --metrics ADDRESS`" + ` serves these metrics to Prometheus
([operations](../operations.md#looking)). culvertd reads its status for each scrape, and answers
within 10 s.

[alerts.md](../alerts.md) has alerts and a dashboard.

<!-- Written by tools/refdoc from internal/node/metrics: change it there. -->

| metric | type | labels | meaning |
|---|---|---|---|
`

const controllerIntro = `
## culvert-controller

The controller that leads serves these metrics, from its cache
([access](../kubernetes.md#access-to-the-controller)). Each controller also serves those of
controller-runtime and of Go, such as ` + "`controller_runtime_webhook_requests_total`" + ` and
` + "`rest_client_requests_total`" + `.

<!-- Written by tools/refdoc from internal/cluster/controller: change it there. -->

| metric | type | labels | meaning |
|---|---|---|---|
`

// oneOfEach is a cluster with an AddressPool.
type oneOfEach struct{ client.Reader }

// List is client.Reader.
func (oneOfEach) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if pools, is := into.(*v1alpha1.AddressPoolList); is {
		pools.Items = make([]v1alpha1.AddressPool, 1)
	}
	return nil
}

// writeControllerMetrics writes the table of culvert-controller's metrics.
func writeControllerMetrics(out *bytes.Buffer) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(controller.NewClusterMetrics(oneOfEach{}))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		return fmt.Errorf("metrics of the controller: status %d: %s", answer.Code, answer.Body)
	}
	out.WriteString(controllerIntro)
	writeMetrics(out, answer.Body.String())
	return nil
}

// metricsReference returns the tables of metrics. That of culvertd has those that it shows of a node
// with one of everything.
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
	err := writeControllerMetrics(&out)
	return out.Bytes(), err
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

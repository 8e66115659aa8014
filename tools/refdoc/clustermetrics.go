package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/cluster/controller"
)

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
type oneOfEach struct{}

// AddressPools is controller.ClusterObjects.
func (oneOfEach) AddressPools(context.Context) ([]v1alpha1.AddressPool, error) {
	return make([]v1alpha1.AddressPool, 1), nil
}

// NodeStates is controller.ClusterObjects.
func (oneOfEach) NodeStates(context.Context) ([]v1alpha1.NodeState, error) { return nil, nil }

// NodePolicies is controller.ClusterObjects.
func (oneOfEach) NodePolicies(context.Context) ([]v1alpha1.NodePolicy, error) { return nil, nil }

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

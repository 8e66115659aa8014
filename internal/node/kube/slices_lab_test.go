//go:build lab

package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/apiserver"
)

// I9: other managers and tenants make EndpointSlices for a Service that Culvert serves, with all of
// Culvert's labels but the manager, and of the largest size. culvertd reads none of them, and leaves out
// a slice of Culvert's that is being deleted while a finalizer holds it. No admission policy helps here.
func TestI9SlicesOfOthersAreNotRead(t *testing.T) {
	r := apiserver.New(t)
	const slicesPath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	r.Must(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
	apiserver.Eventually(t, "namespace and CRD", func() error {
		return errors.Join(r.Do(http.MethodGet, "/api/v1/namespaces/default", "", nil), r.Do(http.MethodGet, "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions", "", nil))
	})
	r.Must(http.MethodPost, "/api/v1/nodes", `{apiVersion: v1, kind: Node, metadata: {name: n1}}`)
	r.Must(http.MethodPost, "/api/v1/namespaces/default/services", `{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {culvert.dev/network: net1}},
		spec: {clusterIP: 10.96.0.77, selector: {app: web}, ports: [{port: 80}]}}`)
	large := `["192.0.2.1"]}` + strings.Repeat(`,{"addresses":["192.0.2.1"]}`, 999)
	large = strings.TrimSuffix(large, "}")
	for name, manager := range map[string]string{"own": "culvert.dev", "held": "culvert.dev", "others": "endpointslice-controller.k8s.io", "prefix": "culvert.dev.example.com", "none": ""} {
		labels := map[string]string{"kubernetes.io/service-name": "web", "culvert.dev/network": "default.net1", "service.kubernetes.io/headless": ""}
		endpoints := `["172.16.91.1"]`
		if manager != "" {
			labels["endpointslice.kubernetes.io/managed-by"] = manager
		}
		if manager != "culvert.dev" {
			endpoints = large
		}
		text, err := json.Marshal(labels)
		if err != nil {
			t.Fatal(err)
		}
		r.Must(http.MethodPost, slicesPath, fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":%q,"labels":%s,"finalizers":%s},
			"addressType":"IPv4","ports":[{"port":80}],"endpoints":[{"addresses":%s}]}`, name, text, map[bool]string{true: `["example.com/x"]`, false: "[]"}[name == "held"], endpoints))
	}
	c := followServices(t, r.Config())
	expect := func(why string, want int) {
		t.Helper()
		apiserver.Eventually(t, why, func() error {
			in, known := c.Services()
			if !known || len(in.Services) != 1 || len(in.Slices) != want {
				return fmt.Errorf("known %t, %d Services, %d slices", known, len(in.Services), len(in.Slices))
			}
			for _, s := range in.Slices {
				if len(s.Endpoints) != 1 || s.Endpoints[0].Addr.String() != "172.16.91.1" {
					return errors.New("endpoints of others are read")
				}
			}
			return nil
		})
	}
	expect("the slices of Culvert", 2)
	r.Must(http.MethodDelete, slicesPath+"/held", "")
	expect("without the one that is being deleted", 1)
}

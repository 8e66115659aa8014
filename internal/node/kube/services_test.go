package kube

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/node/service/table"
)

// fieldsOf reads an object's fields from JSON.
func fieldsOf(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestServices: Services come with Culvert's slices, and only then; conditions and values that are
// not set have the meaning that kube-proxy gives them. A change wakes the reader, which then reads
// the changed objects.
func TestServices(t *testing.T) {
	s, config := newAPI(t)
	s.add("services", "default", "web", map[string]any{"annotations": map[string]any{"culvert.dev/network": "net1", "culvert.dev/fallback": "default-network"}},
		fieldsOf(t, `{"spec": {"clusterIPs": ["10.96.0.1", "fd96::1"], "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Local",
			"ports": [{"name": "http", "port": 80}, {"name": "odd", "port": 81, "protocol": "DCCP"}, {"name": "sig", "port": 82, "protocol": "SCTP"}]}}`))
	s.add("services", "default", "other", nil, fieldsOf(t, `{"spec": {"clusterIPs": ["10.96.0.2"]}}`))
	labels := map[string]any{"labels": map[string]any{"endpointslice.kubernetes.io/managed-by": "culvert.dev", "kubernetes.io/service-name": "web", "culvert.dev/network": "default.net1"}}
	slice := `{"addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": [
		{"addresses": ["172.16.91.1"], "nodeName": "n1", "hints": {"forZones": [{"name": "a"}], "forNodes": [{"name": "n2"}]}},
		{"addresses": ["172.16.91.2"], "conditions": {"ready": false, "serving": true, "terminating": true}}, {"addresses": ["no"]}, {"addresses": []}]}`
	s.add("endpointslices", "default", "web-1", labels, fieldsOf(t, slice))
	s.add("endpointslices", "default", "nameless", map[string]any{"labels": map[string]any{"culvert.dev/network": "default.net1"}}, nil)
	s.add("nodes", "", "n1", map[string]any{"labels": map[string]any{"topology.kubernetes.io/zone": "z"}}, nil)
	c, err := New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, known := c.Services(); known {
		t.Error("known before they are followed")
	}
	if err := c.FollowServices(); err != nil {
		t.Fatal(err)
	}
	runClient(t, c)
	read := func() table.Input {
		for {
			if in, known := c.Services(); known {
				return in
			}
			awaitServices(t, c)
		}
	}
	want := table.Input{
		Node: table.Node{Name: "n1", Zone: "z"},
		Services: []*table.Service{{
			Name: "default/web", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd96::1")}, Local: true, Fallback: true, Affinity: 3 * time.Hour,
			Ports: []table.Port{{Name: "http", Number: 80, Protocol: balance.TCP}, {Name: "sig", Number: 82, Protocol: balance.SCTP}},
		}},
		Slices: []*table.Slice{{
			Name: "default/web-1", Service: "default/web", Network: service.Network{Namespace: "default", Name: "net1"}, Ports: []table.Port{{Name: "http", Number: 8080, Protocol: balance.TCP}},
			Endpoints: []table.Endpoint{
				{Addr: netip.MustParseAddr("172.16.91.1"), Here: true, Ready: true, Serving: true, Nodes: []string{"n2"}, Zones: []string{"a"}},
				{Addr: netip.MustParseAddr("172.16.91.2"), Serving: true, Terminating: true},
			},
		}},
	}
	addresses := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(want, read(), addresses); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, asked := range []string{"LIST services spec.clusterIP!=None", "LIST endpointslices "} {
		if len(s.log(asked)) == 0 {
			t.Errorf("no %q among %q", asked, s.log("LIST"))
		}
	}
	s.add("endpointslices", "default", "web-1", labels, fieldsOf(t, strings.Replace(slice, "172.16.91.1", "172.16.91.9", 1)))
	want.Slices[0].Endpoints[0].Addr = netip.MustParseAddr("172.16.91.9")
	for end := time.Now().Add(time.Minute); !cmp.Equal(want, read(), addresses); awaitServices(t, c) {
		if time.Now().After(end) {
			t.Fatal("the change is not seen")
		}
	}
	if err := c.WhyNoServices(); err != nil {
		t.Error(err)
	}
}

func awaitServices(t *testing.T, c *Client) {
	t.Helper()
	select {
	case <-c.ServicesChanged():
	case <-time.After(5 * time.Minute):
		t.Fatal("the client does not wake its reader")
	}
}

// Tenants write Services of any size. A node keeps those that name a network, also if they name it later
// or no longer.
func TestI7ServicesOfOthersAreNotKept(t *testing.T) {
	s, config := newAPI(t)
	spec := fieldsOf(t, `{"spec": {"clusterIPs": ["10.96.0.1"], "ports": [{"port": 80}]}}`)
	named := map[string]any{"annotations": map[string]any{"culvert.dev/network": "net1"}}
	s.add("services", "default", "web", named, spec)
	s.add("services", "default", "other", nil, spec)
	c := followServices(t, config)
	kept := func() string {
		keys := c.services.all.GetStore().ListKeys()
		slices.Sort(keys)
		return strings.Join(keys, " ")
	}
	until(t, "the list", func() bool { return kept() == "default/web" })
	s.add("services", "default", "late", nil, spec)
	s.add("services", "default", "other", named, spec)
	until(t, "a Service that names a network later", func() bool { return kept() == "default/other default/web" })
	s.add("services", "default", "web", nil, spec)
	until(t, "a Service that names none any more", func() bool { return kept() == "default/other" })
}

// TestServicesOfDefaultNetworks: a node keeps the Services that the controller serves over a default
// network, which have no annotation that names it.
func TestServicesOfDefaultNetworks(t *testing.T) {
	s, config := newAPI(t)
	labels := func(of string) map[string]any {
		return map[string]any{"labels": map[string]any{"endpointslice.kubernetes.io/managed-by": "culvert.dev", "kubernetes.io/service-name": of, "culvert.dev/network": "default.net1"}}
	}
	s.add("services", "default", "keyed", nil, fieldsOf(t, `{"spec": {"clusterIPs": ["10.96.0.1"], "selector": {"app": "web", "endpoints.culvert.dev/network": "default.net1"}}}`))
	s.add("services", "default", "with-fallback", map[string]any{"annotations": map[string]any{"culvert.dev/fallback": "default-network"}}, fieldsOf(t, `{"spec": {"clusterIPs": ["10.96.0.2"]}}`))
	s.add("services", "default", "other", nil, fieldsOf(t, `{"spec": {"clusterIPs": ["10.96.0.3"], "selector": {"app": "web"}}}`))
	s.add("endpointslices", "default", "keyed-1", labels("keyed"), nil)
	s.add("endpointslices", "default", "with-fallback-1", labels("with-fallback"), nil)
	c := followServices(t, config)
	until(t, "the Services", func() bool { in, known := c.Services(); return known && len(in.Services) == 2 })
	if keys := c.services.all.GetStore().ListKeys(); slices.Contains(keys, "default/other") {
		t.Errorf("kept are %q", keys)
	}
}

// TestI9SliceThatIsHeld: a slice that is being deleted does not count, also while a finalizer of its
// namespace's owner keeps it. The controller has made another slice, and changes this one no more. Its
// address may be another pod's by now.
func TestI9SliceThatIsHeld(t *testing.T) {
	s, config := newAPI(t)
	meta := map[string]any{"labels": map[string]any{"endpointslice.kubernetes.io/managed-by": "culvert.dev", "kubernetes.io/service-name": "web", "culvert.dev/network": "default.net1"}}
	spec := fieldsOf(t, `{"endpoints": [{"addresses": ["172.16.91.1"]}]}`)
	s.add("endpointslices", "default", "web-1", meta, spec)
	s.add("endpointslices", "default", "web-2", meta, spec)
	c := followServices(t, config)
	count := func(want int) func() bool {
		return func() bool { in, known := c.Services(); return known && len(in.Slices) == want }
	}
	until(t, "both slices", count(2))
	meta["deletionTimestamp"], meta["finalizers"] = "2026-01-01T00:00:00Z", []any{"example.com/x"}
	s.add("endpointslices", "default", "web-1", meta, spec)
	until(t, "a slice that is being deleted", count(1))
	next := followServices(t, config)
	until(t, "the list", func() bool { _, known := next.Services(); return known })
	if in, _ := next.Services(); len(in.Slices) != 1 {
		t.Errorf("a culvertd that starts has %d slices", len(in.Slices))
	}
}

// followServices runs a client that follows Services.
func followServices(t *testing.T, config *rest.Config) *Client {
	t.Helper()
	c, err := New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.FollowServices(); err != nil {
		t.Fatal(err)
	}
	runClient(t, c)
	return c
}

// TestServicesRefused: an API server that refuses EndpointSlices is the reason that is shown.
func TestServicesRefused(t *testing.T) {
	s, config := newAPI(t)
	s.absent = []string{"endpointslices"}
	c, err := New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.FollowServices(); err != nil {
		t.Fatal(err)
	}
	runClient(t, c)
	until(t, "a reason", func() bool { return c.WhyNoServices() != nil })
	if _, known := c.Services(); known {
		t.Error("known without EndpointSlices")
	}
}

// TestServicesWaitForPods: Services are not known before the node's pods are, and the reader is woken
// then, also if the node has none. A culvertd that is restarted beside Multus reads in the pods'
// network-status which networks they have, and would else balance for none of them at first.
func TestServicesWaitForPods(t *testing.T) {
	s, config := newAPI(t)
	s.absent = []string{"pods"}
	c, err := New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.FollowServices(); err != nil {
		t.Fatal(err)
	}
	startClient(t, c)
	until(t, "the Services, the EndpointSlices, the node, and a reason why pods are not known", func() bool {
		err := c.WhyNoServices()
		return c.services.all.HasSynced() && c.services.slices.HasSynced() && c.objects.self.HasSynced() && err != nil && strings.Contains(err.Error(), "pods")
	})
	if _, known := c.Services(); known {
		t.Error("known without the node's pods")
	}
	s.mu.Lock()
	s.absent = nil
	s.mu.Unlock()
	for known := false; !known; _, known = c.Services() {
		awaitServices(t, c)
	}
	if !c.pods.HasSynced() {
		t.Error("Services are known, and the node's pods are not")
	}
}

// FuzzServices: the values that are read from any objects of the API server are valid addresses and
// ports.
func FuzzServices(f *testing.F) {
	f.Add([]byte(`{"metadata":{"namespace":"a","name":"b","labels":{"kubernetes.io/service-name":"b","culvert.dev/network":"a.n"}},"spec":{"clusterIPs":["10.0.0.1"],"ports":[{"port":80}],"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":5}}},"ports":[{"port":1}],"endpoints":[{"addresses":["::1"],"conditions":{"ready":null}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s clusterService
		if json.Unmarshal(raw, &s) == nil {
			out := s.parseService()
			for _, p := range out.Ports {
				if p.Number == 0 || p.Protocol == 0 || out.Affinity < 0 {
					t.Fatalf("%+v", out)
				}
			}
		}
		var e endpointSlice
		if json.Unmarshal(raw, &e) == nil {
			if out := e.parseSlice("n"); out != nil {
				for _, at := range out.Endpoints {
					if !at.Addr.IsValid() || at.Addr.Is4In6() {
						t.Fatalf("%+v", out)
					}
				}
			}
		}
	})
}

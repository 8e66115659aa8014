package pod_test

import (
	"slices"
	"strings"
	"testing"
)

// A pod gets one warning if its VF's network takes the traffic of a default network that has nothing
// but a default route, as Calico. It gets none if the pod asks for that default route, if the network
// gives its route a priority, or if the default network has other routes.
func TestDefaultRouteIsReplaced(t *testing.T) {
	const calico, routeless = `{"name":"k8s","cniVersion":"0.3.1","plugins":[{"type":"calico"}]}`, `"routes":[]`
	const route = `"routes":[{"dst":"0.0.0.0/0"}]`
	for name, tc := range map[string]struct {
		conflist, ipam, asks string
		warned               []string // the networks that the one event names
	}{
		"Calico":                    {calico, route, "v", []string{"d/v (net1)"}},
		"two networks":              {calico, route, "v,w", []string{"d/v (net1)", "d/w (net2)"}},
		"it has other routes":       {flannel, route, "v", nil},
		"no default route":          {calico, routeless, "v", nil},
		"another route":             {calico, `"routes":[{"dst":"10.0.0.0/8"}]`, "v", nil},
		"a priority":                {calico, `"routes":[{"dst":"0.0.0.0/0","priority":100}]`, "v", nil},
		"the pod asks for it":       {calico, route, `[{"name":"v","default-route":["172.16.91.1"]}]`, nil},
		"it asks for the network's": {calico, route, `[{"name":"v","default-route":[]}]`, nil},
		"a network that is no VF's": {calico, route, "lan", nil},
		"the network's own gateway": {calico, `"routes":[{"dst":"0.0.0.0/0","gw":"172.16.91.7"}]`, "v", []string{"d/v (net1)"}},
		"no network besides":        {calico, route, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.file("10-flannel.conflist", tc.conflist)
			for _, n := range []string{"v", "w"} {
				w.network(n, strings.Replace(sriov, route, tc.ipam, 1))
			}
			w.network("lan", `{"cniVersion":"1.0.0","type":"bridge"}`)
			w.asks(tc.asks)
			w.add()
			var got []string
			for _, e := range w.cluster.events {
				text, ok := strings.CutPrefix(e, "d/a Warning DefaultRouteReplaced ")
				if !ok {
					continue
				}
				if got != nil {
					t.Errorf("events %q, want one", w.cluster.events)
				}
				for part := range strings.SplitSeq(text, "; network ") {
					network, _, _ := strings.Cut(strings.TrimPrefix(part, "network "), ":")
					got = append(got, network)
				}
				for _, part := range []string{"goes before the one of eth0", "give it a priority", "default-route in the annotation", "sends to 172.16.91."} {
					if !strings.Contains(text, part) {
						t.Errorf("the event lacks %q: %s", part, text)
					}
				}
			}
			if !slices.Equal(got, tc.warned) {
				t.Errorf("warned of %q, want %q", got, tc.warned)
			}
			w.del()
			w.clean()
		})
	}
}

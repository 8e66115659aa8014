package pod_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/vf"
)

// judgePod returns the answer of pod.Judge about pod d/a, by the rules and networks of the world.
func (w *world) judgePod() (ignored, unknown []string, err error) {
	w.Helper()
	find := func(namespace, name string) (api.NetworkDefinition, error) {
		return w.cluster.Network(w.Context(), namespace, name)
	}
	return pod.Judge(w.Context(), w.cluster.pods["d/a"], pod.Rules{Find: find, Isolation: w.pods.Isolation})
}

// wantParts fails unless a text has all parts, or is empty where there are none.
func (w *world) wantParts(speaker, text string, parts ...string) {
	w.Helper()
	if (text == "") != (len(parts) == 0) {
		w.Errorf("%s says %q, want %q", speaker, text, parts)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			w.Errorf("%s says %q, want %q", speaker, text, part)
		}
	}
}

// culvert net check refuses a pod that a node refuses, for the same reason, and no other pod.
// It lists the requests of the pod that the node's event lists as ignored.
func TestJudgeAgreesWithNodes(t *testing.T) {
	const capable = `"type":"sriov","capabilities":{"mac":true,"ips":true}`
	for name, tc := range map[string]struct {
		annotation, defaultNetwork string
		refused                    []string // parts of the refusal
		ignored                    []string
	}{
		"no annotation":                   {},
		"networks of its namespace":       {annotation: "v,capable@x"},
		"a network of a global namespace": {annotation: "shared/v"},
		"a network that admits the pod":   {annotation: "open/v"},
		"a network of another namespace": {
			annotation: "v,other/v", refused: []string{"network other/v (net2): invalid: pods of namespace d may use networks of their own namespace and of shared, kube-system only"},
		},
		"a network that does not exist there": {annotation: "other/none", refused: []string{"network other/none (net1): invalid: pods of namespace d"}},
		"an annotation that cannot be read":   {annotation: "v,a b", refused: []string{"annotation k8s.v1.cni.cncf.io/networks: element 2"}},
		"one interface twice":                 {annotation: "v@x,capable@x", refused: []string{"annotation k8s.v1.cni.cncf.io/networks: interface x"}},
		"the interface of another network":    {annotation: "v@net2,capable", refused: []string{"network d/capable (net2): interface net2: invalid: network d/v has that name"}},
		"two default routes": {
			annotation: `[{"name":"v","default-route":["172.16.91.8"]},{"name":"v","default-route":["172.16.91.9"]}]`,
			refused:    []string{"network d/v (net2): default-route 172.16.91.9: invalid: network d/v has one already"},
		},
		"requests that count": {annotation: `[{"name":"capable","mac":"02:00:00:00:00:09","ips":["172.16.91.9"]}]`},
		"requests that no plugin takes": {
			annotation: `[{"name":"v","mac":"02:00:00:00:00:09","ips":["172.16.91.9"],"colour":"red"},{"name":"capable","cni-args":{"mac":"02:00:00:00:00:07"}}]`,
			ignored:    []string{`network d/v: key "colour" of the annotation is unknown`},
		},
		"a MAC address of a group": {
			annotation: `[{"name":"capable","mac":"01:00:00:00:00:09"}]`, refused: []string{`network d/capable (net1): `, `MAC address "01:00:00:00:00:09": want a unicast address`},
		},
		"a network with a wrong value":     {annotation: "v,wrong", refused: []string{"network d/wrong (net2): ", "vlan 5000: want a number between 0 and 4094"}},
		"a network that cannot be read":    {annotation: "broken,v", refused: []string{"network d/broken (net1): spec.config: invalid: not a JSON object"}},
		"a request that a VF cannot serve": {annotation: `[{"name":"strict","bandwidth":{"ingressRate":1}}]`, refused: []string{"network d/strict (net1): ", "bandwidth", "max_tx_rate"}},
		"devices of a resource":            {annotation: "pooled,pooled,v"},
		"another default network":          {defaultNetwork: "v", annotation: "v"},
		"a default network with requests":  {defaultNetwork: `[{"name":"v","mac":"02:00:00:00:00:09"}]`},
		"a name for the default network":   {defaultNetwork: "v@eth7", ignored: []string{"network kube-system/v: interface eth7 is asked for"}},
		"two default networks":             {defaultNetwork: "v,none", refused: []string{"annotation v1.multus-cni.io/default-network: invalid: it names 2 networks; want one"}},
		"the default network's interface": {
			defaultNetwork: "v", annotation: "v@eth0", refused: []string{"network d/v (eth0): interface eth0: invalid: network kube-system/v has that name"},
		},
		"a default network that cannot be read": {
			defaultNetwork: "a b", annotation: "v", refused: []string{"annotation v1.multus-cni.io/default-network: element 1"},
		},
		"a default network of another namespace": {defaultNetwork: "other/v", refused: []string{"network other/v", "invalid: pods of namespace d"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pods.Isolation = netannotation.Isolation{On: true, Global: []string{"shared", "kube-system"}}
			for _, namespace := range []string{"d", "shared", "kube-system", "other", "open"} {
				w.network(namespace+"/v", sriov)
			}
			w.cluster.networks["open/v"].Annotations[netannotation.Namespaces] = "d"
			w.network("capable", strings.Replace(sriov, `"type":"sriov"`, capable, 1))
			w.network("pooled", sriov, "intel.com/fast")
			w.network("wrong", `{"type":"culvert","vlan":5000}`)
			w.network("broken", `{`)
			w.network("strict", strings.Replace(sriov, `"type":"sriov"`, `"type":"culvert"`, 1))
			w.given["d/a/intel.com/fast"] = w.vfs()[:2]
			w.pod(map[string]string{netannotation.Networks: tc.annotation, netannotation.DefaultNetwork: tc.defaultNetwork})

			ignored, unknown, err := w.judgePod()
			judged, node := "", ""
			if err != nil {
				judged = err.Error()
			}
			if len(tc.refused) > 0 {
				node = w.refused()
			} else {
				w.add()
				w.wantIgnored(tc.ignored...)
				w.del()
			}
			w.wantParts("Judge", judged, tc.refused...)
			w.wantParts("the node", node, tc.refused...)
			if len(tc.refused) == 0 && !slices.EqualFunc(ignored, tc.ignored, strings.Contains) || len(unknown) > 0 {
				t.Errorf("ignored %q, want %q; unknown %q", ignored, tc.ignored, unknown)
			}
		})
	}
}

// culvert net check judges the networks that its files have. It names those that are missing, and
// every network that is wrong, so that one network hides no other.
func TestJudgeKnowsNoNode(t *testing.T) {
	failed := errors.New("the API server does not answer")
	const capable = `{"type":"sriov","cniVersion":"1.0.0","name":"n","capabilities":{"mac":true},"spoofChk":"on"}`
	for name, tc := range map[string]struct {
		annotation, defaultNetwork string
		ignored, unknown, refused  []string
	}{
		"networks that are missing": {annotation: "none,v,nix@x", defaultNetwork: "flannel", unknown: []string{"kube-system/flannel", "d/none", "d/nix"}},
		"a missing one beside a request": {
			annotation: `[{"name":"none","mac":"02:00:00:00:00:09"},{"name":"v","portMappings":[{"hostPort":1,"containerPort":2}]}]`, unknown: []string{"d/none"}, ignored: []string{"network d/v: portMappings is asked for"},
		},
		"several that are wrong": {
			annotation: "broken,v,wrong@x,v@net2", refused: []string{"network d/broken (net1): spec.config", "network d/wrong (x): vlan 5000", "network d/v (net2): interface net2"},
		},
		"both annotations": {
			annotation: "broken", defaultNetwork: "a b", refused: []string{"annotation v1.multus-cni.io/default-network", "network d/broken (net1): spec.config"},
		},
		"a network that cannot be looked up": {annotation: "v,failing", refused: []string{"network d/failing (net2): the API server does not answer"}},
		"a device that the kubelet has to give": {
			annotation: `[{"name":"v","deviceID":"0000:01:10.0"}]`, ignored: []string{`network d/v: deviceID "0000:01:10.0" counts where the kubelet gives the pod that VF`},
		},
		"a static network, no address":   {annotation: "static", refused: []string{"network d/static (net1): network static: invalid: ipam of type static has no address"}},
		"a static network, an address":   {annotation: `[{"name":"static","ips":["172.16.91.77/24"]}]`},
		"an address by cni-args":         {annotation: `[{"name":"static","cni-args":{"ips":["172.16.91.77/24"]}}]`},
		"addresses that none gives":      {annotation: `[{"name":"capable","ips":["172.16.91.77/24"]}]`, ignored: []string{"network d/capable: addresses are asked for, and it has no ipam section"}},
		"two MAC addresses":              {annotation: `[{"name":"v","mac":"02:00:00:00:00:08","cni-args":{"MAC":"02:00:00:00:00:09"}}]`, refused: []string{"network d/v (net1): network sriov-network: invalid: MAC address 02:00:00:00:00:08 is asked for"}},
		"a bond of a resource":           {annotation: "bond,bond"},
		"devices for the most bonds":     {annotation: strings.Repeat("bond,", 63) + "bond"},
		"devices for the most networks":  {annotation: strings.Repeat("pooled,", 63) + "pooled"},
		"a warning about the pod":        {annotation: `[{"name":"capable","bandwidth":{"ingressRate":5}}]`, ignored: []string{"bandwidth"}},
		"a warning about the network":    {annotation: "capable"},
		"a network of no plugin of ours": {annotation: "bridge"},
	} {
		t.Run(name, func(t *testing.T) {
			networks := map[string]api.NetworkDefinition{}
			for n, config := range map[string]string{
				"d/v": sriov, "d/pooled": sriov, "d/capable": capable, "d/broken": `{`, "d/wrong": `{"type":"culvert","vlan":5000}`, "d/bridge": `{"type":"bridge","vlan":5000,"mac":"x"}`,
				"d/bond": `{"type":"culvert","bond":{"links":8}}`, "d/static": `{"type":"sriov","cniVersion":"1.0.0","ipam":{"type":"static"}}`,
			} {
				namespace, bare, _ := strings.Cut(n, "/")
				networks[n] = api.NetworkDefinition{Namespace: namespace, Name: bare, Config: config, Annotations: map[string]string{}}
			}
			for _, n := range []string{"d/pooled", "d/bond"} {
				networks[n].Annotations[netannotation.ResourceName] = "intel.com/fast"
			}
			find := func(namespace, name string) (api.NetworkDefinition, error) {
				n, found := networks[namespace+"/"+name]
				switch {
				case name == "failing":
					return n, failed
				case !found:
					return n, fmt.Errorf("network %s/%s: %w", namespace, name, vf.ErrNotFound)
				}
				return n, nil
			}
			p := api.Pod{Namespace: "d", Name: "a", Annotations: map[string]string{netannotation.Networks: tc.annotation, netannotation.DefaultNetwork: tc.defaultNetwork}}
			ignored, unknown, err := pod.Judge(t.Context(), p, pod.Rules{Find: find})
			if !slices.EqualFunc(ignored, tc.ignored, strings.Contains) || !slices.Equal(unknown, tc.unknown) {
				t.Errorf("ignored %q, want %q; unknown %q, want %q", ignored, tc.ignored, unknown, tc.unknown)
			}
			var reasons []string
			if err != nil {
				reasons = strings.Split(err.Error(), "\n")
			}
			if !slices.EqualFunc(reasons, tc.refused, strings.Contains) {
				t.Errorf("refused %q, want %q", reasons, tc.refused)
			}
			if tc.annotation == "v,failing" && !errors.Is(err, failed) {
				t.Errorf("the cause is lost: %v", err)
			}
		})
	}
}

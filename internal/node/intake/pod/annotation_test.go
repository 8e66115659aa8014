package pod_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/vf"
)

// culvertd emits one event, in Multus' words, for each network that a pod asks for. It emits none
// for the default network of the node, and none when it writes the network-status again.
func TestAddedInterfaceIsToldOnce(t *testing.T) {
	const two = `{"type":"host-local","scope":"node","ranges":[[{"subnet":"172.16.91.0/24"}],[{"subnet":"fd00::/64"}]]}`
	w := newWorld(t)
	w.network("sriov-net1", sriov)
	w.network("both", strings.Replace(stackable, "}", `,"ipam":`+two+"}", 1))
	w.network("plain", stackable)
	w.network("kube-system/v", sriov)
	w.asks("sriov-net1,both@x,plain")
	w.add()
	if err := w.pods.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"d/a Normal AddedInterface Add net1 [172.16.91.2/24] from d/sriov-net1",
		"d/a Normal AddedInterface Add x [172.16.91.2/24 fd00::2/64] from d/both",
		"d/a Normal AddedInterface Add net3 [] from d/plain",
	}
	if got := w.cluster.events; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	w.del()
	w.cluster.events = nil
	w.pod(map[string]string{netannotation.DefaultNetwork: "v"})
	w.add()
	if got := w.cluster.events; len(got) != 1 || !strings.HasSuffix(got[0], "Add eth0 [172.16.91.2/24] from kube-system/v") {
		t.Errorf("events of a default network that the pod names: %q", got)
	}
	w.del()
	w.clean()
}

// One event lists all that is ignored: unknown keys, capabilities that no plugin has, and a device
// that the kubelet did not choose.
func TestWhatIsIgnoredIsOneEvent(t *testing.T) {
	w := newWorld(t)
	w.network("v", stackable, "intel.com/fast")
	w.given["d/a/intel.com/fast"] = w.vfs()[:1]
	w.asks(`[{"name":"v","ipRequest":"1.2.3.4","portMappings":[{"hostPort":1,"containerPort":2}],"deviceID":"` + w.vfs()[1].String() + `"}]`)
	w.add()
	w.wantIgnored(`network d/v: key "ipRequest" of the annotation is unknown`, "network d/v: portMappings is asked for",
		"network d/v: deviceID \""+w.vfs()[1].String()+"\" is asked for, and the kubelet chose "+w.vfs()[0].String()+" of intel.com/fast")
	if st := w.status()[1]; fmt.Sprint(st["device-info"]) != fmt.Sprintf("map[pci:map[pci-address:%s pf-pci-address:0000:01:00.0] type:pci version:1.1.0]", w.vfs()[0]) {
		t.Errorf("the pod has %v", st)
	}
	w.del()
	w.clean()
}

// An empty default-route sends the pod's default route over that network, by the gateway
// that the network itself has.
func TestEmptyDefaultRoute(t *testing.T) {
	const routed, gateway = `"routes":[{"dst":"0.0.0.0/0"}],"gateway":"172.16.91.1"`, `"gateway":"172.16.91.1"`
	for name, tc := range map[string]struct {
		ipam, asks, want, ignored string
	}{
		"its route":            {routed, `[{"name":"v","default-route":[]}]`, "172.16.91.1", ""},
		"its gateway":          {gateway, `[{"name":"v","default-route":[]}]`, "172.16.91.1", ""},
		"nothing asked":        {routed, `[{"name":"v"}]`, "172.16.91.1", ""},
		"null":                 {routed, `[{"name":"v","default-route":null}]`, "172.16.91.1", ""},
		"another one is named": {routed, `[{"name":"v","default-route":[]},{"name":"v","default-route":["172.16.91.9"]}]`, "", ""},
		"without an ipam":      {"", `[{"name":"plain","default-route":[]}]`, "", "network d/plain: default-route is an empty list"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("v", strings.Replace(stackable, "}", `,"ipam":{"type":"host-local","scope":"node","subnet":"172.16.91.0/24",`+tc.ipam+"}}", 1))
			w.network("plain", stackable)
			w.asks(tc.asks)
			w.add()
			got := ""
			if g, ok := w.status()[1]["gateway"].([]any); ok {
				got = fmt.Sprint(g...)
			}
			if got != tc.want {
				t.Errorf("the gateway is %q, want %q", got, tc.want)
			}
			if moved := w.status()[0]["gateway"] == nil; moved != (strings.Contains(tc.asks, `"default-route":["`) || strings.Contains(tc.asks, `"v","default-route":[]`)) {
				t.Errorf("network-status %v", w.status())
			}
			if tc.ignored != "" {
				w.wantIgnored(tc.ignored)
			}
			w.del()
			w.clean()
		})
	}
}

// I9: the deviceID of an annotation counts where the kubelet gave that VF to the pod.
func TestI9DeviceOfAnAnnotation(t *testing.T) {
	w := newWorld(t)
	w.network("v", stackable)
	w.network("h", `{"cniVersion":"1.0.0","type":"host-device","capabilities":{"deviceID":true}}`)
	w.network("m", `{"cniVersion":"1.0.0","type":"macvlan"}`)
	mine, other := w.vfs()[2], w.vfs()[3]
	for _, name := range []string{"v", "h"} {
		for _, id := range []string{other.String(), "eth0"} {
			w.given = map[string][]vf.PCIAddr{"d/a/": {mine}}
			w.asks(`[{"name":"` + name + `","deviceID":"` + id + `"}]`)
			if msg := w.refused(); !strings.Contains(msg, "network d/"+name+" (net1): deviceID") {
				t.Error(msg)
			}
		}
	}
	w.asks(`[{"name":"v","deviceID":"` + mine.String() + `"},{"name":"h","deviceID":"` + mine.String() + `"},{"name":"m","deviceID":"` + mine.String() + `"}]`)
	w.cluster.events = nil
	w.add()
	for _, r := range w.content().Records {
		if r.Held() != (r.PCI == mine) {
			t.Errorf("VF %s is held: %v", r.PCI, r.Held())
		}
	}
	if got := w.host.config(t, "ADD", "host-device")["runtimeConfig"]; fmt.Sprint(got) != fmt.Sprintf("map[deviceID:%s]", mine) {
		t.Errorf("host-device got %v", got)
	}
	w.wantIgnored("network d/m: deviceID is asked for")
	w.del()
	w.clean()
}

// The addresses of a pod's VFs, as the ledger has them, are in the request that writes its
// network-status; those of other plugins' interfaces are not.
func TestAddressesAreConfirmed(t *testing.T) {
	w := newWorld(t)
	w.network("v", sriov)
	w.network("m", `{"cniVersion":"1.0.0","type":"macvlan"}`)
	w.asks("v,m,v@second")
	before := time.Now()
	w.add()
	got, err := netannotation.ParseConfirmation(w.cluster.confirmed["d/a"])
	if err != nil || got.At.Before(before) || got.At.After(time.Now()) {
		t.Errorf("%q: %v", w.cluster.confirmed["d/a"], err)
	}
	want := netannotation.Confirmation{Pod: "u1", At: got.At, VFs: []netannotation.ConfirmedVF{
		{Interface: "net1", Network: "d/v", Pool: "intel.com/fast", Addresses: []string{"172.16.91.2/24"}},
		{Interface: "second", Network: "d/v", Pool: "intel.com/fast", Addresses: []string{"172.16.91.3/24"}},
	}}
	if !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	w.del()
	w.asks("m")
	w.add()
	if text := w.cluster.confirmed["d/a"]; text != "" {
		t.Errorf("a pod without a VF has confirmation %s", text)
	}
	w.del()
	w.clean()
}

// A pod causes these writes: its network-status, and an event of each network that it asks for.
// TestWritesOfWorkloads in package membership counts those of the NodeState.
func TestWritesOfAnAttach(t *testing.T) {
	w := newWorld(t)
	w.network("v", stackable)
	const pods = 20
	for range pods {
		w.asks("v")
		w.add()
		w.del()
	}
	if n := w.cluster.writes; n != 2*pods {
		t.Errorf("%d pods with a VF are %d writes, want %d", pods, n, 2*pods)
	}
	w.cluster.writes = 0
	w.asks("v,v")
	w.add()
	if n := w.cluster.writes; n != 3 {
		t.Errorf("a pod with two VFs is %d writes, want 3", n)
	}
	w.del()
	w.clean()
}

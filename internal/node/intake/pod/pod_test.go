package pod_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A pod that asks for nothing gets the default network, by the shim, as the runtime
// would have run it.
func TestDefaultNetworkAlone(t *testing.T) {
	w := newWorld(t)
	w.pod(nil)
	resp := w.call("ADD", `,"runtimeConfig":{"portMappings":[{"hostPort":80,"containerPort":80}],"bandwidth":{}}`)
	var got map[string]any
	if err := json.Unmarshal(resp.Stdout, &got); err != nil || resp.Exit != 0 {
		t.Fatalf("exit %d: %s", resp.Exit, resp.Stdout)
	}
	if got["cniVersion"] != "1.0.0" || !strings.Contains(string(resp.Stdout), "10.244.1.2/24") {
		t.Errorf("the result is %s", resp.Stdout)
	}
	portmap := w.host.config(t, "ADD", "portmap")
	want := map[string]any{"portMappings": []any{map[string]any{"hostPort": 80.0, "containerPort": 80.0}}}
	if d := cmp.Diff(want, portmap["runtimeConfig"]); d != "" || portmap["prevResult"] == nil || portmap["name"] != "cbr0" || portmap["cniVersion"] != "0.3.1" {
		t.Errorf("portmap got %v\n%s", portmap, d)
	}
	if rc := w.host.config(t, "ADD", "flannel")["runtimeConfig"]; rc != nil {
		t.Errorf("flannel, which has no capabilities, got %v", rc)
	}
	if r := w.host.seen["ADD flannel"]; r.Netns != "/run/netns/c1" || r.IfName != "eth0" || r.Path != "/opt/cni/bin" || !strings.Contains(r.Args, "K8S_POD_NAME=a") {
		t.Errorf("flannel was called as %+v", r)
	}
	w.del()
	if c := w.host.called(); c[2] != "DEL portmap c1 eth0" || c[3] != "DEL flannel c1 eth0" {
		t.Errorf("calls: %v", c)
	}
	w.clean()
	w.del() // again
}

// R0: the network and the annotation of the manifest work as they stand.
func TestPodWithAVF(t *testing.T) {
	w := newWorld(t)
	w.network("sriov-net1", sriov, "intel.com/fast")
	w.asks("sriov-net1")
	second := w.vfs()[1]
	w.given["d/a/intel.com/fast"] = []vf.PCIAddr{second}
	result := w.add()
	if ips := fmt.Sprint(result["ips"]); !strings.Contains(ips, "10.244.1.2") || strings.Contains(ips, "172.16.91") {
		t.Errorf("the runtime's result is not the default network's: %v", result)
	}
	status := w.status()
	info := map[string]any{"type": "pci", "version": "1.1.0", "pci": map[string]any{"pci-address": second.String(), "pf-pci-address": "0000:01:00.0"}}
	delete(status[1], "mac")
	delete(status[1], "mtu")
	want := []map[string]any{
		{"name": "cbr0", "interface": "eth0", "ips": []any{"10.244.1.2"}, "mac": "02:00:00:00:00:01", "default": true, "dns": map[string]any{"nameservers": []any{"10.96.0.10"}}, "gateway": []any{"10.244.1.1"}},
		{"name": "d/sriov-net1", "interface": "net1", "ips": []any{"172.16.91.2"}, "dns": map[string]any{}, "device-info": info, "gateway": []any{"172.16.91.1"}},
	}
	if d := cmp.Diff(want, status); d != "" {
		t.Errorf("network-status (-want +got):\n%s", d)
	}
	raw, err := os.ReadFile(filepath.Join(w.dir, "devinfo", "cni", "c1-net1-device.json"))
	if err != nil || !strings.Contains(string(raw), second.String()) {
		t.Errorf("device-info: %s, %v", raw, err)
	}
	if resp := w.call("CHECK", ""); resp.Exit != 0 {
		t.Errorf("CHECK: %s", resp.Stdout)
	}
	if resp := w.call("ADD", ""); resp.Exit == 0 || !strings.Contains(string(resp.Stdout), "already") {
		t.Errorf("a second ADD: %s", resp.Stdout)
	}
	if err := w.k.Meddle(second, func(st *vf.State) { st.Link.Up = false }); err != nil {
		t.Fatal(err)
	}
	if resp := w.call("CHECK", ""); resp.Exit == 0 || !strings.Contains(string(resp.Stdout), "d/sriov-net1 (net1)") {
		t.Errorf("CHECK of what was changed: exit %d %s", resp.Exit, resp.Stdout)
	}
	w.del()
	w.clean()
	if resp := w.call("CHECK", ""); resp.Exit == 0 || !strings.Contains(string(resp.Stdout), `"code": 3`) {
		t.Errorf("CHECK after DEL: %s", resp.Stdout)
	}
}

// Everything that an element of the annotation may ask for reaches the plugins.
func TestAnnotationIsPassedOn(t *testing.T) {
	w := newWorld(t)
	w.network("fast", strings.Replace(sriov, `"name"`, `"capabilities":{"mac":true,"ips":true},"name"`, 1), "intel.com/fast")
	w.network("other/macvlan", `{"cniVersion":"1.0.0","plugins":[{"type":"macvlan","master":"eth1","capabilities":{"mac":true,"ips":true},"args":{"cni":{"old":1}}},{"type":"tuning","capabilities":{"bandwidth":true,"portMappings":true,"infinibandGUID":true}}]}`)
	w.given["d/a/intel.com/fast"] = w.vfs()[1:3]
	w.asks(`[{"name":"fast","interface":"vf0","mac":"02:11:22:33:44:55","ips":["172.16.91.77"]},
		{"name":"macvlan","namespace":"other","mac":"02:11:22:33:44:66","ips":["10.1.1.1/24"],"portMappings":[{"hostPort":1,"containerPort":2}],"bandwidth":{"ingressRate":9},"infiniband-guid":"c2:11:22:33:44:55:66:77","cni-args":{"k":"v"}},
		{"name":"fast","default-route":["172.16.91.1"]}]`)
	w.add()
	macvlan, tuning := w.host.config(t, "ADD", "macvlan"), w.host.config(t, "ADD", "tuning")
	want := map[string]any{"mac": "02:11:22:33:44:66", "ips": []any{"10.1.1.1/24"}}
	if d := cmp.Diff(want, macvlan["runtimeConfig"]); d != "" {
		t.Errorf("macvlan's runtimeConfig:\n%s", d)
	}
	want = map[string]any{"bandwidth": map[string]any{"ingressRate": 9.0}, "portMappings": []any{map[string]any{"hostPort": 1.0, "containerPort": 2.0}}, "infinibandGUID": "c2:11:22:33:44:55:66:77"}
	if d := cmp.Diff(want, tuning["runtimeConfig"]); d != "" {
		t.Errorf("tuning's runtimeConfig:\n%s", d)
	}
	if d := cmp.Diff(map[string]any{"cni": map[string]any{"old": 1.0, "k": "v"}}, macvlan["args"]); d != "" || macvlan["name"] != "macvlan" {
		t.Errorf("args of %v:\n%s", macvlan["name"], d)
	}
	status := w.status()
	if status[1]["mac"] != "02:11:22:33:44:55" || fmt.Sprint(status[1]["ips"]) != "[172.16.91.77]" || status[1]["interface"] != "vf0" {
		t.Errorf("the first VF is %v", status[1])
	}
	if status[2]["name"] != "other/macvlan" || status[2]["interface"] != "net2" || status[3]["interface"] != "net3" {
		t.Errorf("names: %v", status)
	}
	if status[0]["gateway"] != nil || fmt.Sprint(status[3]["gateway"]) != "[172.16.91.1]" {
		t.Errorf("gateways: %v and %v", status[0]["gateway"], status[3]["gateway"])
	}
	st, err := w.k.VF(t.Context(), w.vfs()[2], "/run/netns/c1")
	if err != nil || !strings.Contains(fmt.Sprint(st.Link.Routes), "0.0.0.0/0 via 172.16.91.1") {
		t.Errorf("%v, routes %v", err, st.Link)
	}
	w.del()
	w.clean()
}

// culvertd refuses a request that cannot succeed before it changes anything. The error, and an
// event of the pod, name pod, network and reason.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*world)
		want   []string
	}{
		"no such pod":       {func(w *world) { delete(w.cluster.pods, "d/a") }, []string{"pod d/a", "not found"}},
		"no such network":   {func(w *world) { w.asks("none") }, []string{"pod d/a", "network d/none (net1)", "not found"}},
		"annotation":        {func(w *world) { w.asks("a b") }, []string{"pod d/a", "k8s.v1.cni.cncf.io/networks"}},
		"all that is wrong": {func(w *world) { w.asks("none,nix@x") }, []string{"d/none (net1)", "d/nix (x)"}},
		"no device":         {func(w *world) { w.network("v", sriov, "intel.com/fast"); w.asks("v") }, []string{"network d/v (net1)", "intel.com/fast", "gave pod d/a 0 of them", "request 1"}},
		"too few devices": {func(w *world) {
			w.network("v", sriov, "intel.com/fast")
			w.given["d/a/intel.com/fast"] = w.vfs()[:1]
			w.asks("v,v")
		}, []string{"network d/v (net2)", "gave pod d/a 1 of them"}},
		"a meta plugin":       {func(w *world) { w.network("v", `{"type":"culvert","podNetworks":true}`); w.asks("v") }, []string{"meta plugin"}},
		"Multus in a network": {func(w *world) { w.network("v", `{"type":"multus","cniVersion":"1.0.0"}`); w.asks("v") }, []string{"meta plugin"}},
		"a path as type":      {func(w *world) { w.network("v", `{"type":"../../bin/sh","cniVersion":"1.0.0"}`); w.asks("v") }, []string{"network d/v (net1)", "want the name of a CNI plugin"}},
		"no JSON":             {func(w *world) { w.network("v", `{`); w.asks("v") }, []string{"network d/v (net1)", "spec.config"}},
		"unknown key":         {func(w *world) { w.network("v", `{"type":"culvert","cniVersion":"1.0.0","max-tx-rate":5}`); w.asks("v") }, []string{"did you mean max_tx_rate"}},
		"one name twice":      {func(w *world) { w.network("v", sriov); w.asks("v@net2,v") }, []string{"interface net2", "network d/v (net2)"}},
		"the default's name":  {func(w *world) { w.network("v", sriov); w.asks("v@eth0") }, []string{"interface eth0"}},
		"two default routes": {func(w *world) {
			w.network("v", sriov)
			w.asks(`[{"name":"v","default-route":["10.0.0.1"]},{"name":"v","default-route":["10.0.0.2"]}]`)
		}, []string{"default-route 10.0.0.2", "has one already"}},
		"an unreachable way":  {func(w *world) { w.network("v", sriov); w.asks(`[{"name":"v","default-route":["10.77.0.1"]}]`) }, []string{"network d/v (net1)", "default route", "10.77.0.1"}},
		"no file of the name": {func(w *world) { w.network("v", ""); w.asks("v") }, []string{"a network of the name v"}},
		"no default network":  {func(w *world) { w.pod(nil); os.Remove(filepath.Join(w.confDir, "10-flannel.conflist")) }, []string{"default network", "not found"}},
		"another default":     {func(w *world) { w.pod(map[string]string{"v1.multus-cni.io/default-network": "none"}) }, []string{"kube-system/none", "not found"}},
		"two default networks": {func(w *world) {
			w.network("kube-system/v", sriov)
			w.pod(map[string]string{"v1.multus-cni.io/default-network": "v,d/w"})
		}, []string{"default network", "v1.multus-cni.io/default-network", "it names 2 networks; want one"}},
		"the kubelet does not answer": {func(w *world) {
			w.network("v", sriov, "intel.com/fast")
			w.pods.Devices = func(context.Context, string, string, string) ([]string, error) {
				return nil, errors.New("connection refused")
			}
			w.asks("v")
		}, []string{"network d/v (net1): which intel.com/fast the pod has: connection refused"}},
		"the kubelet does not answer about a device": {func(w *world) {
			w.network("v", sriov)
			w.pods.Devices = func(context.Context, string, string, string) ([]string, error) {
				return nil, errors.New("connection refused")
			}
			w.asks(`[{"name":"v","deviceID":"` + w.vfs()[0].String() + `"}]`)
		}, []string{"network d/v (net1): which devices the pod has: connection refused"}},
		"the plugin's reason": {func(w *world) { w.pod(nil); w.host.fail = when("ADD", "portmap", "no iptables") }, []string{"pod d/a: network cbr0 (eth0): plugin portmap: ADD: no iptables"}},
		"bandwidth of a VF": {func(w *world) {
			w.network("v", strings.Replace(sriov, `"type":"sriov"`, `"type":"culvert"`, 1))
			w.asks(`[{"name":"v","bandwidth":{"ingressRate":1}}]`)
		}, []string{"bandwidth", "max_tx_rate"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.before(w)
			msg := w.refused()
			for _, part := range tc.want {
				if !strings.Contains(msg, part) {
					t.Errorf("%q does not say %q", msg, part)
				}
			}
			if strings.Contains(msg, "\n") || strings.Count(msg, "pod d/a:") != 1 {
				t.Errorf("%q has several lines, or names the pod twice", msg)
			}
			if e := w.cluster.events; name != "no such pod" && (len(e) != 1 || !strings.HasPrefix(e[0], "d/a Warning NetworkFailed pod d/a: ")) {
				t.Errorf("events: %v", e)
			}
			if w.cluster.status["d/a"] != "" {
				t.Error("a network-status was written")
			}
		})
	}
}

// A network of another plugin that is too large is refused before a plugin runs, by its
// name, size and limit, and so are networks that are too large only together.
func TestNetworksAreBounded(t *testing.T) {
	bridge := func(bytes int) string {
		return fmt.Sprintf(`{"type":"bridge","cniVersion":"1.0.0","x":%q}`, strings.Repeat("x", bytes))
	}
	many := strings.TrimSuffix(strings.Repeat(`{"type":"bridge"},`, netconf.MaxPlugins), ",")
	for name, tc := range map[string]struct {
		config, asked string
		want          []string
	}{
		"one":         {bridge(1200 << 10), "big", []string{"network d/big (net1)", "it has 1228", "want at most 65536"}},
		"64 times":    {bridge(60 << 10), strings.TrimSuffix(strings.Repeat("big,", 64), ","), []string{"network d/big (net5)", "up to it have 307", "want at most 262144"}},
		"its args":    {`{"cniVersion":"1.0.0","plugins":[` + many + `]}`, `[{"name":"big","cni-args":{"k":"` + strings.Repeat("x", 50<<10) + `"}}]`, []string{"network d/big (net1)", "with its cni-args", "want at most 65536"}},
		"the default": {bridge(1200 << 10), "", []string{"default network", "network kube-system/big", "want at most 65536"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("big", tc.config)
			w.network("kube-system/big", tc.config)
			w.asks(tc.asked)
			if tc.asked == "" {
				w.pod(map[string]string{"v1.multus-cni.io/default-network": "big"})
			}
			msg := w.refused()
			for _, part := range tc.want {
				if !strings.Contains(msg, part) {
					t.Errorf("%.500q does not say %q", msg, part)
				}
			}
			if calls := w.host.called(); len(calls) > 0 {
				t.Errorf("plugins ran: %v", calls)
			}
			if w.cluster.reads > 5 {
				t.Errorf("%d networks were read for a pod that is refused", w.cluster.reads)
			}
		})
	}
}

// A result that is too large for the ledger fails the ADD, which is undone.
func TestResultIsBounded(t *testing.T) {
	w := newWorld(t)
	w.network("big", `{"type":"wordy","cniVersion":"1.0.0"}`)
	w.asks("big")
	msg := w.refused()
	if !strings.Contains(msg, "network d/big (net1): plugin wordy: ADD answered") || !strings.Contains(msg, "want at most 65536") {
		t.Errorf("%q", msg)
	}
}

// when fails a command of a plugin.
func when(command, kind, why string) func(string, string) error {
	return func(c, k string) error {
		if c == command && k == kind {
			return errors.New(why)
		}
		return nil
	}
}

// Other forms of networks: a definition without a configuration, another default network, files of
// the runtime's folder that are not used, and a setting that no plugin takes.
func TestOtherForms(t *testing.T) {
	w := newWorld(t)
	w.file("20-lan.conf", `{"cniVersion":"0.4.0","name":"lan","type":"bridge"}`)
	w.file("00-culvert.conflist", `{"cniVersion":"1.0.0","name":"culvert","plugins":[{"type":"culvert","podNetworks":true}]}`)
	w.file("00-multus.conf", `{"cniVersion":"1.0.0","name":"multus","type":"multus"}`)
	w.file("05-broken.conf", `{`)
	w.network("lan", " ")
	w.network("kube-system/special", `{"cniVersion":"1.0.0","type":"macvlan"}`)
	w.pod(map[string]string{"k8s.v1.cni.cncf.io/networks": `[{"name":"lan","mac":"02:00:00:00:00:09","infiniband-guid":"c2:11:22:33:44:55:66:77"}]`, "v1.multus-cni.io/default-network": "special"})
	w.add()
	if s := w.status(); s[0]["name"] != "kube-system/special" || s[0]["interface"] != "eth0" || s[1]["name"] != "d/lan" {
		t.Errorf("network-status %v", s)
	}
	if got := w.host.config(t, "ADD", "bridge"); got["name"] != "lan" || got["runtimeConfig"] != nil {
		t.Errorf("bridge got %v", got)
	}
	if got := w.host.seen["ADD bridge"].Args; !strings.HasSuffix(got, ";MAC=02:00:00:00:00:09") {
		t.Errorf("bridge got %s", got)
	}
	w.wantIgnored("network d/lan: infinibandGUID")
	w.del()
	w.clean()
}

// A chain may have Culvert's plugin and others: each runs where it belongs.
func TestMixedChain(t *testing.T) {
	w := newWorld(t)
	w.network("v", `{"cniVersion":"1.0.0","name":"mix","plugins":[`+strings.Replace(sriov, `"name":"sriov-network",`, "", 1)+`,{"type":"tuning"}]}`)
	w.asks("v")
	w.add()
	tuning := w.host.config(t, "ADD", "tuning")
	if !strings.Contains(fmt.Sprint(tuning["prevResult"]), "172.16.91.2") {
		t.Errorf("tuning got %v", tuning)
	}
	w.del()
	if !strings.Contains(fmt.Sprint(w.host.config(t, "DEL", "tuning")["prevResult"]), "172.16.91.2") {
		t.Error("the DEL of tuning has no prevResult")
	}
	w.clean()
}

// I8: DEL needs neither pod, network, configuration nor netns. A DEL that fails is repeated. A DEL
// of a sandbox without a record deletes the default network.
func TestDel(t *testing.T) {
	w := newWorld(t)
	w.network("v", sriov)
	w.network("m", `{"cniVersion":"1.0.0","type":"macvlan"}`)
	w.asks("v,m")
	w.add()
	clear(w.cluster.pods)
	clear(w.cluster.networks)
	os.Remove(filepath.Join(w.confDir, "10-flannel.conflist"))
	w.k.DelNetns("/run/netns/c1")
	w.host.fail = when("DEL", "macvlan", "busy")
	gone := api.CNIRequest{Command: "DEL", ContainerID: "c1", IfName: "eth0", Config: fmt.Appendf(nil, formatConflist, "")}
	resp := w.callAs(t.Context(), gone)
	if resp.Exit == 0 || !strings.Contains(string(resp.Stdout), "network d/m (net2): plugin macvlan: DEL: busy") {
		t.Errorf("exit %d: %s", resp.Exit, resp.Stdout)
	}
	if left := w.host.left(); len(left) != 1 || left[0] != "macvlan c1 net2" {
		t.Errorf("the others were not deleted: %v", left)
	}
	if c := w.content(); len(c.Sandboxes) != 1 || c.Sandboxes[0].Phase != journal.SandboxDeleting {
		t.Errorf("sandboxes: %+v", c.Sandboxes)
	}
	w.host.fail = nil
	if resp := w.callAs(t.Context(), gone); resp.Exit != 0 {
		t.Errorf("again: %s", resp.Stdout)
	}
	w.k.AddNetns("/run/netns/c1")
	w.clean()

	w.file("10-flannel.conflist", strings.Replace(flannel, "0.3.1", "1.0.0", 1))
	resp = w.call("DEL", `,"prevResult":{"cniVersion":"1.0.0","ips":[{"address":"10.244.1.9/24"}]}`)
	if got := w.host.config(t, "DEL", "flannel"); resp.Exit != 0 || !strings.Contains(fmt.Sprint(got["prevResult"]), "10.244.1.9") {
		t.Errorf("DEL of an unknown sandbox: exit %d, %s; flannel got %v", resp.Exit, resp.Stdout, got)
	}
}

// I8: a culvertd that starts while the API server is down knows no pod. It answers an ADD with CNI
// code 11, so that the runtime tries again. DEL and STATUS work without the API server.
func TestI8WithoutTheAPIServer(t *testing.T) {
	w := newWorld(t)
	w.network("v", sriov)
	w.asks("v")
	w.add()
	w.cluster.away = true
	if resp := w.call("STATUS", ""); resp.Exit != 0 {
		t.Errorf("STATUS: %s", resp.Stdout)
	}
	if resp := w.call("DEL", ""); resp.Exit != 0 {
		t.Errorf("I8: DEL: %s", resp.Stdout)
	}
	w.clean()
	resp := w.call("ADD", "")
	for _, want := range []string{`"code": 11`, "pod d/a: not ready", "the API server did not tell"} {
		if resp.Exit == 0 || !strings.Contains(string(resp.Stdout), want) {
			t.Errorf("ADD: exit %d, %s\nwant %s", resp.Exit, resp.Stdout, want)
		}
	}
	if left := w.host.left(); len(left) != 0 {
		t.Errorf("there is %v", left)
	}
	if resp := w.call("DEL", ""); resp.Exit != 0 {
		t.Errorf("DEL of what was refused: %s", resp.Stdout)
	}
	w.cluster.away = false
	w.add()
}

// I1-I3: an ADD that fails at one plugin undoes the others, and nothing is left. If the shim dies,
// the DEL does the work that only a shim can do.
func TestFailureUndoesAll(t *testing.T) {
	for _, kind := range []string{"flannel", "portmap", "macvlan"} {
		w := newWorld(t)
		w.network("v", sriov)
		w.network("m", `{"cniVersion":"1.0.0","type":"macvlan"}`)
		w.asks("v,m")
		w.host.fail = when("ADD", kind, "no")
		w.refused()
	}
	w := newWorld(t)
	w.network("v", sriov)
	w.network("m", `{"cniVersion":"1.0.0","type":"macvlan"}`)
	w.asks("v,m")
	ctx, die := context.WithCancel(t.Context())
	w.host.fail = func(command, kind string) error {
		if kind == "macvlan" {
			die() // the shim is killed once macvlan has run
		}
		if ctx.Err() != nil && command == "DEL" {
			return errors.New("there is no shim")
		}
		return nil
	}
	if resp := w.callAs(ctx, api.CNIRequest{Command: "ADD", ContainerID: "c1", IfName: "eth0", Netns: "/run/netns/c1", Args: "K8S_POD_NAMESPACE=d;K8S_POD_NAME=a", Config: fmt.Appendf(nil, formatConflist, "")}); resp.Exit == 0 {
		t.Error("an ADD whose shim died succeeded")
	}
	if got := w.k.String(); got != w.whole {
		t.Errorf("the VF was not given back at once:\n%s", got)
	}
	w.host.fail = nil
	w.del()
	w.clean()
}

// An ADD after an ADD that was cut short clears up first.
func TestAddAfterACut(t *testing.T) {
	w := newWorld(t)
	w.pod(nil)
	w.add()
	w.cutShort()
	w.add()
	w.del()
	w.clean()
}

// Resume gives back the VFs of an ADD that was cut short, and writes the network-statuses that are
// missing.
func TestResume(t *testing.T) {
	w := newWorld(t)
	w.network("v", sriov)
	w.asks("v")
	w.add()
	want := w.cluster.status["d/a"]
	clear(w.cluster.status)
	if err := w.pods.Resume(t.Context()); err != nil || w.cluster.status["d/a"] != want {
		t.Errorf("%v, status %q", err, w.cluster.status["d/a"])
	}
	_, text, _ := strings.Cut(want, " ")
	confirmed := w.cluster.confirmed["d/a"]
	w.pod(map[string]string{"k8s.v1.cni.cncf.io/network-status": text, "culvert.dev/confirmed": confirmed})
	clear(w.cluster.status)
	if err := w.pods.Resume(t.Context()); err != nil || len(w.cluster.status) > 0 {
		t.Errorf("%v; what is there is written again", err)
	}
	for _, there := range []string{"", "{", strings.Replace(confirmed, "172.16.91.2/24", "172.16.91.3/24", 1), strings.Replace(confirmed, `"u1"`, `"u2"`, 1)} {
		w.pod(map[string]string{"k8s.v1.cni.cncf.io/network-status": text, "culvert.dev/confirmed": there})
		clear(w.cluster.status)
		if err := w.pods.Resume(t.Context()); err != nil || len(w.cluster.status) != 1 {
			t.Errorf("%v; confirmation %q is left as it is", err, there)
		}
	}
	w.pod(map[string]string{"k8s.v1.cni.cncf.io/network-status": text})
	w.cutShort()
	if err := w.pods.Resume(t.Context()); err != nil || w.k.String() != w.whole {
		t.Errorf("%v; the VF is still away:\n%s", err, w.k)
	}
	w.del()
	w.clean()
}

// A pod that ended while culvertd was away gets no network-status, and the DEL that the runtime
// sends finds its networks.
func TestResumeAfterThePodEnded(t *testing.T) {
	w := newWorld(t)
	w.network("v", sriov)
	w.asks("v")
	w.add()
	w.cluster.writes = 0
	for name, end := range map[string]func(){
		"deleted":                      func() { clear(w.cluster.pods) },
		"another pod has its name now": func() { w.cluster.pods["d/a"] = api.Pod{Namespace: "d", Name: "a", UID: "u2"} },
	} {
		end()
		if err := w.pods.Resume(t.Context()); err != nil || w.cluster.writes > 0 || len(w.content().Sandboxes) != 1 {
			t.Errorf("%s: %v, %d writes, %d sandboxes", name, err, w.cluster.writes, len(w.content().Sandboxes))
		}
	}
	w.del()
	w.clean()
}

func TestGC(t *testing.T) {
	w := newWorld(t)
	w.file("10-flannel.conflist", strings.Replace(flannel, "0.3.1", "1.1.0", 1))
	w.network("v", sriov)
	w.asks("v")
	w.add()
	w.k.DelNetns("/run/netns/c1")
	w.pods.Now = func() time.Time { return time.Now().Add(hold.GCGrace) }
	if resp := w.call("GC", ""); resp.Exit == 0 {
		t.Error("a GC that does not say what lives took everything")
	}
	if resp := w.call("GC", `,"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]`); resp.Exit != 0 || len(w.content().Sandboxes) != 1 {
		t.Errorf("what lives is gone: %s", resp.Stdout)
	}
	if resp := w.call("GC", `,"cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth0"}]`); resp.Exit != 0 {
		t.Errorf("GC: %s", resp.Stdout)
	}
	if got := w.host.config(t, "GC", "flannel"); !strings.Contains(fmt.Sprint(got["cni.dev/valid-attachments"]), "c2") {
		t.Errorf("flannel's GC got %v", got)
	}
	w.k.AddNetns("/run/netns/c1")
	w.clean()
}

// I8: a sandbox whose ADD began or ended after the runtime had made its list keeps its networks. Its
// age does not matter while a call works on it.
func TestI8GCKeepsWhatIsNewerThanTheList(t *testing.T) {
	w := newWorld(t)
	w.file("10-flannel.conflist", strings.Replace(flannel, "0.3.1", "1.1.0", 1))
	w.network("v", sriov)
	w.asks("v")
	w.add()
	gc := func(after time.Duration) (sandboxes, vfs int) {
		t.Helper()
		w.pods.Now = func() time.Time { return time.Now().Add(after) }
		if resp := w.call("GC", `,"cni.dev/valid-attachments":[]`); resp.Exit != 0 {
			t.Errorf("GC: %s", resp.Stdout)
		}
		c := w.content()
		for _, r := range c.Records {
			if r.Held() {
				vfs++
			}
		}
		return len(c.Sandboxes), vfs
	}
	if sandboxes, vfs := gc(0); sandboxes != 1 || vfs != 1 {
		t.Errorf("a sandbox that was just added: %d sandboxes and %d VFs are left", sandboxes, vfs)
	}
	if got := w.host.config(t, "GC", "flannel"); !strings.Contains(fmt.Sprint(got["cni.dev/valid-attachments"]), "c1") {
		t.Errorf("flannel's GC got %v", got)
	}
	unlock := w.pods.HoldSandbox("c1")
	if sandboxes, vfs := gc(time.Hour); sandboxes != 1 || vfs != 1 {
		t.Errorf("a sandbox whose ADD is under way: %d sandboxes and %d VFs are left", sandboxes, vfs)
	}
	unlock()
	if sandboxes, vfs := gc(hold.GCGrace); sandboxes != 0 || vfs != 0 {
		t.Errorf("an old one: %d sandboxes and %d VFs are left", sandboxes, vfs)
	}
	w.clean()
}

// I8: the default network and a network of the pod have one CNI name, and both give a VF. The runtime
// lists the default network's attachment alone. GC takes neither VF of a pod that lives.
func TestI8GCOfTwoNetworksOfOneName(t *testing.T) {
	w := newWorld(t)
	w.file("05-vf.conflist", `{"cniVersion":"1.1.0","name":"same","plugins":[`+sriov+`]}`)
	w.network("v", strings.Replace(sriov, "sriov-network", "same", 1))
	w.asks("v")
	w.add()
	before := len(heldBy(t, w, "same"))
	if before != 2 {
		t.Fatalf("the pod has %d VFs of networks named same, want 2", before)
	}
	w.pods.Now = func() time.Time { return time.Now().Add(hold.GCGrace) }
	if resp := w.call("GC", `,"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]`); resp.Exit != 0 {
		t.Errorf("GC: %s", resp.Stdout)
	}
	if after := len(heldBy(t, w, "same")); after != before {
		t.Errorf("GC left the pod %d of its %d VFs", after, before)
	}
	w.del()
	w.clean()
}

// heldBy returns the records of VFs that have a lease of a network with a CNI name.
func heldBy(t *testing.T, w *world, network string) (out []journal.Record) {
	t.Helper()
	for _, r := range w.content().Records {
		if r.Held() && r.Lease.Network == network {
			out = append(out, r)
		}
	}
	return out
}

func TestStatus(t *testing.T) {
	w := newWorld(t)
	w.file("10-flannel.conflist", strings.Replace(flannel, "0.3.1", "1.1.0", 1))
	if resp := w.call("STATUS", ""); resp.Exit != 0 {
		t.Errorf("STATUS: %s", resp.Stdout)
	}
	w.host.fail = when("STATUS", "flannel", "no subnet yet")
	if resp := w.call("STATUS", ""); resp.Exit == 0 || !strings.Contains(string(resp.Stdout), "no subnet yet") || !strings.Contains(string(resp.Stdout), `"code": 50`) {
		t.Errorf("STATUS: %s", resp.Stdout)
	}
	os.Remove(filepath.Join(w.confDir, "10-flannel.conflist"))
	if resp := w.call("STATUS", ""); resp.Exit == 0 || !strings.Contains(string(resp.Stdout), `"code": 50`) {
		t.Errorf("STATUS: %s", resp.Stdout)
	}
}

// Any other configuration is for intake/cni: Culvert as the delegate of a meta
// plugin.
func TestOtherCallsAreHandedOn(t *testing.T) {
	w := newWorld(t)
	r := api.CNIRequest{Command: "ADD", ContainerID: "c1", IfName: "net1", Netns: "/run/netns/c1", Config: []byte(sriov)}
	if resp := w.callAs(t.Context(), r); resp.Exit != 0 || !strings.Contains(string(resp.Stdout), "172.16.91.2") {
		t.Errorf("ADD: %s", resp.Stdout)
	}
	r.Command = "DEL"
	if resp := w.callAs(t.Context(), r); resp.Exit != 0 {
		t.Errorf("DEL: %s", resp.Stdout)
	}
	w.clean()
	if len(w.host.called()) > 0 {
		t.Errorf("plugins were run: %v", w.host.called())
	}
}

package pod_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// wantIgnored compares the parts of the pod's event NetworkSettingIgnored, of which there is
// one at most.
func (w *world) wantIgnored(parts ...string) {
	w.Helper()
	var got []string
	for _, e := range w.cluster.events {
		if text, ok := strings.CutPrefix(e, "d/a Warning NetworkSettingIgnored "); ok {
			if got != nil {
				w.Errorf("events %q, want one", w.cluster.events)
			}
			got = strings.Split(text, "; ")
		}
	}
	if !slices.EqualFunc(got, parts, strings.Contains) {
		w.Errorf("ignored is %q, want %q", got, parts)
	}
}

// The mac and the ips of a pod's annotation, and of its cni-args, win over the network's own, whether
// or not the network declares the capabilities. Each plugin of the network gets them as Multus passes
// them: in CNI_ARGS and args.cni, and in runtimeConfig where it declares the capability.
func TestMACAndIPsOfPodsReachEachPlugin(t *testing.T) {
	const asked, own = "ca:fe:c0:ff:ee:00", "02:11:22:33:44:01"
	for name, tc := range map[string]struct {
		asks       string
		vf, tuning string // capabilities
		args       string // of each plugin, besides the runtime's
		cni        string // args.cni of each plugin
		runtime    string // runtimeConfig of tuning
		ownMAC     bool   // the pod asks for none
	}{
		"none declared":     {asks: `"mac":"CA:FE:C0:FF:EE:00","ips":["172.16.91.77"]`, args: ";MAC=" + asked + ";IP=172.16.91.77", cni: "<nil>", runtime: "<nil>"},
		"declared as false": {asks: `"mac":"` + asked + `","ips":["172.16.91.77/24"]`, vf: `"mac":false,"ips":false`, args: ";MAC=" + asked + ";IP=172.16.91.77/24", cni: "<nil>", runtime: "<nil>"},
		"tuning's mac": {
			asks: `"mac":"` + asked + `","ips":["172.16.91.77"]`, tuning: `"mac":true`, args: ";MAC=" + asked + ";IP=172.16.91.77", cni: "<nil>", runtime: "map[mac:" + asked + "]",
		},
		"both declared": {asks: `"mac":"` + asked + `","ips":["172.16.91.77"]`, vf: `"mac":true,"ips":true`, args: ";MAC=" + asked + ";IP=172.16.91.77", cni: "<nil>", runtime: "<nil>"},
		"ips alone":     {asks: `"ips":["172.16.91.77"]`, args: ";IP=172.16.91.77", cni: "<nil>", runtime: "<nil>", ownMAC: true},
		"cni-args":      {asks: `"cni-args":{"MAC":"` + asked + `","IPs":["172.16.91.77"],"k":"v"}`, cni: "map[IPs:[172.16.91.77] MAC:" + asked + " k:v]", runtime: "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			capabilities := func(s string) string { return `"capabilities":{` + s + `},` }
			own1 := strings.Replace(sriov, `"name"`, capabilities(tc.vf)+`"mac":"`+own+`","name"`, 1)
			w.network("fast", `{"cniVersion":"1.0.0","plugins":[`+own1+`,{`+capabilities(tc.tuning)+`"type":"tuning"}]}`)
			w.network("lan", `{"cniVersion":"1.0.0","type":"macvlan"}`)
			w.asks(`[{"name":"fast",` + tc.asks + `},{"name":"lan",` + tc.asks + `}]`)
			w.add()
			mac := asked
			if tc.ownMAC {
				mac = own
			}
			if got := w.status()[1]; got["mac"] != mac || fmt.Sprint(got["ips"]) != "[172.16.91.77]" {
				t.Errorf("the pod has %v %v, want %s", got["mac"], got["ips"], mac)
			}
			for _, r := range w.content().Records {
				if r.Held() && r.Lease.Effective.MAC.String() != mac {
					t.Errorf("the admin MAC is %s, want %s", r.Lease.Effective.MAC, mac)
				}
			}
			for _, command := range []string{"ADD", "DEL"} {
				if command == "DEL" {
					w.del()
				}
				for _, plugin := range []string{"tuning", "macvlan"} {
					config := w.host.config(t, command, plugin)
					args, _ := config["args"].(map[string]any)
					want := tc.runtime
					if plugin == "macvlan" {
						want = "<nil>"
					}
					if got := w.host.seen[command+" "+plugin].Args; !strings.HasSuffix(got, "K8S_POD_UID=u1"+tc.args) || fmt.Sprint(args["cni"]) != tc.cni || fmt.Sprint(config["runtimeConfig"]) != want {
						t.Errorf("%s of %s has %s, args %v, runtimeConfig %v; want %s, %s, %s", command, plugin, got, args["cni"], config["runtimeConfig"], tc.args, tc.cni, want)
					}
				}
				if r := w.host.seen[command+" flannel"]; strings.Contains(r.Args, "MAC=") || strings.Contains(r.Args, "IP=") {
					t.Errorf("the node's default network got %s", r.Args)
				}
			}
			w.wantIgnored()
			w.clean()
		})
	}
}

// An address by ips is enough for ipam of type static. Without any address the pod is refused.
func TestStaticNeedsAnAddress(t *testing.T) {
	const static = `{"cniVersion":"0.3.1","type":"sriov","ipam":{"type":"static"}}`
	w := newWorld(t)
	w.network("v", static)
	w.asks("v")
	if got := w.refused(); !strings.Contains(got, "ipam of type static has no address") {
		t.Errorf("refused with %s", got)
	}
	w.asks(`[{"name":"v","ips":["172.16.91.77/24"]}]`)
	w.add()
	if got := w.status()[1]; fmt.Sprint(got["ips"]) != "[172.16.91.77]" {
		t.Errorf("the pod has %v", got["ips"])
	}
	if resp := w.call("CHECK", ""); resp.Exit != 0 {
		t.Errorf("CHECK: %s", resp.Stdout)
	}
}

// A pod gets as many addresses as a network may have, by CNI_ARGS and by runtimeConfig, and no more.
func TestManyIPsOfAPod(t *testing.T) {
	for _, capabilities := range []string{"", `"capabilities":{"ips":true},`} {
		for count, refused := range map[int]bool{64: false, 65: true, 1500: true} {
			var ips []string
			for i := range count {
				ips = append(ips, fmt.Sprintf(`"fd00:1111:2222:3333::%x/64"`, i+1))
			}
			w := newWorld(t)
			w.network("v", `{"cniVersion":"0.3.1","type":"sriov",`+capabilities+`"ipam":{"type":"static"}}`)
			w.asks(`[{"name":"v","ips":[` + strings.Join(ips, ",") + `]}]`)
			if refused {
				if got := w.refused(); !strings.Contains(got, fmt.Sprintf("it has %d addresses; want at most 64", count)) {
					t.Errorf("%s%d addresses: %s", capabilities, count, got)
				}
				continue
			}
			w.add()
			if got, _ := w.status()[1]["ips"].([]any); len(got) != count {
				t.Errorf("%s%d addresses: the pod has %v", capabilities, count, got)
			}
		}
	}
}

// The plugin bandwidth of a list serves the rates that a pod asks for. Without it, Culvert's plugin
// says that it does not serve them.
func TestBandwidthIsServedByAPluginOfTheList(t *testing.T) {
	const asked, unserved = `[{"name":"n","bandwidth":{"ingressRate":9}}]`, `runtimeConfig.bandwidth {"ingressRate":9}: not served`
	for name, tc := range map[string]struct {
		network string
		refused bool
		ignored []string
	}{
		"alone":                  {`{"cniVersion":"1.0.0","type":"sriov"}`, false, []string{unserved, "max_tx_rate limits"}},
		"the capability":         {`{"cniVersion":"1.0.0","type":"sriov","capabilities":{"bandwidth":true}}`, false, []string{unserved, "max_tx_rate limits"}},
		"a list without":         {`{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":"bandwidth"}]}`, false, []string{unserved, "max_tx_rate limits"}},
		"a list":                 {`{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":"bandwidth","capabilities":{"bandwidth":true}}]}`, false, nil},
		"a list, both":           {`{"cniVersion":"1.0.0","plugins":[{"type":"sriov","capabilities":{"bandwidth":true}},{"type":"bandwidth","capabilities":{"bandwidth":true}}]}`, false, nil},
		"type culvert":           {`{"cniVersion":"1.0.0","type":"culvert"}`, true, nil},
		"a list of type culvert": {`{"cniVersion":"1.0.0","plugins":[{"type":"culvert"},{"type":"bandwidth","capabilities":{"bandwidth":true}}]}`, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("n", tc.network)
			w.asks(asked)
			if tc.refused {
				if got := w.refused(); !strings.Contains(got, "bandwidth") {
					t.Errorf("refused with %s", got)
				}
				return
			}
			w.add()
			w.wantIgnored(tc.ignored...)
			if strings.Contains(tc.network, `"bandwidth","capabilities"`) && fmt.Sprint(w.host.config(t, "ADD", "bandwidth")["runtimeConfig"]) != "map[bandwidth:map[ingressRate:9]]" {
				t.Errorf("the plugin bandwidth got %v", w.host.config(t, "ADD", "bandwidth"))
			}
		})
	}
}

// A network of type sriov gets the PF's MTU where it asks for a larger one, with an event of the pod.
func TestMTUAboveThatOfThePF(t *testing.T) {
	for network, lowered := range map[string]bool{
		`{"cniVersion":"0.3.1","name":"n","type":"sriov","mtu":9000}`:               true,
		`{"cniVersion":"0.3.1","name":"n","type":"sriov","mtu":1400}`:               false,
		`{"cniVersion":"0.3.1","name":"n","type":"sriov","strict":true,"mtu":9000}`: false,
		`{"cniVersion":"0.3.1","name":"n","type":"culvert","mtu":9000}`:             false,
	} {
		w := newWorld(t)
		w.network("n", network)
		w.asks("n")
		if !lowered && strings.Contains(network, "9000") {
			if got := w.refused(); !strings.Contains(got, "mtu 9000: invalid: PF enp1s0 has MTU 1500") {
				t.Errorf("%s: %s", network, got)
			}
			continue
		}
		w.add()
		if got := slices.ContainsFunc(w.cluster.events, func(e string) bool {
			return strings.Contains(e, "Warning MTULowered network n: mtu 9000 is above that of PF enp1s0, so net1 has 1500")
		}); got != lowered {
			t.Errorf("%s: events %q", network, w.cluster.events)
		}
		if resp := w.call("CHECK", ""); resp.Exit != 0 {
			t.Errorf("%s: CHECK: %s", network, resp.Stdout)
		}
	}
}

package pod_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
)

// I9: the pool's allow bounds the MAC address and the addresses that a pod asks for, however the pod
// asks and the network gives addresses. A refusal leaves nothing. A choice that allow admits is
// refused while another pod has it.
func TestI9AllowBoundsWhatPodsAskFor(t *testing.T) {
	const (
		allow     = `  allow: {macs: ["02:aa:00:00:00:00/24"], addresses: ["172.16.91.0/28"], mtu: 9000}` + "\n"
		in, out   = "02:aa:00:00:00:05", "02:bb:00:00:00:05"
		noMAC     = "mac " + out + " is not allowed: allow.macs has 02:aa:00:00:00:00/24"
		noAddress = "address 172.16.91.77 is not allowed: allow.addresses has 172.16.91.0/28"
		hostLocal = `"ipam":{"type":"host-local","scope":"node","subnet":"172.16.91.0/24"}`
		static    = `"ipam":{"type":"static","scope":"node"}`
		fixed     = `"ipam":{"type":"static","scope":"node","addresses":[{"address":"172.16.91.9/24"}]}`
		single    = `{"cniVersion":"1.0.0","type":"sriov",%s}`
		list      = `{"cniVersion":"1.0.0","plugins":[{"type":"sriov",%s},{"type":"tuning","capabilities":{"mac":true}}]}`
		bond      = `{"cniVersion":"1.0.0","type":"culvert","bond":{"links":2},%s}`
	)
	const shared = `"ipam":{"type":"whereabouts","range":"172.16.91.0/24"}`
	for name, tc := range map[string]struct{ network, ipam, bad, says, good, held string }{
		"mac":                     {single, hostLocal, `"mac":"` + out + `"`, noMAC, `"mac":"` + in + `"`, "MAC address " + in},
		"mac of a list":           {list, hostLocal, `"mac":"` + out + `"`, noMAC, `"mac":"` + in + `"`, "MAC address " + in},
		"mac of a bond":           {bond, hostLocal, `"mac":"` + out + `"`, noMAC, `"mac":"` + in + `"`, "MAC address " + in},
		"mac without addresses":   {single, `"vlan":0`, `"mac":"` + out + `"`, noMAC, `"mac":"` + in + `"`, "MAC address " + in},
		"mac by cni-args":         {list, hostLocal, `"cni-args":{"MAC":"` + out + `"}`, noMAC, `"cni-args":{"mac":"` + in + `"}`, "MAC address " + in},
		"ips of host-local":       {single, hostLocal, `"ips":["172.16.91.77"]`, noAddress, `"ips":["172.16.91.7"]`, "address 172.16.91.7: held by pod d/first"},
		"ips of host-local, args": {single, hostLocal, `"cni-args":{"ips":["172.16.91.77"]}`, noAddress, `"cni-args":{"ips":["172.16.91.7"]}`, "address 172.16.91.7: held by pod d/first"},
		"ips of static":           {single, static, `"ips":["172.16.91.77/24"]`, noAddress, `"ips":["172.16.91.7/24"]`, "address 172.16.91.7: held by pod d/first"},
		"ips beside static":       {single, fixed, `"ips":["172.16.91.77/24"]`, noAddress, `"ips":["172.16.91.7/24"]`, "held by pod d/first"},
		"ips of whereabouts":      {single, shared, `"ips":["172.16.91.77"]`, noAddress, `"ips":["172.16.91.7"]`, "address 172.16.91.7: held by pod d/first"},
		"ips of a bond":           {bond, static, `"ips":["172.16.91.77/24"]`, noAddress, `"ips":["172.16.91.7/24"]`, "address 172.16.91.7: held by pod d/first"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOn(t, hostFile+allow, 2)
			w.k.AddNetns("/run/netns/c0")
			w.network("n", fmt.Sprintf(tc.network, tc.ipam))
			w.asks(`[{"name":"n",` + tc.bad + `}]`)
			if got := w.refused(); !strings.Contains(got, tc.says) {
				t.Errorf("I9: refused with %s, want %s", got, tc.says)
			}
			w.cluster.pods["d/first"] = api.Pod{Namespace: "d", Name: "first", UID: "u0", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": `[{"name":"n",` + tc.good + `}]`}}
			first := api.CNIRequest{
				Command: "ADD", ContainerID: "c0", IfName: "eth0", Netns: "/run/netns/c0", Path: "/opt/cni/bin",
				Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=d;K8S_POD_NAME=first;K8S_POD_UID=u0", Config: fmt.Appendf(nil, formatConflist, ""),
			}
			if resp := w.callAs(context.Background(), first); resp.Exit != 0 {
				t.Fatalf("a choice that is allowed is refused: %s", resp.Stdout)
			}
			w.asks(`[{"name":"n",` + tc.good + `}]`)
			if resp := w.call("ADD", ""); resp.Exit == 0 || !strings.Contains(string(resp.Stdout), tc.held) {
				t.Errorf("I9: exit %d, %s, want %s", resp.Exit, resp.Stdout, tc.held)
			}
		})
	}
}

// A guard pins the MAC address and the addresses that the pod asked for.
func TestGuardPinsWhatPodsAskFor(t *testing.T) {
	for name, network := range map[string]string{
		"a VF":   `{"cniVersion":"1.0.0","type":"sriov","guard":"ip","ipam":{"type":"static"}}`,
		"a list": `{"cniVersion":"1.0.0","plugins":[{"type":"sriov","guard":"ip","ipam":{"type":"static"}},{"type":"tuning","capabilities":{"mac":true}}]}`,
		"a bond": `{"cniVersion":"1.0.0","type":"culvert","guard":"ip","bond":{"links":2},"ipam":{"type":"static"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOn(t, hostFile, 2)
			w.network("n", network)
			w.asks(`[{"name":"n","mac":"02:aa:00:00:00:05","ips":["172.16.91.7/24"]}]`)
			w.add()
			if got := w.k.String(); !strings.Contains(got, "of 02:aa:00:00:00:05") || !strings.Contains(got, "172.16.91.7") {
				t.Errorf("the kernel has\n%s", got)
			}
			for _, line := range strings.Split(w.k.String(), "\n") {
				if strings.HasPrefix(line, "guard of ") && (!strings.Contains(line, "02:aa:00:00:00:05") || !strings.Contains(line, "172.16.91.7")) {
					t.Errorf("%s", line)
				}
			}
		})
	}
}

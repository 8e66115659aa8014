package pod_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// victimNetwork is the network of pod v/victim, and its settings.
const (
	victimMAC     = "02:11:22:33:44:01"
	victimAddress = "172.16.91.50"
	victimNetwork = `{"type":"sriov","cniVersion":"1.0.0","name":"theirs","vlan":7,"mac":"` + victimMAC + `",
		"ipam":{"type":"static","addresses":[{"address":"` + victimAddress + `/24"},{"address":"fd00::50/64"}]}}`
)

// newVictim returns a world in which pod v/victim has VF 0, and the kubelet gave VF 1 to
// it, too.
func newVictim(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.k.AddNetns("/run/netns/v")
	w.network("v/theirs", victimNetwork, "intel.com/fast")
	w.given["v/victim/intel.com/fast"] = w.vfs()[:2]
	w.node.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		owners := map[vf.PCIAddr]string{}
		for key, all := range w.given {
			for _, pci := range all {
				owners[pci] = key[:strings.LastIndex(strings.TrimSuffix(key, "/intel.com/fast"), "/")] + "/" + strings.Split(key, "/")[1]
			}
		}
		return func(pci vf.PCIAddr) string { return owners[pci] }, nil
	}
	w.cluster.pods["v/victim"] = api.Pod{Namespace: "v", Name: "victim", UID: "uv", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "theirs"}}
	resp := w.callAs(context.Background(), api.CNIRequest{
		Command: "ADD", ContainerID: "cv", IfName: "eth0", Netns: "/run/netns/v", Path: "/opt/cni/bin",
		Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=v;K8S_POD_NAME=victim;K8S_POD_UID=uv", Config: fmt.Appendf(nil, formatConflist, ""),
	})
	if resp.Exit != 0 {
		t.Fatalf("ADD of the victim: %s", resp.Stdout)
	}
	return w
}

// victim returns the leases, the addresses and the VFs in the kernel of pod v/victim, as text.
func (w *world) victim() string {
	w.Helper()
	w.node.VFs.Wait()
	var all []any
	for _, r := range w.content().Records {
		if r.Lease.Owner.UID == "cv" {
			st, err := w.k.VF(w.Context(), r.PCI, "/run/netns/v")
			all = append(all, r, st, err)
		}
	}
	for _, a := range w.content().Addresses {
		if a.Owner.UID == "cv" {
			all = append(all, a)
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil || len(all) == 0 {
		w.Fatalf("the victim has %v, %v", all, err)
	}
	return string(text)
}

// I9: no text of a pod's or a network's author gives the pod a VF or an address of another pod.
// Culvert serves such a request with other values, or refuses it.
func TestI9AttacksOfTenants(t *testing.T) {
	const base = `{"type":"sriov","cniVersion":"1.0.0","name":"n","vlan":7%s}`
	static := func(address string) string {
		return `,"ipam":{"type":"static","addresses":[{"address":"` + address + `"}]}`
	}
	for name, tc := range map[string]struct {
		more string // of the network
		asks string // of the pod; empty: the network
		says string // the refusal; empty: another VF, MAC address and address
		// untagged leaves out the network's VLAN.
		untagged bool
	}{
		"the victim's VF by deviceID":              {more: `,"deviceID":"%V0"`, says: "by pod v/victim"},
		"the victim's VF by pciBusID":              {more: `,"pciBusID":"%V0"`, says: "by pod v/victim"},
		"the victim's VF by runtimeConfig":         {more: `,"runtimeConfig":{"deviceID":"%V0"}`, says: "by pod v/victim"},
		"a VF that the kubelet gave to the victim": {more: `,"deviceID":"%V1"`, says: "gave it to pod v/victim"},
		"a VF that the kubelet gave to nobody":     {more: `,"runtimeConfig":{"deviceID":"%V2"}`, says: "gave it to no pod"},
		"a VF by cni-args":                         {asks: `[{"name":"n","cni-args":{"deviceID":"%V0","pciBusID":"%V0"}}]`},
		"the MAC address":                          {more: `,"mac":"` + victimMAC + `"`, says: "by pod v/victim"},
		"the MAC address, upper case and dashes":   {more: `,"mac":"02-11-22-33-44-01"`, says: "by pod v/victim"},
		"the MAC address with dots":                {more: `,"mac":"0211.2233.4401"`, says: "by pod v/victim"},
		"the MAC address with a priority":          {more: `,"vlanQoS":3,"mac":"` + victimMAC + `"`, says: "by pod v/victim"},
		"the MAC address by runtimeConfig":         {more: `,"runtimeConfig":{"mac":"` + victimMAC + `"}`, says: "by pod v/victim"},
		"the MAC address by annotation":            {more: `,"capabilities":{"mac":true}`, asks: `[{"name":"n","mac":"` + victimMAC + `"}]`, says: "by pod v/victim"},
		"the MAC address of the PF":                {more: `,"mac":"%PF"`, says: "PF enp1s0"},
		"no MAC address, to choose one inside":     {more: `,"mac":"00:00:00:00:00:00"`, says: "mac"},
		"a group MAC address":                      {more: `,"mac":"ff:ff:ff:ff:ff:ff"`, says: "mac"},
		"the address":                              {more: static(victimAddress + "/24"), says: "by pod v/victim"},
		"the address in another subnet":            {more: static(victimAddress + "/8"), says: "by pod v/victim"},
		"the address, mapped into IPv6":            {more: static("::ffff:" + victimAddress + "/120"), says: "by pod v/victim"},
		"the address, mapped into a wide prefix":   {more: static("::ffff:" + victimAddress + "/24"), says: "wants /96 or longer"},
		"the link-local address":                   {more: static("fe80::11:22ff:fe33:4401/64"), says: "by pod v/victim"},
		"the link-local address of the PF":         {more: static("%PFLINK/64"), says: "PF enp1s0"},
		"the link-local address of a free VF":      {more: static("%V3LINK/64"), says: "whose own it is"},
		"the IPv6 address, spelled in full":        {more: static("fd00:0:0:0:0:0:0:50/128"), says: "by pod v/victim"},
		"the address, the only one of a range": {
			more: `,"ipam":{"type":"host-local","scope":"node","subnet":"172.16.91.0/24","rangeStart":"` + victimAddress + `","rangeEnd":"` + victimAddress + `"}`, says: "pod v/victim",
		},
		"the address by annotation": {
			more: `,"capabilities":{"ips":true}` + static("172.16.91.60/24"), asks: `[{"name":"n","ips":["` + victimAddress + `/24"]}]`, says: "by pod v/victim",
		},
		"the address by annotation, mapped into IPv6": {
			more: `,"capabilities":{"ips":true}` + static("172.16.91.60/24"), asks: `[{"name":"n","ips":["::ffff:` + victimAddress + `/120"]}]`, says: "by pod v/victim",
		},
		"the address by annotation, mapped into IPv6, without the capability": {
			more: static("172.16.91.60/24"), asks: `[{"name":"n","ips":["::ffff:` + victimAddress + `/120"]}]`, says: "by pod v/victim",
		},
		"the address by annotation, mapped into a wide prefix": {
			more: static("172.16.91.60/24"), asks: `[{"name":"n","ips":["::ffff:` + victimAddress + `/24"]}]`, says: "want it with its prefix length",
		},
		"the link-local address by annotation": {
			more: static("172.16.91.60/24"), asks: `[{"name":"n","ips":["fe80::11:22FF:fe33:4401/128"]}]`, says: "by pod v/victim",
		},
		"the address by cni-args":                 {more: static("172.16.91.60/24"), asks: `[{"name":"n","cni-args":{"ips":["` + victimAddress + `/24"]}}]`, says: "by pod v/victim"},
		"the address by cni-args in another case": {more: static("172.16.91.60/24"), asks: `[{"name":"n","cni-args":{"IPS":["` + victimAddress + `/24"]}}]`, says: "by pod v/victim"},
		"the address by annotation, without the capability": {
			more: static("172.16.91.60/24"), asks: `[{"name":"n","ips":["` + victimAddress + `/24"]}]`, says: "by pod v/victim",
		},
		"the address of a range by annotation, without the capability": {
			more: `,"ipam":{"type":"host-local","scope":"node","subnet":"172.16.91.0/24"}`, asks: `[{"name":"n","ips":["` + victimAddress + `"]}]`, says: "by pod v/victim",
		},
		"the MAC address by annotation, without the capability": {asks: `[{"name":"n","mac":"` + victimMAC + `"}]`, says: "by pod v/victim"},
		"the MAC address by cni-args":                           {asks: `[{"name":"n","cni-args":{"Mac":"` + victimMAC + `"}}]`, says: "by pod v/victim"},
		"the MAC address by cni-args, beside another one":       {asks: `[{"name":"n","mac":"02:11:22:33:44:07","cni-args":{"mac":"` + victimMAC + `"}}]`, says: "ask for one"},
		"arguments of another pod by ips":                       {asks: `[{"name":"n","ips":["172.16.91.61;K8S_POD_NAME=victim"]}]`, says: "want IP addresses"},
		"arguments of another pod by the zone of ips":           {asks: `[{"name":"n","ips":["fe80::1%x;K8S_POD_NAME=victim"]}]`, says: "want IP addresses"},
		"the victim's pool of addresses": {
			more: `,"ipam":{"type":"culvert","poolOf":"v/theirs"}`, says: "does not share",
		},
		"the victim's interface name and network name":  {asks: `[{"name":"n","interface":"net1"},{"name":"n","interface":"net1"}]`, says: "net1"},
		"an interface name that is a path":              {asks: `[{"name":"n","interface":"../v"}]`, says: "interface"},
		"a network by a path":                           {asks: `[{"name":"../v/theirs"}]`, says: "name"},
		"the MAC address without a VLAN, to tag frames": {more: `,"mac":"` + victimMAC + `"`, untagged: true, says: "by pod v/victim"},
		"to be the meta plugin":                         {more: `,"podNetworks":true`, says: "meta plugin"},
		"VFs that the kubelet does not count, a limit":  {asks: "n,n"},
		"the victim's result":                           {more: `,"prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"net9","mac":"` + victimMAC + `","sandbox":"/run/netns/v"}],"ips":[{"address":"` + victimAddress + `/24"}]}`},
		"the victim's result, in another case":          {more: `,"PrevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"net9","mac":"` + victimMAC + `","sandbox":"/run/netns/v"}],"ips":[{"address":"` + victimAddress + `/24"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newVictim(t)
			fill := strings.NewReplacer("%PFLINK", w.node.VFs.Hardware.PFs()[0].MAC.LinkLocal().String(), "%V3LINK", w.content().Records[3].Baseline.LinkMAC.LinkLocal().String(),
				"%V0", w.vfs()[0].String(), "%V1", w.vfs()[1].String(), "%V2", w.vfs()[2].String(), "%PF", w.node.VFs.Hardware.PFs()[0].MAC.String())
			network := fill.Replace(fmt.Sprintf(base, tc.more))
			if tc.untagged {
				network = strings.Replace(network, `"vlan":7,`, "", 1)
			}
			w.network("n", network)
			if tc.asks == "" {
				tc.asks = "n"
			}
			w.asks(fill.Replace(tc.asks))
			before := w.victim()
			resp := w.call("ADD", "")
			switch {
			case tc.says != "" && (resp.Exit == 0 || !strings.Contains(string(resp.Stdout), tc.says)):
				t.Errorf("I9: want a refusal that says %q, got exit %d, %s", tc.says, resp.Exit, resp.Stdout)
			case tc.says == "" && resp.Exit != 0:
				t.Errorf("refused: %s", resp.Stdout)
			case tc.says == "":
				for _, s := range w.status()[1:] {
					if text := fmt.Sprint(s); strings.Contains(text, victimMAC) || strings.Contains(text, victimAddress) {
						t.Errorf("I9: the pod shows what the victim has: %s", text)
					}
				}
			}
			for _, r := range w.content().Records {
				if r.Lease.Owner.UID == "c1" && tc.says != "" {
					t.Errorf("I9: the pod has a lease: %+v", r.Lease)
				}
			}
			if d := cmp.Diff(before, w.victim()); d != "" {
				t.Errorf("I9: what the victim has changed\n%s", d)
			}
		})
	}
}

//go:build lab

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab/demo/node"
)

// pool is the netdevice pool of the first wire.
const pool = `"pool": "intel.com/intel_sriov_netdevice"`

// I6: the kernel has every setting of the network, and CHECK succeeds until a person
// changes one by hand.
func TestI6EverySettingIsInTheKernel(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	a := network(t, n, "settings", "1.1.0", pool+`, "vlan": 100, "vlanQoS": 3, "mac": "02:aa:bb:cc:dd:01", "mtu": 1400, "spoofchk": "off", "trust": "on",
		"max_tx_rate": 200, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.77.0.0/24"}], [{"subnet": "fd77::/64"}]],
		"routes": [{"dst": "10.78.0.0/16"}]}`)
	netns(t, n, a.Netns)
	r := add(t, n, a)
	v := holder(t, n, "settings")

	info := jq(t, n, fmt.Sprintf(`.[0].vfinfo_list[] | select(.vf == %d) | "\(.address // .mac) vlan \(.vlan_list[0].vlan) qos \(.vlan_list[0].qos) spoofchk \(.spoofchk) trust \(.trust) rate \(.rate.max_tx)"`, v.Index),
		"ip -d -j link show dev enp1s0")
	if want := "02:aa:bb:cc:dd:01 vlan 100 qos 3 spoofchk false trust true rate 200"; info != want {
		t.Errorf("the PF holds %q, want %q", info, want)
	}
	link := jq(t, n, `.[0] | "\(.address) \(.mtu) \([.addr_info[] | select(.scope == "global") | "\(.local)/\(.prefixlen)"] | join(" "))"`,
		"ip -n settings -j address show dev net1")
	if len(r.IPs) != 2 || len(r.Routes) != 1 {
		t.Fatalf("the result has the addresses %v and routes %v", r.IPs, r.Routes)
	}
	if want := fmt.Sprintf("02:aa:bb:cc:dd:01 1400 %s %s", r.IPs[0].Address, r.IPs[1].Address); link != want {
		t.Errorf("net1 is %q, want %q", link, want)
	}
	if route := jq(t, n, `.[0].gateway`, "ip -n settings -j route show 10.78.0.0/16"); route != "10.77.0.1" {
		t.Errorf("the route to 10.78.0.0/16 goes by %q", route)
	}
	if i := r.Interfaces[0]; i.Name != "net1" || i.MAC != "02:aa:bb:cc:dd:01" || i.MTU != 1400 || i.PCI != v.PCI.String() || !strings.HasSuffix(i.Sandbox, "/settings") {
		t.Errorf("the result's interface is %+v", i)
	}
	checkFindsWhatIsChangedByHand(t, n, a, v.Index, r.IPs[0].Address.String())
}

func checkFindsWhatIsChangedByHand(t *testing.T, n node.Node, a node.Attachment, index int, address string) {
	t.Helper()
	check := func() {
		t.Helper()
		if _, err := n.CNI(t.Context(), "check", a); err != nil {
			t.Error(err)
		}
	}
	check()
	vlan := func(id string) {
		must(t, n, "ip", "link", "set", "enp1s0", "vf", fmt.Sprint(index), "vlan", id, "qos", "3")
	}
	vlan("200")
	refused(t, n, "check", a, "vlan", "200", "100")
	vlan("100")
	must(t, n, "ip", "-n", a.Netns, "address", "delete", address, "dev", "net1")
	refused(t, n, "check", a, address)
	must(t, n, "ip", "-n", a.Netns, "address", "add", address, "dev", "net1")
	must(t, n, "ip", "-n", a.Netns, "route", "add", "10.78.0.0/16", "via", "10.77.0.1") // went with the address
	check()
}

// The plugin returns results of every version that runtimes request, and serves every command of
// the specification.
func TestCNIVersionsAndCommands(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		name := "v" + strings.ReplaceAll(version, ".", "")
		a := network(t, n, name, version, pool+`, "ipam": {"type": "host-local", "subnet": "10.79.0.0/24"}`)
		netns(t, n, a.Netns)
		r := add(t, n, a)
		if r.CNIVersion != version || len(r.Interfaces) != 1 || len(r.IPs) != 1 || r.Interfaces[0].Name != "net1" {
			t.Errorf("%s: the result is %+v", version, r)
		}
		if got := r.Interfaces[0].PCI != ""; got != (version == "1.1.0") {
			t.Errorf("%s: pciID in the result: %t; it came with 1.1.0", version, got)
		}
		if version == "0.3.1" {
			refused(t, n, "check", a, "check")
		} else if _, err := n.CNI(t.Context(), "check", a); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		del(t, n, a)
	}
	if _, err := n.CNI(t.Context(), "status", node.Attachment{Network: "v110", Dir: confDir, Netns: "v110", Interface: "net1"}); err != nil {
		t.Error(err)
	}
	got := jq(t, n, `.supportedVersions | join(" ")`, `echo '{"cniVersion": "1.1.0"}' | CNI_COMMAND=VERSION /opt/cni/bin/culvert`)
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		mentions(t, got, version)
	}
}

// GC releases the VFs of attachments that the runtime does not name, and of no others.
func TestI2GCKeepsWhoIsNamed(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	kept, lost := network(t, n, "gc", "1.1.0", pool), network(t, n, "gc", "1.1.0", pool)
	kept.Netns, lost.Netns = "kept", "lost"
	other := network(t, n, "other", "1.1.0", pool)
	for _, a := range []node.Attachment{kept, lost, other} {
		netns(t, n, a.Netns)
		add(t, n, a)
	}
	byNetns := func() map[string]string {
		all := map[string]string{}
		for _, v := range status(t, n).VFs {
			if v.Owner != nil {
				all[v.Netns] = v.Owner.UID
			}
		}
		return all
	}
	config := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "gc", "type": "culvert", "cni.dev/valid-attachments": [{"containerID": %q, "ifname": "net1"}]}`,
		byNetns()[node.Netns("kept")])
	gc := func() map[string]string {
		t.Helper()
		if _, err := n.Feed(t.Context(), strings.NewReader(config), "GC", `CNI_COMMAND=GC CNI_PATH=/opt/cni/bin /opt/cni/bin/culvert`); err != nil {
			t.Fatal(err)
		}
		return byNetns()
	}
	left := gc()
	for until := time.Now().Add(time.Minute); len(left) == 3 && time.Now().Before(until); left = gc() { // it spares new ones
		time.Sleep(time.Second)
	}
	if left[node.Netns("kept")] == "" || left[node.Netns("other")] == "" || len(left) != 2 {
		t.Errorf("after GC these have VFs: %v", left)
	}
	if _, err := n.CNI(t.Context(), "check", kept); err != nil {
		t.Error(err)
	}
}

// culvertd refuses a wrong configuration before it changes anything, and names the nearest key.
func TestWrongConfigurationIsRefused(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	for _, c := range []struct{ name, config, says string }{
		{"typo", pool + `, "max-tx-rate": 100`, "max_tx_rate"},
		{"unable", pool + `, "min_tx_rate": 100`, "min_tx_rate"},
		{"nopool", `"pool": "culvert.dev/none"`, "culvert.dev/none"},
		{"jumbo", pool + `, "mtu": 9000`, "1500"},
	} {
		a := network(t, n, c.name, "1.0.0", c.config)
		netns(t, n, a.Netns)
		refused(t, n, "add", a, c.says)
	}
}

// A VF for user space gets its admin settings, and the result names the VF.
func TestI2VFIOGetsSettingsAndComesBack(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	a := network(t, n, "dpdk", "1.1.0", `"pool": "culvert.dev/vms", "vlan": 300, "mac": "02:aa:bb:cc:dd:02", "trust": "on"`)
	netns(t, n, a.Netns)
	r := add(t, n, a)
	v := holder(t, n, "dpdk")
	info := jq(t, n, fmt.Sprintf(`.[0].vfinfo_list[] | select(.vf == %d) | "\(.address // .mac) vlan \(.vlan_list[0].vlan) trust \(.trust)"`, v.Index), "ip -d -j link show dev enp2s0")
	if want := "02:aa:bb:cc:dd:02 vlan 300 trust true"; info != want {
		t.Errorf("the PF holds %q, want %q", info, want)
	}
	if driver := strings.TrimSpace(string(must(t, n, "readlink", "/sys/bus/pci/devices/"+v.PCI.String()+"/driver"))); !strings.HasSuffix(driver, "/vfio-pci") {
		t.Errorf("its driver is %s", driver)
	}
	// Without a sandbox network-status has neither interface nor MAC address, as KubeVirt reads it.
	if len(r.Interfaces) != 1 || r.Interfaces[0].PCI != v.PCI.String() || r.Interfaces[0].MAC != "02:aa:bb:cc:dd:02" || r.Interfaces[0].Sandbox != node.Netns(a.Netns) || r.Interfaces[0].MTU != 1500 {
		t.Errorf("the result is %+v", r)
	}
	if _, err := n.CNI(t.Context(), "check", a); err != nil {
		t.Error(err)
	}
}

// I1: eight containers request one of seven VFs at once. Seven get one each, and the
// refusal of the eighth names the owners.
func TestI1EightWantSevenVFs(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	base := network(t, n, "crowd", "1.1.0", pool+`, "ipam": {"type": "host-local", "subnet": "10.80.0.0/24"}`)
	const crowd = 8
	errs := make([]error, crowd)
	var all sync.WaitGroup
	for i := range crowd {
		a := base
		a.Netns = fmt.Sprintf("crowd%d", i)
		a.Args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + a.Netns
		netns(t, n, a.Netns)
		t.Cleanup(func() { _, _ = n.CNI(context.Background(), "del", a) }) // if the test ends early
		all.Add(1)
		go func() {
			defer all.Done()
			_, errs[i] = n.CNI(t.Context(), "add", a)
		}()
	}
	all.Wait()
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
			mentions(t, err.Error(), "7 of 7", "default/crowd")
		}
	}
	if failed != 1 {
		t.Errorf("%d of %d were refused, want 1: %v", failed, crowd, errs)
	}
	owners, addresses := map[string]string{}, map[string]string{}
	for _, v := range status(t, n).VFs {
		if v.Owner == nil {
			continue
		}
		owners[v.Owner.Name] += v.Name
		for _, a := range v.Addresses {
			addresses[a] += v.Name
		}
	}
	if len(owners) != 7 || len(addresses) != 7 {
		t.Errorf("VFs by owner: %v; by address: %v", owners, addresses)
	}
	for i := range crowd {
		a := base
		a.Netns = fmt.Sprintf("crowd%d", i)
		all.Add(1)
		go func() {
			defer all.Done()
			_, errs[i] = n.CNI(t.Context(), "del", a)
		}()
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("detaching all at once: %v", err)
	}
}

// I8: DEL frees a VF whose netns was deleted with the VF in it, and a second DEL succeeds as well.
func TestI8NetnsDiesUnderTheVF(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	a := network(t, n, "gone", "1.1.0", pool+`, "vlan": 7, "mac": "02:aa:bb:cc:dd:03", "mtu": 1300, "ipam": {"type": "host-local", "subnet": "10.81.0.0/24"}`)
	netns(t, n, a.Netns)
	add(t, n, a)
	must(t, n, "ip", "netns", "delete", a.Netns)
	del(t, n, a)
	del(t, n, a)
}

// I8: culvertd may be restarted at any time. An owner keeps its VF, and DEL releases the VF as
// usual.
func TestI8RestartKeepsTheLease(t *testing.T) {
	n := nodes[0]
	leavesNothing(t, n)
	a := network(t, n, "restart", "1.1.0", pool+`, "vlan": 8, "ipam": {"type": "host-local", "subnet": "10.82.0.0/24"}`)
	netns(t, n, a.Netns)
	add(t, n, a)
	before := holder(t, n, "restart")
	must(t, n, "systemctl", "restart", "culvertd")
	after := holder(t, n, "restart")
	if before.Name != after.Name || after.Phase != "attached" || before.Generation != after.Generation {
		t.Errorf("before the restart %s in phase %s, generation %d; after it %s in phase %s, generation %d",
			before.Name, before.Phase, before.Generation, after.Name, after.Phase, after.Generation)
	}
	if _, err := n.CNI(t.Context(), "check", a); err != nil {
		t.Error(err)
	}
	must(t, n, "systemctl", "kill", "--signal=KILL", "culvertd")
	waitRestarted(t, n)
	if _, err := n.CNI(t.Context(), "check", a); err != nil {
		t.Error(err)
	}
	del(t, n, a)
}

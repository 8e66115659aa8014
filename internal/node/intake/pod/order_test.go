package pod_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hasVF reports whether an interface of container c1 is a VF.
func (w *world) hasVF(name string) bool {
	for _, pci := range w.vfs() {
		st, err := w.k.VF(w.Context(), pci, "/run/netns/c1")
		if err == nil && st.Link != nil && st.Link.Name == name {
			return true
		}
	}
	return false
}

// stacks makes a plugin of another project fail unless the VFs that it stacks on are there,
// at ADD and at DEL.
func (w *world) stacks(kind string, on ...string) {
	w.host.fail = func(command, k string) error {
		for _, name := range on {
			if k == kind && (command == "ADD" || command == "DEL") && !w.hasVF(name) {
				return fmt.Errorf("%s: there is no interface %s", command, name)
			}
		}
		return nil
	}
}

const stackable = `{"type":"sriov","cniVersion":"1.0.0"}`

// A network finds the networks before it in the annotation, when it is added and when it is
// deleted: a VLAN on a VF, and another network in between.
func TestNetworksComeInOrder(t *testing.T) {
	w := newWorld(t)
	w.network("v", stackable)
	w.network("m", `{"cniVersion":"1.0.0","type":"macvlan","master":"net1","linkInContainer":true}`)
	w.network("lan", `{"cniVersion":"1.0.0","plugins":[{"type":"vlan","master":"net1","linkInContainer":true,"vlanId":5},{"type":"tuning"}]}`)
	w.asks("v,m,lan")
	w.stacks("vlan", "net1")
	w.add()
	if resp := w.call("CHECK", ""); resp.Exit != 0 {
		t.Errorf("CHECK: %s", resp.Stdout)
	}
	w.del()
	want := []string{
		"ADD flannel c1 eth0", "ADD portmap c1 eth0", "ADD macvlan c1 net2", "ADD vlan c1 net3", "ADD tuning c1 net3",
		"CHECK macvlan c1 net2", "CHECK vlan c1 net3", "CHECK tuning c1 net3",
		"DEL tuning c1 net3", "DEL vlan c1 net3", "DEL macvlan c1 net2", "DEL portmap c1 eth0", "DEL flannel c1 eth0",
	}
	if d := cmp.Diff(want, w.host.called()); d != "" {
		t.Error(d)
	}
	w.clean()
}

// A bond over two VFs of the pod, as bond-cni is configured for it. The plugin "bond" here is a
// stand-in: bond-cni does not download. The stand-in checks its configuration, and that both links
// are there.
func TestBondOverTwoVFs(t *testing.T) {
	const config = `{"cniVersion":"0.3.1","type":"bond","name":"bond","mode":"active-backup","miimon":"100","linksInContainer":true,
		"links":[{"name":"net1"},{"name":"net2"}],"ipam":{"type":"host-local","subnet":"10.56.217.0/24"}}`
	w := newWorld(t)
	w.network("v", stackable)
	w.network("bond", config)
	w.asks("v,v,bond@bond0")
	w.stacks("bond", "net1", "net2")
	w.add()
	got, want := w.host.config(t, "ADD", "bond"), map[string]any{}
	if err := json.Unmarshal([]byte(config), &want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("bond is configured otherwise (-want +got):\n%s", d)
	}
	if r := w.host.seen["ADD bond"]; r.IfName != "bond0" || r.Netns != "/run/netns/c1" {
		t.Errorf("bond was called as %+v", r)
	}
	if s := w.status(); s[3]["interface"] != "bond0" || s[1]["interface"] != "net1" || s[2]["interface"] != "net2" {
		t.Errorf("network-status %v", s)
	}
	w.del()
	w.clean()
}

// An ADD that fails deletes the networks that it began to add, the last one first, and no others.
func TestUndoFollowsTheOrder(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"macvlan", "vlan", "ipvlan"} {
		w.network(kind, `{"cniVersion":"1.0.0","type":"`+kind+`"}`)
	}
	w.network("v", stackable)
	w.asks("v,macvlan,vlan,ipvlan")
	w.host.fail = func(command, kind string) error {
		switch {
		case command == "DEL" && !w.hasVF("net1"):
			if kind != "portmap" && kind != "flannel" {
				return errors.New("the VF has gone before it")
			}
		case command == "ADD" && kind == "vlan":
			return errors.New("no")
		}
		return nil
	}
	if msg := w.refused(); !strings.Contains(msg, "network d/vlan (net3)") {
		t.Error(msg)
	}
	want := []string{
		"ADD flannel c1 eth0", "ADD portmap c1 eth0", "ADD macvlan c1 net2", "ADD vlan c1 net3",
		"DEL vlan c1 net3", "DEL macvlan c1 net2", "DEL portmap c1 eth0", "DEL flannel c1 eth0",
	}
	if d := cmp.Diff(want, w.host.called()); d != "" {
		t.Error(d)
	}
}

// After a crash culvertd does not know how far the ADD came: the next ADD of the sandbox deletes
// every network, the last one first.
func TestReplayFollowsTheOrder(t *testing.T) {
	w := newWorld(t)
	kinds := []string{"macvlan", "vlan", "ipvlan", "bridge", "dummy"}
	for _, kind := range kinds {
		w.network(kind, `{"cniVersion":"1.0.0","type":"`+kind+`"}`)
	}
	w.asks(strings.Join(kinds, ","))
	w.add()
	w.cutShort()
	before := len(w.host.called())
	w.add()
	want := []string{"DEL dummy c1 net5", "DEL bridge c1 net4", "DEL ipvlan c1 net3", "DEL vlan c1 net2", "DEL macvlan c1 net1",
		"DEL portmap c1 eth0", "DEL flannel c1 eth0", "ADD flannel c1 eth0"}
	if got := w.host.called()[before:][:len(want)]; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	w.del()
	w.clean()
}

// Every plugin of a list gets the kubelet's device, whichever is first: [sriov, rdma] moves
// the RDMA device of the VF that sriov moves.
func TestEveryPluginOfAChainGetsTheDevice(t *testing.T) {
	w := newWorld(t)
	own := strings.TrimSuffix(stackable, "}") + `,"capabilities":{"mac":true}}`
	w.network("first", `{"cniVersion":"1.0.0","plugins":[`+own+`,{"type":"tuning"},{"type":"rdma"}]}`, "intel.com/fast")
	w.network("second", `{"cniVersion":"1.0.0","plugins":[{"type":"host-device"},{"type":"bandwidth"}]}`, "intel.com/fast")
	w.given["d/a/intel.com/fast"] = w.vfs()[1:3]
	w.asks("first,second")
	w.add()
	for kind, want := range map[string]string{"tuning": w.vfs()[1].String(), "rdma": w.vfs()[1].String(), "host-device": w.vfs()[2].String(), "bandwidth": w.vfs()[2].String()} {
		if got := w.host.config(t, "ADD", kind); got["deviceID"] != want || got["pciBusID"] != want {
			t.Errorf("%s got %v and %v, want %s", kind, got["deviceID"], got["pciBusID"], want)
		}
	}
	if resp := w.call("CHECK", ""); resp.Exit != 0 {
		t.Errorf("CHECK: %s", resp.Stdout)
	}
	if got := w.host.config(t, "CHECK", "rdma"); got["deviceID"] != w.vfs()[1].String() || got["prevResult"] == nil {
		t.Errorf("the CHECK of rdma has %v", got)
	}
	w.del()
	if got := w.host.config(t, "DEL", "rdma"); got["deviceID"] != w.vfs()[1].String() {
		t.Errorf("the DEL of rdma has %v", got)
	}
	w.clean()
}

// A macvlan over a VF that is not trusted gets a warning, since the VF's driver may drop its
// frames.
func TestMacvlanNeedsTrust(t *testing.T) {
	for name, tc := range map[string]struct {
		vf, macvlan string
		warned      bool
	}{
		"no trust":         {stackable, `"master":"net1","linkInContainer":true`, true},
		"trust: off":       {strings.Replace(stackable, "}", `,"trust":"off"}`, 1), `"master":"net1","linkInContainer":true`, true},
		"trust: on":        {strings.Replace(stackable, "}", `,"trust":"on"}`, 1), `"master":"net1","linkInContainer":true`, false},
		"of the node":      {stackable, `"master":"net1"`, false},
		"on another":       {stackable, `"master":"eth0","linkInContainer":true`, false},
		"of another chain": {`{"cniVersion":"1.0.0","type":"ipvlan"}`, `"master":"net1","linkInContainer":true`, false},
	} {
		w := newWorld(t)
		w.network("v", tc.vf)
		w.network("m", `{"cniVersion":"1.0.0","type":"macvlan",`+tc.macvlan+`}`)
		w.asks("v,m")
		w.add()
		warned := slices.ContainsFunc(w.cluster.events, func(e string) bool {
			return strings.HasPrefix(e, "d/a Warning VFNotTrusted network d/m (net2): macvlan on VF net1 of network d/v")
		})
		if warned != tc.warned {
			t.Errorf("%s: events %q", name, w.cluster.events)
		}
		w.del()
		w.clean()
	}
}

// The device that the kubelet chose replaces a device that the network names, as with Multus: the
// SR-IOV CNI plugin's documents have a deviceID in their networks.
func TestTheKubeletsDeviceIsInPlaceOfTheNetworks(t *testing.T) {
	w := newWorld(t)
	w.network("v", strings.Replace(stackable, "{", `{"deviceID":"0000:03:02.0",`, 1), "intel.com/fast")
	w.given["d/a/intel.com/fast"] = w.vfs()[1:2]
	w.asks("v")
	w.add()
	if st := w.status()[1]; !strings.Contains(fmt.Sprint(st["device-info"]), w.vfs()[1].String()) {
		t.Errorf("the pod has %v", st)
	}
	w.del()
	w.clean()
}

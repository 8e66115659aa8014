package pod_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// prepare gives VFs, by their places in the ledger, to a request of claim d/NAME for pods, as Prepare does it.
func (w *world) prepare(name, request, config string, pods []journal.ClaimPod, places ...int) {
	w.Helper()
	all := w.content().Records
	err := w.ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, i := range places {
			r := all[i]
			r.Phase = vf.PhasePrepared
			r.Claim = &journal.Claim{UID: "uid of " + name, Namespace: "d", Name: name, Request: request, Pods: pods, Pool: "intel.com/fast"}
			if config != "" {
				r.Claim.Config = []byte(config)
				r.Readback = &vf.Readback{Time: time.Unix(0, 0), Attributes: 40, AfterOwner: true, Changed: []vf.Difference{{Attribute: "alias", Have: "secret"}}}
			}
			errs = append(errs, tx.Put(r))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		w.Fatal(err)
	}
}

var podA = []journal.ClaimPod{{Name: "a", UID: "u1"}}

// claims makes pod d/a with claims in its spec.
func (w *world) claims(networks string, names ...string) {
	w.cluster.pods["d/a"] = api.Pod{Namespace: "d", Name: "a", UID: "u1", Claims: names, Annotations: map[string]string{netannotation.Networks: networks}}
}

func vfConfig(keys string) string {
	return `{"apiVersion":"culvert.dev/v1alpha1","kind":"VFConfig"` + strings.TrimSuffix(","+keys, ",") + `}`
}

// phases returns the interface of each VF that is not free, by its place in the ledger.
func (w *world) phases() map[int]string {
	w.Helper()
	w.node.VFs.Wait()
	out := map[int]string{}
	for i, r := range w.content().Records {
		switch {
		case r.Phase == vf.PhaseAttached:
			out[i] = r.Lease.Wanted.Interface
		case r.Phase != vf.PhaseFree:
			out[i] = string(r.Phase)
		}
	}
	return out
}

func (w *world) wantPhases(when string, want map[int]string) {
	w.Helper()
	if diff := cmp.Diff(want, w.phases()); diff != "" {
		w.Errorf("%s:\n%s", when, diff)
	}
}

const plainVF = `{"type":"sriov","cniVersion":"1.0.0","name":"v"}`

// The networks of a pod's annotation come first, in its order. They take VFs of claims before those of the
// kubelet. The claims with configurations follow in the order of the pod's spec, then by request and device. A
// name that a later claim asks for is kept for it.
func TestNetworksOfClaims(t *testing.T) {
	w := newWorldOn(t, hostFile, 2)
	w.network("v", plainVF, "intel.com/fast")
	w.network("other/w", plainVF)
	w.given["d/a/intel.com/fast"] = w.vfs()[:1]
	w.prepare("plain", "r", "", podA, 1)
	w.prepare("z-first", "r", vfConfig(`"vlan":7`), podA, 5, 3)
	w.prepare("a-second", "two", vfConfig(`"interface":"net2"`), podA, 2)
	w.prepare("a-second", "one", vfConfig(`"network":"other/w"`), podA, 4)
	w.claims("v,v@net4", "plain", "z-first", "a-second")
	w.add()
	w.wantPhases("after ADD", map[int]string{1: "net1", 0: "net4", 3: "net3", 5: "net5", 4: "net6", 2: "net2"})
	var got []string
	for _, s := range w.status()[1:] {
		got = append(got, fmt.Sprint(s["name"], " ", s["interface"]))
		if info, _ := json.Marshal(s["device-info"]); !strings.Contains(string(info), "pci-address") {
			t.Errorf("network %v has device-info %s", s["name"], info)
		}
	}
	want := []string{"d/v net1", "d/v net4", "d/claim:z-first net3", "d/claim:z-first net5", "other/w net6", "d/claim:a-second net2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("network-status:\n%s", diff)
	}
	if r := w.content().Records[3]; r.Lease.Wanted.VLAN == nil || r.Lease.Wanted.VLAN.ID != 7 {
		t.Errorf("VF 3 has VLAN %v", r.Lease.Wanted.VLAN)
	}
	if resp := w.call("CHECK", ""); resp.Exit != 0 {
		t.Errorf("CHECK: %s", resp.Stdout)
	}
	prepared := map[int]string{1: "prepared", 2: "prepared", 3: "prepared", 4: "prepared", 5: "prepared"}
	w.del()
	w.wantPhases("after DEL", prepared)
	w.add() // a new sandbox of the same pod
	w.del()
	w.wantPhases("after a second DEL", prepared)
}

// A claim of two devices is a bond if its configuration, or the network that it names, has one.
func TestBondOfAClaim(t *testing.T) {
	for name, config := range map[string]string{"by keys": vfConfig(`"bond":{"links":2},"interface":"bond7"`), "by network": vfConfig(`"network":"pair","interface":"bond7"`)} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOn(t, hostFile, 2)
			w.network("pair", bond)
			w.prepare("c", "r", config, podA, 1, 6)
			w.claims("", "c")
			w.add()
			w.wantPhases("after ADD", map[int]string{1: "bond7a", 6: "bond7b"})
			w.del()
			w.wantPhases("after DEL", map[int]string{1: "prepared", 6: "prepared"})
		})
	}
	w := newWorldOn(t, hostFile, 2)
	w.prepare("c", "r", vfConfig(`"bond":{"links":2}`), podA, 1, 6, 7)
	w.claims("", "c")
	w.refusedClaims("claim d/c request r (net2): invalid: the network needs 2 VFs, and the request has 1 left for it: set its count to a multiple of 2", map[int]string{1: "prepared", 6: "prepared", 7: "prepared"})
}

// refusedClaims carries out an ADD that has to fail with a text and leave the VFs as they are.
func (w *world) refusedClaims(says string, want map[int]string) {
	w.Helper()
	resp := w.call("ADD", "")
	var e api.CNIError
	if err := json.Unmarshal(resp.Stdout, &e); err != nil || resp.Exit == 0 || !strings.Contains(e.Msg, says) {
		w.Errorf("ADD: exit %d, %s\nwant %s", resp.Exit, resp.Stdout, says)
	}
	w.wantPhases("after a refused ADD", want)
	if left := w.host.left(); len(left) > 0 {
		w.Errorf("plugins still have %v", left)
	}
}

// A pod of claims that cannot be served is refused before anything is changed, with an event.
func TestClaimsAreRefused(t *testing.T) {
	podB, both := []journal.ClaimPod{{Name: "b", UID: "u2"}}, []journal.ClaimPod{{Name: "b", UID: "u2"}, {Name: "a", UID: "u1"}}
	for name, tc := range map[string]struct {
		before             func(*world)
		reason, says, then string // then is the phase of VF 1
	}{
		"a claim that was prepared for another pod": {func(w *world) { w.prepare("c", "r", vfConfig(""), podB, 1) },
			"ClaimInUse", "claim d/c: another pod has it (b), and a VF has one pod at a time: give each pod a claim of its own by a ResourceClaimTemplate", "prepared"},
		"a claim whose other pod has a sandbox": {func(w *world) {
			w.prepare("c", "r", "", both, 1)
			w.sandboxOf("b", "u2", journal.SandboxAdding)
		}, "ClaimInUse", "claim d/c: another pod has it (b)", "prepared"},
		"a claim that is not in the ledger": {func(w *world) {
			w.pods.Claimed = func(context.Context, string, string) ([]api.ClaimedDevice, error) {
				return []api.ClaimedDevice{{Claim: "gpu", Driver: "gpu.example.com", Pool: "p", Device: "g"}, {Claim: "c", Driver: "culvert.dev", Pool: "n/x", Device: "vf-1"}}, nil
			}
		}, "ClaimNotPrepared", "claim d/c: not prepared on this node: the kubelet had device vf-1 of pool n/x prepared, and culvertd's ledger does not have it: delete the pod", ""},
		"a VF in quarantine": {func(w *world) {
			w.prepare("c", "r", vfConfig(""), podA, 1)
			w.quarantine(1, "stuck")
		}, "NetworkFailed", "it is in quarantine (stuck): delete the pod", "quarantined"},
		"a VF that has gone": {func(w *world) { w.prepare("c", "r", vfConfig(""), podA, 1); w.setVFs(1, 2) },
			"NetworkFailed", "claim d/c: not found: 1 of its 2 VFs are there", "prepared"},
		"a configuration that is wrong": {func(w *world) { w.prepare("c", "r", vfConfig(`"vlna":1`), podA, 1) },
			"NetworkFailed", "claim d/c request r: its configuration: vlna: did you mean vlan?", "prepared"},
		"a network that does not exist": {func(w *world) { w.prepare("c", "r", vfConfig(`"network":"none"`), podA, 1) },
			"NetworkFailed", "claim d/c request r (net1): network d/none: NetworkAttachmentDefinition d/none: not found", "prepared"},
		"a network of another resource": {func(w *world) {
			w.network("v", plainVF, "intel.com/slow")
			w.prepare("c", "r", vfConfig(`"network":"v"`), podA, 1)
		}, "NetworkFailed", "the network is for VFs of resource intel.com/slow, and the claim has VF", "prepared"},
		"the name of another interface": {func(w *world) { w.prepare("c", "r", vfConfig(`"interface":"eth0"`), podA, 1) },
			"NetworkFailed", "interface eth0: invalid: network cbr0 has that name", "prepared"},
		"one name for two devices": {func(w *world) { w.prepare("c", "r", vfConfig(`"interface":"x0"`), podA, 1, 2) },
			"NetworkFailed", "interface x0: invalid: network d/claim:c has that name", "prepared"},
		"an AddressPool without a cluster that has it": {func(w *world) {
			w.prepare("c", "r", vfConfig(`"ipam":{"type":"culvert","addressPool":"office"}`), podA, 1)
		}, "NetworkFailed", "ipam.addressPool office: invalid", "prepared"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.claims("", "c")
			tc.before(w)
			held := w.phases()
			w.refusedClaims(tc.says, held)
			if held[1] != tc.then {
				t.Errorf("VF 1 is %q, want %q", held[1], tc.then)
			}
			if e := w.cluster.events; len(e) != 1 || !strings.HasPrefix(e[0], "d/a Warning "+tc.reason+" pod d/a: ") {
				t.Errorf("events %v, want one with reason %s", e, tc.reason)
			}
		})
	}
}

func (w *world) sandboxOf(pod, uid string, phase journal.SandboxPhase) {
	w.Helper()
	err := w.ledger.Update(func(tx *journal.Tx) error {
		return tx.PutSandbox(journal.Sandbox{ID: "of " + pod, Namespace: "d", Pod: pod, UID: uid, Phase: phase, Networks: []journal.SandboxNetwork{{
			Name: "cbr0", Interface: "eth0", Default: true, Plugins: []netconf.Plugin{{Type: "flannel", Raw: json.RawMessage(`{"type":"flannel"}`)}},
		}}})
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) quarantine(place int, reason string) {
	w.Helper()
	r := w.content().Records[place]
	r.Phase, r.Reason = vf.PhaseQuarantined, reason
	if err := w.ledger.Update(func(tx *journal.Tx) error { return tx.Put(r) }); err != nil {
		w.Fatal(err)
	}
}

// setVFs sets how many VFs the claim of a VF has.
func (w *world) setVFs(place, n int) {
	w.Helper()
	r := w.content().Records[place]
	r.Claim.VFs = n
	if err := w.ledger.Update(func(tx *journal.Tx) error { return tx.Put(r) }); err != nil {
		w.Fatal(err)
	}
}

// The second pod of a claim starts when the first one's sandbox is gone, if the claim was prepared for both.
func TestClaimOfTwoPods(t *testing.T) {
	w := newWorld(t)
	w.prepare("c", "r", vfConfig(""), []journal.ClaimPod{{Name: "b", UID: "u2"}, {Name: "a", UID: "u1"}}, 1)
	w.claims("", "c")
	w.sandboxOf("b", "u2", journal.SandboxDeleting)
	w.add()
	w.wantPhases("after ADD", map[int]string{1: "net1"})
}

// A claim of another driver, and a kubelet that does not answer, keep no pod from starting.
func TestClaimsOfOthers(t *testing.T) {
	w := newWorld(t)
	w.claims("", "gpu")
	for _, err := range []error{nil, vf.ErrNotReady} {
		w.pods.Claimed = func(context.Context, string, string) ([]api.ClaimedDevice, error) {
			return []api.ClaimedDevice{{Claim: "gpu", Driver: "gpu.example.com", Pool: "p", Device: "g"}}, err
		}
		w.add()
		w.del()
	}
	w.clean()
}

// A VF that no network uses stays prepared. The pod has an event, unless the VF is a device of its own.
func TestClaimWithoutNetwork(t *testing.T) {
	for more, want := range map[string]int{"": 1, "  deviceType: vfio-pci\n": 0} {
		w := newWorldOf(t, hostFile+more)
		w.prepare("c", "r", "", podA, 1)
		w.claims("", "c")
		w.add()
		w.wantPhases("after ADD", map[int]string{1: "prepared"})
		if e := w.cluster.events; len(e) != want || want == 1 && !strings.Contains(e[0], "ClaimWithoutNetwork claim d/c request r: VF "+w.vfs()[1].String()+" is prepared, and no network of the pod uses it") {
			t.Errorf("%q: events %v", more, e)
		}
	}
}

// I9: no text gives a pod the VF of another pod's claim, or a network that its namespace may not use.
func TestI9AttacksByClaims(t *testing.T) {
	podB := []journal.ClaimPod{{Name: "b", UID: "u2"}}
	for name, tc := range map[string]struct {
		before func(w *world, theirs string)
		says   string
	}{
		"the VF by deviceID of the annotation": {func(w *world, theirs string) {
			w.network("v", plainVF)
			w.claims(`[{"name":"v","deviceID":"` + theirs + `"}]`)
		}, "the kubelet did not give that device to pod d/a"},
		"the VF by deviceID of the network": {func(w *world, theirs string) {
			w.network("v", `{"type":"sriov","cniVersion":"1.0.0","name":"v","deviceID":"`+theirs+`"}`)
			w.claims("v")
		}, "VF %s on enp1s0: held by claim d/theirs"},
		"the VF by deviceID of the configuration": {func(w *world, theirs string) {
			w.prepare("c", "r", vfConfig(`"deviceID":"`+theirs+`"`), podA, 2)
			w.claims("", "c")
		}, "not in a claim: the claim has its device already"},
		"the resource": {func(w *world, _ string) {
			w.network("v", plainVF, "intel.com/fast")
			w.claims("v")
		}, "the kubelet gave pod d/a 0 of them"},
		"a network of an isolated namespace": {func(w *world, _ string) {
			w.pods.Isolation = netannotation.Isolation{On: true}
			w.network("v/theirs", plainVF)
			w.prepare("c", "r", vfConfig(`"network":"v/theirs"`), podA, 2)
			w.claims("", "c")
		}, "pods of namespace d may use networks of their own namespace only"},
		"addresses of a network that does not share them": {func(w *world, _ string) {
			w.network("v/theirs", `{"type":"culvert","cniVersion":"1.0.0","name":"x","ipam":{"type":"host-local","subnet":"10.9.0.0/24"}}`)
			w.prepare("c", "r", vfConfig(`"ipam":{"type":"culvert","poolOf":"v/theirs"}`), podA, 2)
			w.claims("", "c")
		}, "that network does not share its addresses with namespace d"},
		"10 KiB of keys": {func(w *world, _ string) {
			w.prepare("c", "r", vfConfig(manyKeys(1000)), podA, 2)
			w.claims("", "c")
		}, "k0: unknown key (value 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.prepare("theirs", "r", "", podB, 1)
			theirs := w.vfs()[1].String()
			tc.before(w, theirs)
			held := w.phases()
			w.refusedClaims(strings.ReplaceAll(tc.says, "%s", theirs), held)
			if len(w.cluster.events) != 1 || len(w.cluster.events[0]) > 8<<10 {
				t.Errorf("events: %.9000v", w.cluster.events)
			}
		})
	}
}

// A claim's status has an entry for each of its VFs after the ADD, none after the DEL, and those of a new
// sandbox again. culvertd that restarts before the write makes it up.
func TestClaimStatus(t *testing.T) {
	w := newWorld(t)
	w.network("owner", `{"type":"culvert","cniVersion":"1.1.0","name":"x","vlan":7,"ipam":{"type":"host-local","scope":"node","subnet":"10.9.0.0/24"}}`)
	w.prepare("c", "r", vfConfig(`"network":"owner"`), podA, 2)
	w.prepare("plain", "r", "", podA, 1)
	w.claims("", "c", "plain")
	w.add()
	all := w.content().Records
	pool, _ := claim.PoolName("n", all[1].ID.PF)
	data := api.ClaimDeviceData{APIVersion: "culvert.dev/v1alpha1", Kind: "VFStatus", Pool: "intel.com/fast", PCI: all[1].PCI.String()}
	idle := api.ClaimDevice{Pool: pool, Device: "vf-1", Reason: "ClaimWithoutNetwork", Message: "no network of the pod uses it", Since: all[1].Since, Data: data,
		Clean: api.ClaimCondition{Status: "Unknown", Reason: "NoReadback", Message: "an earlier version of culvertd prepared the VF"}}
	mac := all[2].Lease.LinkMAC.String()
	data.Network, data.MAC, data.VLAN, data.PCI = "d/owner", mac, 7, all[2].PCI.String()
	data.Readback = &api.ClaimReadback{Time: time.Unix(0, 0), Attributes: 40, Changed: []string{"alias"}}
	attached := api.ClaimDevice{Pool: pool, Device: "vf-2", Ready: true, Reason: "Attached", Message: "pod a has it as net1", Since: all[2].Since,
		Interface: "net1", MAC: mac, Addresses: []string{"10.9.0.2/24"}, Data: data,
		Clean: api.ClaimCondition{
			Status: "True", Reason: "ChangesUndone", Since: time.Unix(0, 0),
			Message: "40 attributes equal the baseline, read at 1970-01-01T00:00:00Z; the reset undid changes of its last owner or another program: alias",
		}}
	want := map[string][]api.ClaimDevice{"d/c uid of c": {attached}, "d/plain uid of plain": {idle}}
	if diff := cmp.Diff(want, w.cluster.claims); diff != "" {
		t.Errorf("after ADD:\n%s", diff)
	}
	w.cluster.claims = nil
	if err := w.pods.Resume(t.Context()); err != nil || len(w.cluster.claims) != 2 {
		t.Errorf("after a restart: %v, %v", w.cluster.claims, err)
	}
	w.del()
	if diff := cmp.Diff(map[string][]api.ClaimDevice{"d/c uid of c": nil, "d/plain uid of plain": nil}, w.cluster.claims); diff != "" {
		t.Errorf("after DEL:\n%s", diff)
	}
}

// The metadata files get what the pod has before the runtime has its answer. An ADD whose files cannot be
// written fails and is undone.
func TestMetadataAtAdd(t *testing.T) {
	w := newWorld(t)
	w.prepare("c", "r", vfConfig(""), podA, 2)
	w.prepare("theirs", "r", "", []journal.ClaimPod{{Name: "b", UID: "u2"}}, 1)
	w.claims("", "c")
	var got []string
	var refusal error
	w.pods.Metadata = func(records []journal.Record) error {
		for _, r := range records {
			got = append(got, fmt.Sprint(r.Claim.Name, " ", r.Phase))
		}
		return refusal
	}
	w.add()
	w.del()
	if diff := cmp.Diff([]string{"c attached"}, got); diff != "" {
		t.Error(diff)
	}
	refusal = errors.New("no space left on device")
	w.refusedClaims("no space left on device", map[int]string{1: "prepared", 2: "prepared"})
}

// A VF that is bound to vfio-pci is Ready without a network.
func TestClaimStatusOfUserSpace(t *testing.T) {
	w := newWorldOf(t, hostFile+"  deviceType: vfio-pci\n")
	w.prepare("c", "r", "", podA, 1)
	w.claims("", "c")
	w.add()
	if d := w.cluster.claims["d/c uid of c"]; len(d) != 1 || !d[0].Ready || d[0].Reason != "Prepared" || d[0].Interface != "" {
		t.Errorf("the status is %+v", d)
	}
}

func manyKeys(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf(`"k%d":1`, i))
	}
	return strings.Join(keys, ",")
}

// I9: a network with the VF of another pod's claim in its text has the VF of its own claim.
func TestI9ClaimDecidesTheVF(t *testing.T) {
	for _, keys := range []string{`"deviceID":"%s"`, `"pciBusID":"%s"`, `"runtimeConfig":{"deviceID":"%s"}`} {
		w := newWorld(t)
		w.prepare("theirs", "r", "", []journal.ClaimPod{{Name: "b", UID: "u2"}}, 1)
		w.network("v", `{"type":"sriov","cniVersion":"1.0.0","name":"v",`+strings.ReplaceAll(keys, "%s", w.vfs()[1].String())+`}`)
		w.prepare("c", "r", vfConfig(`"network":"v"`), podA, 2)
		w.claims("", "c")
		w.add()
		w.wantPhases(keys, map[int]string{1: "prepared", 2: "net1"})
	}
}

// A claim that shares the addresses of a network has one of that network's pool, so no other pod gets it (I4).
func TestClaimSharesAPool(t *testing.T) {
	w := newWorld(t)
	w.network("owner", `{"type":"culvert","cniVersion":"1.1.0","name":"x","ipam":{"type":"host-local","scope":"node","subnet":"10.9.0.0/24"}}`, "intel.com/fast")
	w.prepare("c", "r", vfConfig(`"ipam":{"type":"culvert","poolOf":"d/owner"}`), podA, 2)
	w.prepare("plain", "r", "", podA, 1)
	w.claims("owner", "c", "plain")
	w.add()
	got := map[string]string{}
	for _, a := range w.content().Addresses {
		got[a.Addr.String()] = a.Network + " " + a.Owner.Interface
	}
	if diff := cmp.Diff(map[string]string{"10.9.0.2": "d/owner net1", "10.9.0.3": "d/owner net2"}, got); diff != "" {
		t.Error(diff)
	}
}

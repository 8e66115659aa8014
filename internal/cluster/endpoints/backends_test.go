package endpoints

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
)

var net1 = service.Network{Namespace: "default", Name: "net1"}

// readyPod is a ready pod of node n1 with a network-status.
func readyPod(name, status string) *corev1.Pod {
	p := asking("net1")
	p.Name, p.Spec.NodeName = name, "n1"
	p.Annotations["k8s.v1.cni.cncf.io/network-status"] = status
	p.Status.PodIP, p.Status.PodIPs = "10.244.1.5", []corev1.PodIP{{IP: "10.244.1.5"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))}}
	return p
}

// statusWith is a network-status whose net1 has addresses.
func statusWith(addresses ...string) string {
	return fmt.Sprintf(`[{"name":"cbr0","interface":"eth0","ips":["10.244.1.5"],"default":true},{"name":"default/net1","interface":"net1","ips":[%s]}]`, quoted(addresses))
}

func quoted(all []string) string {
	var out []string
	for _, a := range all {
		out = append(out, fmt.Sprintf("%q", a))
	}
	return strings.Join(out, ",")
}

func vfOf(pod, phase, in string, addresses ...string) v1alpha1.VFState {
	return v1alpha1.VFState{Name: "enp1s0#0", Phase: phase, Pool: "culvert.dev/fast", Owner: &v1alpha1.Owner{Kind: "pod", Name: pod, Interface: in}, Addresses: addresses}
}

func stateWith(vfs ...v1alpha1.VFState) *v1alpha1.NodeState {
	return &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1alpha1.NodeStateStatus{
		VFs: vfs, Pools: []v1alpha1.PoolState{{Name: "culvert.dev/fast", DeviceType: "netdevice"}, {Name: "culvert.dev/dpdk", DeviceType: "vfio-pci"}},
	}}
}

// I9: the text of an annotation publishes no address that the ledger of the pod's node does not
// have for that pod.
func TestI9ForeignAddressIsNotPublished(t *testing.T) {
	mine := vfOf("default/p", "attached", "net1", "172.16.91.20/24")
	onVFIO := mine
	onVFIO.Pool = "culvert.dev/dpdk"
	earlier, byUID := vfOf("default/p", "attached", "net1", "172.16.91.20/24"), vfOf("default/p", "attached", "net1", "172.16.91.20/24")
	earlier.Owner.PodUID, byUID.Owner.PodUID = "u0", "u1"
	for _, tc := range []struct {
		name, status string
		state        *v1alpha1.NodeState
		want         string // addresses, or why there is none
		awaited      bool
	}{
		{"both have it", statusWith("172.16.91.20"), stateWith(mine), "[172.16.91.20]", false},
		{"another pod's address", statusWith("172.16.91.21"), stateWith(mine, vfOf("default/q", "attached", "net1", "172.16.91.21/24")), "does not confirm", true},
		{"its own and another's", statusWith("172.16.91.20", "172.16.91.21"), stateWith(mine, vfOf("default/q", "attached", "net1", "172.16.91.21/24")), "[172.16.91.20]", false},
		{"a pod of this name elsewhere", statusWith("172.16.91.20"), stateWith(vfOf("other/p", "attached", "net1", "172.16.91.20/24")), "does not have its interface", true},
		{"another interface's address", statusWith("10.0.0.1"), stateWith(mine, vfOf("default/p", "attached", "net2", "10.0.0.1/24")), "does not confirm", true},
		{"a guest of this name", statusWith("172.16.91.20"), stateWith(v1alpha1.VFState{Phase: "attached", Owner: &v1alpha1.Owner{Kind: "vm", Name: "default/p", Interface: "net1"}, Addresses: []string{"172.16.91.20/24"}}), "does not have its interface", true},
		{"released", statusWith("172.16.91.20"), stateWith(vfOf("default/p", "releasing", "net1", "172.16.91.20/24")), "does not have its interface", true},
		{"an earlier pod of this name", statusWith("172.16.91.20"), stateWith(earlier), "does not have its interface", true},
		{"the pod itself, by its UID", statusWith("172.16.91.20"), stateWith(byUID), "[172.16.91.20]", false},
		{"no NodeState", statusWith("172.16.91.20"), nil, "node n1 has no NodeState", true},
		{"no such network yet", `[{"name":"cbr0","interface":"eth0","ips":["10.244.1.5"]}]`, stateWith(mine), "does not have network default/net1", true},
		{"no status", "", stateWith(mine), "does not have network default/net1", true},
		{"no JSON", "{", stateWith(mine), "unexpected end of JSON", false},
		{"too long", strings.Repeat(" ", 1<<19), stateWith(mine), "want at most 262144", false},
		{"no ipam", statusWith(), stateWith(vfOf("default/p", "attached", "net1")), "has no address: give the network an ipam", true},
		{"no address", statusWith("x", "fe80::1%eth0"), stateWith(mine), "does not confirm", true},
		{"dual stack, written otherwise", statusWith("::ffff:172.16.91.20", "2001:DB8:0::20"), stateWith(vfOf("default/p", "attached", "net1", "172.16.91.20/24", "2001:db8::20/64")), "[172.16.91.20 2001:db8::20]", false},
		{"on vfio", statusWith("172.16.91.20"), stateWith(onVFIO), "[172.16.91.20] vfio", false},
	} {
		p := readyPod("p", tc.status)
		p.UID = "u1"
		got := Find(p, net1, tc.state)
		text := fmt.Sprint(got.Addresses)
		if got.VFIO {
			text += " vfio"
		}
		if got.Missing != "" {
			text = got.Missing
		}
		if !strings.Contains(text, tc.want) || (got.Missing != "") != (len(got.Addresses) == 0) || got.Awaited != tc.awaited {
			t.Errorf("I9: %s: %s, awaited %t; want %s, %t", tc.name, text, got.Awaited, tc.want, tc.awaited)
		}
	}
	stranger := readyPod("p", statusWith())
	stranger.Annotations = map[string]string{}
	if got := Find(stranger, net1, stateWith(mine)); !strings.Contains(got.Missing, "does not ask for network default/net1") || got.Awaited {
		t.Errorf("%+v", got)
	}
}

// TestAddressesThatKubernetesRefuses: the API server refuses an EndpointSlice as a whole for one
// such address, so a pod that has one is left out with the reason. Its other addresses count.
func TestAddressesThatKubernetesRefuses(t *testing.T) {
	both := newService(func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	good := readyPod("good", statusWith("172.16.91.20"))
	for _, refused := range []string{"169.254.7.1", "fe80::7", "127.0.0.5", "::1", "0.0.0.0", "::", "224.0.0.9", "239.1.2.3", "ff02::9", "ff05::9"} {
		bad, mixed := readyPod("bad", statusWith(refused)), readyPod("mixed", statusWith(refused, "2001:db8::20"))
		state := stateWith(vfOf("default/good", "attached", "net1", "172.16.91.20/24"),
			vfOf("default/bad", "attached", "net1", refused+"/16"), vfOf("default/mixed", "attached", "net1", refused+"/16", "2001:db8::20/64"))
		b := Build(both, []*corev1.Pod{good, bad, mixed}, net1, func(string) *v1alpha1.NodeState { return state })
		var got []string
		for _, p := range b.Pods {
			got = append(got, fmt.Sprint(p.Name, p.Status.PodIPs))
		}
		if want := "good[{172.16.91.20}] mixed[{2001:db8::20}]"; strings.Join(got, " ") != want {
			t.Errorf("%s: endpoints %v, want %s", refused, got, want)
		}
		if len(b.Missing) != 1 || b.Missing[0].Pod != "bad" || b.Missing[0].Awaited || !strings.Contains(b.Missing[0].Reason, "refuses its address "+refused) {
			t.Errorf("%s: reported %+v", refused, b.Missing)
		}
	}
}

// I9: a pod's Confirmation counts until the next NodeState, in the pod for which culvertd wrote it.
// It counts for nothing beside the NodeState of an older culvertd, which has no time.
func TestI9ConfirmationCountsUntilTheNextNodeState(t *testing.T) {
	written := time.Unix(1000, 0).UTC()
	confirmed := func(uid string, at time.Time, in, pool string, addresses ...string) string {
		return netannotation.Confirmation{Pod: uid, At: at, VFs: []netannotation.ConfirmedVF{{Interface: in, Pool: pool, Addresses: addresses}}}.String()
	}
	const own, fast = "172.16.91.20/24", "culvert.dev/fast"
	later := written.Add(time.Second)
	for _, tc := range []struct {
		name, confirmed string
		state           *v1alpha1.NodeState
		want            string
	}{
		{"the NodeState is from before", confirmed("u1", later, "net1", fast, own), stateWith(), "[172.16.91.20]"},
		{"at the same time", confirmed("u1", written, "net1", fast, own), stateWith(), "[172.16.91.20]"},
		{"on vfio", confirmed("u1", later, "net1", "culvert.dev/dpdk", own), stateWith(), "[172.16.91.20] vfio"},
		{"the NodeState is later, and the VF was given back", confirmed("u1", written.Add(-time.Second), "net1", fast, own), stateWith(), "does not have its interface"},
		{"the NodeState is later, and has the VF", confirmed("u1", written.Add(-time.Second), "net1", fast, "172.16.91.9/24"), stateWith(vfOf("default/p", "attached", "net1", own)), "[172.16.91.20]"},
		{"the NodeState has an earlier pod of this name", confirmed("u1", later, "net1", fast, "172.16.91.9/24"), stateWith(vfOf("default/p", "attached", "net1", own)), "does not confirm"},
		{"copied from another pod", confirmed("u2", later, "net1", fast, own), stateWith(), "does not have its interface"},
		{"of no pod", confirmed("", later, "net1", fast, own), stateWith(), "does not have its interface"},
		{"of another interface", confirmed("u1", later, "net2", fast, own), stateWith(), "does not have its interface"},
		{"of another address", confirmed("u1", later, "net1", fast, "172.16.91.21/24"), stateWith(), "does not confirm"},
		{"no ipam", confirmed("u1", later, "net1", fast), stateWith(), "has no address: give the network an ipam"},
		{"no JSON", "{", stateWith(vfOf("default/p", "attached", "net1", own)), "[172.16.91.20]"},
		{"an older culvertd writes NodeStates", confirmed("u1", later, "net1", fast, own), nil, "does not have its interface"},
	} {
		p := readyPod("p", statusWith("172.16.91.20"))
		p.UID = "u1"
		p.Annotations[netannotation.Confirmed] = tc.confirmed
		state := stateWith()
		if tc.state != nil {
			state = tc.state
			state.Status.Observed = &metav1.MicroTime{Time: written}
		}
		got := Find(p, net1, state)
		text := fmt.Sprint(got.Addresses)
		if got.VFIO {
			text += " vfio"
		}
		if got.Missing != "" {
			text = got.Missing
		}
		if !strings.Contains(text, tc.want) || (got.Missing != "") != (len(got.Addresses) == 0) {
			t.Errorf("I9: %s: %s; want %s", tc.name, text, tc.want)
		}
		p.UID = ""
		if got := Find(p, net1, stateWith()); len(got.Addresses) > 0 {
			t.Errorf("I9: %s: a pod without a UID has %v", tc.name, got.Addresses)
		}
		if got := Find(p, net1, nil); len(got.Addresses) > 0 {
			t.Errorf("I9: %s: without a NodeState the pod has %v", tc.name, got.Addresses)
		}
	}
}

// I9: an address that a pod has on one network is not published as one of another network, whatever
// its network-status says. Where no network is recorded, as beside Multus, the interface decides.
func TestI9AddressOfAnotherNetworkIsNotPublished(t *testing.T) {
	written := time.Unix(1000, 0).UTC()
	for confirmed, published := range map[string]bool{"default/net1": true, "tenant/mine": false, "mine": false, "": true} {
		in := vfOf("default/p", "attached", "net2", "172.16.91.99/24")
		in.Owner.Network = confirmed
		late := stateWith()
		late.Status.Observed = &metav1.MicroTime{Time: written}
		text := netannotation.Confirmation{Pod: "u1", At: written, VFs: []netannotation.ConfirmedVF{
			{Interface: "net2", Network: confirmed, Addresses: []string{"172.16.91.99/24"}},
		}}.String()
		for name, tc := range map[string]struct {
			annotation string
			state      *v1alpha1.NodeState
		}{"NodeState": {"", stateWith(in)}, "Confirmation": {text, late}} {
			p := readyPod("p", `[{"name":"default/net1","interface":"net2","ips":["172.16.91.99"]}]`)
			p.UID = "u1"
			p.Annotations[netannotation.Confirmed] = tc.annotation
			got := Find(p, net1, tc.state)
			if (len(got.Addresses) == 1) != published || !published && !strings.Contains(got.Missing, "does not have its interface \"net2\" on network default/net1") {
				t.Errorf("I9: %s has network %q: %+v", name, confirmed, got)
			}
		}
	}
}

// FuzzFind: Find returns only addresses that the ledger has for the pod, for every text in a
// network-status.
func FuzzFind(f *testing.F) {
	f.Add(statusWith("172.16.91.20"))
	f.Add(statusWith("172.16.91.21", "::ffff:172.16.91.20"))
	f.Add(`[{"name":"default/net1","interface":"net1","ips":null},null]`)
	state := stateWith(vfOf("default/p", "attached", "net1", "172.16.91.20/24"), vfOf("default/q", "attached", "net1", "172.16.91.21/24"))
	f.Fuzz(func(t *testing.T, status string) {
		got := Find(readyPod("p", status), net1, state)
		if len(got.Addresses) > 1 || len(got.Addresses) == 1 && got.Addresses[0].String() != "172.16.91.20" || (got.Missing == "") != (len(got.Addresses) == 1) {
			t.Fatalf("%q: %+v", status, got)
		}
	})
}

func TestBuild(t *testing.T) {
	state := stateWith(vfOf("default/a", "attached", "net1", "172.16.91.20/24"), vfOf("default/six", "attached", "net1", "2001:db8::20/64"))
	starting := readyPod("starting", "")
	starting.Status.Conditions[0].Status = corev1.ConditionFalse
	leaving := readyPod("leaving", "")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(2000, 0)}
	done := readyPod("done", "")
	done.Status.Phase = corev1.PodSucceeded
	unscheduled := readyPod("unscheduled", "")
	unscheduled.Spec.NodeName = ""
	pods := []*corev1.Pod{readyPod("b", ""), readyPod("a", statusWith("172.16.91.20")), readyPod("six", statusWith("2001:db8::20")), starting, leaving, done, unscheduled}
	show := func(b Backends) string {
		var out []string
		for _, p := range b.Pods {
			out = append(out, fmt.Sprintf("%s=%v", p.Name, p.Status.PodIPs))
		}
		for _, m := range b.Missing {
			out = append(out, fmt.Sprintf("%s: %s", m.Pod, m.Reason))
		}
		return strings.Join(out, "\n")
	}
	of := func(string) *v1alpha1.NodeState { return state }
	svc := newService()
	b := Build(svc, pods, net1, of)
	want := `a=[{172.16.91.20}]
b: its annotation k8s.v1.cni.cncf.io/network-status does not have network default/net1
six: its address 2001:db8::20 is of a family that the Service has not: add the family to spec.ipFamilies`
	if got := show(b); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if b.Missing[0].Since.Unix() != 1000 || !b.Missing[0].Awaited || b.Missing[1].Awaited {
		t.Errorf("%+v", b.Missing)
	}
	if b.Service.Labels[service.NetworkLabel] != "default.net1" || !IsHeadless(b.Service) || IsHeadless(svc) || svc.Labels != nil || pods[1].Status.PodIP != "10.244.1.5" {
		t.Errorf("the copies are wrong, or the originals changed: %+v", b.Service)
	}
	svc.Spec.PublishNotReadyAddresses = true
	svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, corev1.IPv6Protocol)
	if got := show(Build(svc, pods, net1, of)); !strings.Contains(got, "six=[{2001:db8::20}]") || !strings.Contains(got, "starting: ") || strings.Contains(got, "leaving") {
		t.Errorf("with addresses that are not ready:\n%s", got)
	}
}

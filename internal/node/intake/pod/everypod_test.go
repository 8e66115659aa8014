package pod_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// everyPod sets the networks that every pod of this world gets.
func (w *world) everyPod(names ...string) {
	w.Helper()
	e, err := netannotation.ParseEveryPod(names, []string{"kube-system"})
	if err != nil {
		w.Fatal(err)
	}
	w.pods.EveryPod = e
}

// attached returns the networks of network-status, each with its interface.
func (w *world) attached() (out []string) {
	w.Helper()
	for _, s := range w.status() {
		out = append(out, s["name"].(string)+" "+s["interface"].(string)) //nolint:forcetypeassert // strings of the format
	}
	return out
}

// A pod gets the networks of every pod, in the names that Multus gives them: before those that it
// asks for, without its asking, and also where isolation closes their namespace. DEL takes them away.
func TestNetworksOfEveryPod(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"a pod that asks for nothing": {nil, []string{"cbr0 eth0", "kube-system/lan net1", "infra/v net2"}},
		"a pod that asks for more":    {map[string]string{netannotation.Networks: "own,own@mine"}, []string{"cbr0 eth0", "kube-system/lan net1", "infra/v net2", "d/own net3", "d/own mine"}},
		"one of them again":           {map[string]string{netannotation.Networks: "d/own"}, []string{"cbr0 eth0", "kube-system/lan net1", "infra/v net2", "d/own net3"}},
		"another default network":     {map[string]string{netannotation.DefaultNetwork: "d/own"}, []string{"d/own eth0", "kube-system/lan net1", "infra/v net2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("kube-system/lan", `{"cniVersion":"1.0.0","type":"macvlan"}`)
			w.network("infra/v", sriov)
			w.network("own", `{"cniVersion":"1.0.0","type":"bridge"}`)
			w.everyPod("lan", "infra/v")
			w.pods.Isolation = netannotation.Isolation{On: true}
			w.pod(tc.annotations)
			w.add()
			if got := w.attached(); !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			w.del()
			w.clean()
		})
	}
}

// Pods of a system namespace get none, a pod cannot get a network of another namespace by naming it
// as every pod's is named, and a network that is missing refuses the pod by its name.
func TestNetworksOfEveryPodHaveBounds(t *testing.T) {
	w := newWorld(t)
	w.network("kube-system/lan", `{"cniVersion":"1.0.0","type":"macvlan"}`)
	w.pods.EveryPod, _ = netannotation.ParseEveryPod([]string{"lan"}, []string{"d"})
	w.pod(nil)
	w.add()
	if got := w.attached(); !slices.Equal(got, []string{"cbr0 eth0"}) {
		t.Errorf("a pod of a system namespace has %q", got)
	}
	w.del()

	w.everyPod("lan")
	w.pods.Isolation = netannotation.Isolation{On: true}
	w.asks("kube-system/lan")
	if msg := w.refused(); !strings.Contains(msg, "network kube-system/lan (net2)") || !strings.Contains(msg, "of their own namespace only") {
		t.Error(msg)
	}
	w.everyPod("missing")
	w.pod(nil)
	if msg := w.refused(); !strings.Contains(msg, "network kube-system/missing (net1)") {
		t.Error(msg)
	}
}

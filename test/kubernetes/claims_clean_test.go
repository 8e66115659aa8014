//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/internal/api"
)

// isClean returns an error unless a claim's status says that its device equals its baseline.
func isClean(d resourcev1.AllocatedDeviceStatus) error {
	i := slices.IndexFunc(d.Conditions, func(c metav1.Condition) bool { return c.Type == "Clean" })
	if i < 0 || d.Conditions[i].Status != metav1.ConditionTrue {
		return fmt.Errorf("device %s: conditions %+v", d.Device, d.Conditions)
	}
	return nil
}

// spoilVF changes the VF of a pod in its network namespace, as a container with NET_ADMIN can, and returns
// the name of the VF. The attributes are those that its driver has, that the kernel has for each interface,
// and a program.
func spoilVF(t *testing.T, pod, iface string) string {
	t.Helper()
	var all []api.VF
	if err := json.Unmarshal([]byte(on(t, "worker02", "culvert vf list -o json --owner default/"+pod)), &all); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(v api.VF) bool { return v.Owner != nil && v.Owner.Interface == iface })
	if i < 0 {
		t.Fatalf("no VF of pod %s is %s: %+v", pod, iface, all)
	}
	on(t, "worker02", fmt.Sprintf("nsenter --net=%s sh -ec 'ip link set %s mtu 1400 promisc on txqlen 7; tc qdisc add dev %s clsact'", all[i].Netns, iface, iface))
	return all[i].Name
}

// wantCleaned fails the test unless a node has the proof that a VF is clean after spoilVF.
func wantCleaned(t *testing.T, node, name string) {
	t.Helper()
	var all []api.VF
	if err := json.Unmarshal([]byte(on(t, node, "culvert vf show -o json '"+name+"'")), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Readback == nil {
		t.Fatalf("VF %s has no readback: %+v", name, all)
	}
	v := all[0]
	t.Logf("VF %s: %s", name, v.Readback)
	for _, attribute := range []string{"mtu", "promisc", "txqlen"} {
		if !slices.Contains(v.Readback.Names(), attribute) {
			t.Errorf("VF %s: %s: no %s", name, v.Readback, attribute)
		}
	}
}

//go:build kubernetes

package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// wantTaints pulls the cable of a node's second PF, and plugs it in again. Meanwhile its VFs are in their
// slice with a taint, so that no new pod gets them. The test prints the time from the wire to the taint.
func wantTaints(t *testing.T, node string, want int) {
	t.Helper()
	if err := k8s.Lab.Link(node, "pf2", false); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	awaitTaints(t, node, want)
	t.Logf("VFs of %s have a taint %d ms after the cable was pulled", node, time.Since(began).Milliseconds())
	inSlices(t, claimed)
	if err := k8s.Lab.Link(node, "pf2", true); err != nil {
		t.Fatal(err)
	}
	awaitTaints(t, node, 0)
}

// wantHealth pulls the cable of a node's second PF, of which a pod has a VF by a claim. The kubelet then
// shows in the pod's status that the VF is not healthy, until the cable is back.
func wantHealth(t *testing.T, pod, node string) {
	t.Helper()
	for _, up := range []bool{false, true} {
		if err := k8s.Lab.Link(node, "pf2", up); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "Healthy", false: "Unhealthy"}[up]
		eventually(t, "the status of pod "+pod+" has a device that is "+want, func() error {
			got := kubectl(t, "get", "pod", pod, "--output", "jsonpath={.status.containerStatuses[*].allocatedResourcesStatus}")
			if !strings.Contains(got, `"`+want+`"`) || up && strings.Contains(got, `"Unhealthy"`) {
				return fmt.Errorf("it has %s", got)
			}
			return nil
		})
		t.Logf("pod %s: %s", pod, kubectl(t, "get", "pod", pod, "--output", "jsonpath={.status.containerStatuses[*].allocatedResourcesStatus}"))
	}
}

// awaitTaints waits until so many devices of a node have the taint of a lost link. It looks often, since the
// time is printed.
func awaitTaints(t *testing.T, node string, want int) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		count, err := countTaints(node)
		switch {
		case err == nil && count == want:
			return
		case time.Since(began) > soon:
			t.Fatalf("%d VFs of %s have a taint, want %d: %v", count, node, want, err)
		}
	}
}

func countTaints(node string) (count int, err error) {
	all, err := ownSlices()
	for _, s := range all {
		for _, d := range s.Spec.Devices {
			if *s.Spec.NodeName == node && len(d.Taints) == 1 && d.Taints[0].Key == "culvert.dev/link" && d.Taints[0].Value == "down" {
				count++
			}
		}
	}
	return count, err
}

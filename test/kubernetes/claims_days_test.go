//go:build kubernetes

package kubernetes

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/test/soak"
)

// I1, I2, I8: bad days of nodes whose pods have VFs by claims. A pool moves to the device plugin and back
// while pods of it send; the API server is away while a sandbox dies; a node is rebooted with its claims
// prepared. Each pod has the VFs that it had, and no VF is offered twice.
func TestI1ClaimsOnBadDays(t *testing.T) {
	soak.Only(t, "a pool moves, the API server is away, and a node is rebooted, with claims")
	need(t, twoNodes)
	offerClaims(t)
	pods := claimingPod("near", "worker01", "resourceClaimName: two") + claimingPod("far", "worker02", "resourceClaimTemplateName: keys")
	apply(t, pods)
	ready(t, "pod/near", "pod/far")
	near, far := wantClaimed(t, "near", "net1", "resourceclaims/two/net"), wantClaimed(t, "far", "fast", "resourceclaimtemplates/vf/vf")
	movePool(t, far)
	loseAPIServer(t)
	rebootWithClaims(t)
	if is := wantClaimed(t, "near", "net1", "resourceclaims/two/net"); is.Device != near.Device || is.Pool != near.Pool {
		t.Errorf("I1: pod near has %+v, and had %+v", is, near)
	}
	is := wantClaimed(t, "far", "fast", "resourceclaimtemplates/vf/vf") // its new sandbox has another address
	if is.Device != far.Device || is.Pool != far.Pool {
		t.Errorf("I1: pod far has %+v, and had %+v", is, far)
	}
	kubectl(t, "exec", "near", "--", "ping", "-c", "3", "-w", "60", is.address())
	feed(t, pods, "delete", "--wait", "-f", "-")
	allFree(t, allVFs)
	wantNothingLeft(t)
	inSlices(t, claimed)
}

// movePool moves the pool of pods near and far to the device plugin and back, while near sends to far. A pod
// gets a VF of it by the device plugin meanwhile.
func movePool(t *testing.T, far has) {
	t.Helper()
	stream(t, "near", far.addr(), func() {
		setOffer(t, "resource")
		inSlices(t, 2) // that of the pod, and that of user space, whose pool stays
		offered(t, intel, "6")
		plain := pod("plain", "worker01", "claimed")
		apply(t, plain)
		ready(t, "pod/plain")
		feed(t, plain, "delete", "--wait", "-f", "-")
		setOffer(t, "claims")
		offered(t, intel, "0")
		inSlices(t, claimed)
	})
}

// setOffer changes how the nodes offer the pool that the policy names first.
func setOffer(t *testing.T, offer string) {
	t.Helper()
	kubectl(t, "patch", "nodepolicy", "claims", "--type=json", "--patch", fmt.Sprintf(`[{"op": "replace", "path": "/spec/pools/0/offer", "value": %q}]`, offer))
}

// loseAPIServer kills the sandbox of pod near while the API server is away. Its DEL leads the VFs back to
// the claim, which keeps them. The pod itself comes back with the API server: the kubelet reads a claim
// before it starts a sandbox (k8s.io/kubernetes pkg/kubelet/cm/dra, prepareResources).
func loseAPIServer(t *testing.T) {
	t.Helper()
	if err := k8s.StopProgram(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	back := time.Now().Add(*outage)
	killTask(t, "near")
	eventually(t, "I2: both VFs of pod near are prepared for its claim", func() error {
		out, err := tryOn("worker01", "culvert vf list -o json")
		if err == nil && (strings.Count(out, `"prepared"`) != 2 || strings.Contains(out, `"attached"`)) {
			err = errors.New(out)
		}
		return err
	})
	time.Sleep(time.Until(back))
	startAPIServer(t)
	eventually(t, "pod near has its VF again", func() error {
		out, err := tryOn("worker01", "culvert vf list -o json")
		if err == nil && strings.Count(out, `"attached"`) != 1 {
			err = errors.New(out)
		}
		return err
	})
	ready(t, "pod/near")
	inSlices(t, claimed)
}

// rebootWithClaims reboots the node of pod far, which starts again with the VF of its claim.
func rebootWithClaims(t *testing.T) {
	t.Helper()
	reboot(t, "worker02")
	on(t, "worker02", "modprobe vfio-pci")
	eventually(t, "pod far has started again", func() error {
		if got := kubectl(t, "get", "pod", "far", "--output", "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}"); got != "Running 1" {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	ready(t, "pod/far")
	inSlices(t, claimed)
}

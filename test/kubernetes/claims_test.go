//go:build kubernetes

package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/culvert-net/culvert/lab/cluster"
)

// claimed are the VFs of a node that testdata/claims.yaml offers to claims, where vfio-pci is loaded.
const claimed = 8

// I1, I2, I4, I8: a NodePolicy offers VFs to claims. Pods have networks by claims alone, reach each other,
// and keep their VFs while culvertd and the kubelet are restarted and a sandbox is lost. The claims' status
// and files show what the pods have. When the pods have gone, the VFs are offered again, to claims and
// later by the device plugin.
func TestClaims(t *testing.T) {
	need(t, twoNodes)
	offerClaims(t)
	wantRoots(t)
	wantTaints(t, "worker02", 1)
	if !testing.Short() {
		wantAligned(t)
	}

	pods := claimingPod("near", "worker01", "resourceClaimName: two") + claimingPod("far", "worker02", "resourceClaimTemplateName: keys")
	apply(t, pods)
	ready(t, "pod/near", "pod/far")
	wantUserSpace(t)
	far := wantClaimed(t, "far", "fast", "resourceclaimtemplates/vf/vf")
	wantClaimed(t, "near", "net1", "resourceclaims/two/net")
	kubectl(t, "exec", "near", "--", "ping", "-c", "3", "-w", "300", far.address())
	refusesSecond(t)

	r0ByClaim(t)
	if !testing.Short() { // minutes
		wantHealth(t, "near", "worker01")
		restartAll(t)
		kubectl(t, "exec", "near", "--", "ping", "-c", "3", "-w", "300", far.address())
		restartBetween(t)
		compareReady(t)
		awayTooLong(t)
		wantMaintenance(t, "far", "worker02")
		apply(t, pods)
		ready(t, "pod/far")
	}
	dirty := spoilVF(t, "far", "fast")
	feed(t, pods, "delete", "--wait", "-f", "-")
	allFree(t, allVFs)
	wantCleaned(t, "worker02", dirty)
	wantNothingLeft(t)
	inSlices(t, claimed)
	kubectl(t, "delete", "nodepolicy", "claims")
	inSlices(t, 0)
	offered(t, intel, "7")
	offered(t, chelsio, "7")
}

// offerClaims has both nodes offer VFs to claims, by the policy of testdata/claims.yaml.
func offerClaims(t *testing.T) {
	t.Helper()
	offered(t, intel, "7")
	offered(t, chelsio, "7")
	kubectl(t, "apply", "-f", top+"/dist/kubernetes/device-classes.yaml")
	on(t, "worker01", "modprobe vfio-pci")
	on(t, "worker02", "modprobe vfio-pci")
	objects, err := os.ReadFile("testdata/claims.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, string(objects))
	offered(t, intel, "0")
	inSlices(t, claimed)
}

// restartAll deletes culvertd, restarts the kubelet and kills the sandbox of pod near, which comes back with
// the VFs that it had.
func restartAll(t *testing.T) {
	t.Helper()
	near, uses := wantClaimed(t, "near", "net1", "resourceclaims/two/net"), wantUserSpace(t)
	kubectl(t, "-n", cluster.Namespace, "delete", "pod", "--field-selector", "spec.nodeName=worker01", "--selector", "app.kubernetes.io/name=culvertd", "--wait")
	on(t, "worker01", "systemctl restart kubelet")
	newSandbox(t, "near")
	if again := wantClaimed(t, "near", "net1", "resourceclaims/two/net"); again.Device != near.Device || again.Pool != near.Pool || wantUserSpace(t) != uses {
		t.Errorf("I1: pod near has %+v in its new sandbox, and had %+v", again, near)
	}
}

// claimingPod returns a pod on a node, which the scheduler places there, with a claim and no annotation.
func claimingPod(name, node, claim string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  terminationGracePeriodSeconds: 0
  enableServiceLinks: false
  automountServiceAccountToken: false
  resourceClaims: [{name: vf, %s}]
  containers:
  - name: main
    image: docker.io/centos/tools:latest
    imagePullPolicy: Never
    command: [sleep, infinity]
    resources: {claims: [{name: vf}]}
`, name, node, claim)
}

// ownSlices returns Culvert's ResourceSlices.
func ownSlices() ([]resourcev1.ResourceSlice, error) {
	var l resourcev1.ResourceSliceList
	err := k8s.Get(context.Background(), &l, "resourceslices", "--field-selector", "spec.driver=culvert.dev")
	return l.Items, err
}

// inSlices waits until Culvert's slices of each node have so many devices.
func inSlices(t *testing.T, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("each node has %d VFs in slices", want), func() error {
		all, err := ownSlices()
		count := map[string]int{}
		for _, s := range all {
			count[*s.Spec.NodeName] += len(s.Spec.Devices)
		}
		for _, node := range there.names {
			if count[node] != want {
				err = errors.Join(err, fmt.Errorf("node %s has %d", node, count[node]))
			}
		}
		return err
	})
}

// wantRoots fails the test unless each VF in a slice has its PCIe root.
func wantRoots(t *testing.T) {
	t.Helper()
	all, err := ownSlices()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, d := range s.Spec.Devices {
			if root := d.Attributes["resource.kubernetes.io/pcieRoot"].StringValue; root == nil || !strings.HasPrefix(*root, "pci0000:") {
				t.Errorf("device %s: pcieRoot %v", d.Name, root)
			}
		}
	}
}

// has is what the claim of a pod says about the VF of its network.
type has resourcev1.AllocatedDeviceStatus

// address returns the first address, without the length of its prefix.
func (h has) address() string {
	a, _, _ := strings.Cut(h.NetworkData.IPs[0], "/")
	return a
}

func (h has) addr() netip.Addr { return netip.MustParseAddr(h.address()) }

// claimOf returns the name of the claim that a pod names, or that Kubernetes made for it.
func claimOf(t *testing.T, pod string) string {
	t.Helper()
	var p corev1.Pod
	if err := k8s.Get(t.Context(), &p, "pod", pod); err != nil {
		t.Fatal(err)
	}
	switch s := p.Status; {
	case s.ExtendedResourceClaimStatus != nil:
		return s.ExtendedResourceClaimStatus.ResourceClaimName
	case len(s.ResourceClaimStatuses) > 0:
		return *s.ResourceClaimStatuses[0].ResourceClaimName
	case len(p.Spec.ResourceClaims) > 0 && p.Spec.ResourceClaims[0].ResourceClaimName != nil:
		return *p.Spec.ResourceClaims[0].ResourceClaimName
	}
	t.Fatalf("pod %s has no claim: %+v", pod, p.Status)
	return ""
}

// wantClaimed waits until the status of a pod's claim has the interface as the kernel has it. The pod's
// metadata file for the request has the same.
func wantClaimed(t *testing.T, pod, iface, request string) (got has) {
	t.Helper()
	claim := claimOf(t, pod)
	eventually(t, "the status of claim "+claim+" is what pod "+pod+" has", func() error {
		var c resourcev1.ResourceClaim
		if err := k8s.Get(t.Context(), &c, "resourceclaim", claim); err != nil {
			return err
		}
		out, err := k8s.Kubectl(t.Context(), "exec", pod, "--", "ip", "-o", "addr", "show", "dev", iface)
		if err != nil {
			return err
		}
		mac, err := k8s.Kubectl(t.Context(), "exec", pod, "--", "cat", "/sys/class/net/"+iface+"/address")
		if err != nil {
			return err
		}
		for _, d := range c.Status.Devices {
			n := d.NetworkData
			if n != nil && n.InterfaceName == iface && n.HardwareAddress == strings.TrimSpace(string(mac)) && len(n.IPs) == 1 && strings.Contains(string(out), " "+n.IPs[0]+" ") {
				got = has(d)
				return isClean(d)
			}
		}
		return fmt.Errorf("pod %s has %s%s, and the claim %+v", pod, mac, out, c.Status.Devices)
	})
	wantMetadata(t, pod, request, got)
	return got
}

// wantMetadata fails the test unless the pod's metadata file for a request, in both versions, has the
// device that the claim's status has.
func wantMetadata(t *testing.T, pod, request string, status has) {
	t.Helper()
	file := "/var/run/kubernetes.io/dra-device-attributes/" + request + "/culvert.dev-metadata.json"
	in := json.NewDecoder(strings.NewReader(kubectl(t, "exec", pod, "--", "cat", file)))
	for _, version := range []string{"metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1"} {
		type device struct {
			Driver, Pool, Name string
			NetworkData        *resourcev1.NetworkDeviceData
		}
		var o struct {
			APIVersion, Kind string
			Requests         []struct{ Devices []device }
		}
		want := []device{{status.Driver, status.Pool, status.Device, status.NetworkData}}
		if err := in.Decode(&o); err != nil || o.APIVersion != version || o.Kind != "DeviceMetadata" || len(o.Requests) != 1 || !reflect.DeepEqual(o.Requests[0].Devices, want) {
			t.Errorf("%s of pod %s: %v: %+v; the claim has %+v", file, pod, err, o, status)
		}
	}
}

// wantUserSpace fails the test unless pod near has its VF of user space: the device node and the variables.
// It returns the VF's PCI address.
func wantUserSpace(t *testing.T) string {
	t.Helper()
	env := kubectl(t, "exec", "near", "--", "bash", "-c", "env; ls /dev/vfio")
	user := regexp.MustCompile(`(?m)^PCIDEVICE_CLAIMS_EXAMPLE_USER=(0000:.*)$`).FindStringSubmatch(env)
	if user == nil || !strings.Contains(env, "PCIDEVICE_INTEL_COM_INTEL_SRIOV_NETDEVICE=0000:") || !regexp.MustCompile(`(?m)^\d+$`).MatchString(env) {
		t.Fatalf("pod near has %s", env)
	}
	return user[1]
}

// refusesSecond makes another pod with the claim of pod near, which waits with an event, and deletes it.
func refusesSecond(t *testing.T) {
	t.Helper()
	second := claimingPod("second", "worker01", "resourceClaimName: two")
	apply(t, second)
	eventually(t, "I1: a second pod of claim two is refused", func() error {
		out, err := k8s.Kubectl(t.Context(), "get", "events", "--field-selector", "involvedObject.name=second", "-o", `jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}`)
		if err == nil && !regexp.MustCompile(`(?m)^ClaimInUse: .*near`).Match(out) {
			err = fmt.Errorf("its events are %s", out)
		}
		return err
	})
	feed(t, second, "delete", "--wait", "-f", "-")
}

// newSandbox kills the sandbox of a pod on worker01, and waits until the pod is ready in a new one.
func newSandbox(t *testing.T, pod string) {
	t.Helper()
	old := killTask(t, pod)
	eventually(t, "pod "+pod+" has a new sandbox with its VF", func() error {
		out, err := tryOn("worker01", "culvert vf list -o json")
		if err == nil && (strings.Contains(out, old) || strings.Count(out, `"attached"`) != 1) {
			err = errors.New(out)
		}
		return err
	})
	ready(t, "pod/"+pod)
}

// killTask kills the sandbox of a pod on worker01, and returns its ID.
func killTask(t *testing.T, pod string) string {
	t.Helper()
	sandbox := `ctr -n k8s.io containers ls -q 'labels."io.cri-containerd.kind"==sandbox,labels."io.kubernetes.pod.name"==` + pod + "'"
	id := strings.TrimSpace(on(t, "worker01", sandbox))
	on(t, "worker01", "ctr -n k8s.io tasks kill -s KILL "+id)
	return id
}

// wantNothingLeft waits until the claim without a pod has no devices in its status, and fails the test if a
// node has files of claims.
func wantNothingLeft(t *testing.T) {
	t.Helper()
	eventually(t, "the status of claim two is empty", func() error {
		out, err := k8s.Kubectl(t.Context(), "get", "resourceclaim", "two", "-o", "jsonpath={.status.devices}")
		if err == nil && len(out) > 0 {
			err = errors.New(string(out))
		}
		return err
	})
	for _, node := range there.names {
		if left := on(t, node, "ls /var/run/cdi | grep claim_ || true; ls /run/culvert/claims"); left != "" {
			t.Errorf("%s has files of claims: %s", node, left)
		}
	}
}

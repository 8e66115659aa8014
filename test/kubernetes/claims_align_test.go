//go:build kubernetes

package kubernetes

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

// gpus are two devices of another driver on worker01: one has the PCIe root of the VFs, the other has not.
// No such driver runs, so that the kubelet starts no pod with them.
const gpus = `---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: worker01-gpu.example.com}
spec:
  driver: gpu.example.com
  nodeName: worker01
  pool: {name: worker01, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: near, attributes: {resource.kubernetes.io/pcieRoot: {string: "ROOT"}, place: {string: near}}}
  - {name: far, attributes: {resource.kubernetes.io/pcieRoot: {string: "pci00ff:00"}, place: {string: far}}}
`

// wantAligned has the scheduler allocate devices together: a GPU and a VF under one PCIe root, and VFs of
// two PFs on one segment. Where there are none, the pods wait.
func wantAligned(t *testing.T) {
	t.Helper()
	root := ""
	all, err := ownSlices()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if *s.Spec.NodeName == "worker01" && len(s.Spec.Devices) > 1 {
			root = *s.Spec.Devices[0].Attributes["resource.kubernetes.io/pcieRoot"].StringValue
		}
	}
	objects := strings.Replace(gpus, "ROOT", root, 1)
	feed(t, objects, "apply", "-f", "-")

	const sameRoot = `[{matchAttribute: resource.kubernetes.io/pcieRoot}]`
	gpu := func(place string) string {
		return fmt.Sprintf(`{name: gpu, exactly: {deviceClassName: gpu.example.com, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].place == %q'}}]}}`, place)
	}
	const vf = `{name: %s, exactly: {deviceClassName: culvert.dev}}`
	const twoPFs = `[{matchAttribute: culvert.dev/segment}, {distinctAttribute: culvert.dev/pf}]`
	got := allocate(t, "aligned", []string{gpu("near"), fmt.Sprintf(vf, "vf")}, sameRoot)
	if len(got) != 2 {
		t.Errorf("a GPU and a VF under one root: %+v", got)
	}
	got = allocate(t, "railed", []string{fmt.Sprintf(vf, "a"), fmt.Sprintf(vf, "b")}, twoPFs)
	if len(got) != 2 || got[0].Pool == got[1].Pool {
		t.Errorf("VFs of two PFs: %+v", got)
	}
	refuse(t, "apart", []string{gpu("far"), fmt.Sprintf(vf, "vf")}, sameRoot)
	refuse(t, "three", []string{fmt.Sprintf(vf, "a"), fmt.Sprintf(vf, "b"), fmt.Sprintf(vf, "c")}, twoPFs)
	feed(t, objects, "delete", "-f", "-")
}

// claimOfRequests makes a claim with requests and constraints, and a pod for it that only worker01 can
// have. It returns the objects.
func claimOfRequests(t *testing.T, name string, requests []string, constraints string) string {
	t.Helper()
	objects := fmt.Sprintf(`---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s}
spec: {devices: {requests: [%s], constraints: %s}}
`, name, strings.Join(requests, ", "), constraints) + claimingPod(name, "worker01", "resourceClaimName: "+name)
	feed(t, objects, "apply", "-f", "-")
	return objects
}

// allocate returns the devices that the scheduler allocates to a claim, which it deletes.
func allocate(t *testing.T, name string, requests []string, constraints string) []resourcev1.DeviceRequestAllocationResult {
	t.Helper()
	objects := claimOfRequests(t, name, requests, constraints)
	var c resourcev1.ResourceClaim
	eventually(t, "claim "+name+" is allocated", func() error {
		err := k8s.Get(t.Context(), &c, "resourceclaim", name)
		if err == nil && c.Status.Allocation == nil {
			err = fmt.Errorf("it is not")
		}
		return err
	})
	feed(t, objects, "delete", "--wait", "-f", "-")
	return c.Status.Allocation.Devices.Results
}

// refuse waits until the scheduler says that a claim of a pod cannot be allocated.
func refuse(t *testing.T, name string, requests []string, constraints string) {
	t.Helper()
	objects := claimOfRequests(t, name, requests, constraints)
	eventually(t, "pod "+name+" waits", func() error {
		got := kubectl(t, "get", "pod", name, "--output", `jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`)
		if !strings.Contains(got, "cannot allocate all claims") {
			return fmt.Errorf("its condition is %q", got)
		}
		return nil
	})
	feed(t, objects, "delete", "--wait", "-f", "-")
}

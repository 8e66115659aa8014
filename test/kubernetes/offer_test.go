//go:build kubernetes

package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/culvert-net/culvert/test/soak"
)

// offerPolicy comes before the policies of the site, with one pool for all VFs of worker01.
const offerPolicy = `{apiVersion: culvert.dev/v1alpha1, kind: NodePolicy, metadata: {name: offered}, spec: {priority: 100,
  nodeSelector: {kubernetes.io/hostname: worker01}, pools: [{name: intel_sriov_netdevice, prefix: intel.com, offer: OFFER}]}}
`

// claimingPod has a VF by a claim of the class for netdevices.
const claimingPod = `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: vf}, spec: {devices: {requests: [{name: vf,
  exactly: {deviceClassName: netdevice.culvert.dev, selectors: [{cel: {expression: 'device.attributes["culvert.dev"].pool == "intel.com/intel_sriov_netdevice" && device.attributes["culvert.dev"].canVLAN'}}]}}]}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: claiming}, spec: {resourceClaims: [{name: vf, resourceClaimName: vf}],
  containers: [{name: c, image: "docker.io/centos/tools:latest", imagePullPolicy: Never, command: [sleep, infinity], resources: {claims: [{name: vf}]}}]}}
`

// ownSlices returns the devices in Culvert's slices of a node.
func ownSlices(t *testing.T, node string) (devices []resourcev1.Device) {
	t.Helper()
	var l resourcev1.ResourceSliceList
	if err := k8s.Get(t.Context(), &l, "resourceslices", "--field-selector", "spec.driver=culvert.dev,spec.nodeName="+node); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.Items {
		devices = append(devices, s.Spec.Devices...)
	}
	return devices
}

// A pool with offer: claims has 0 devices for the kubelet and its VFs in ResourceSlices, from which the
// scheduler allocates one to a claim. offer: resource takes the slices away again.
func TestPoolIsOfferedToClaims(t *testing.T) {
	soak.Only(t, "internal/node/daemon.TestOneVFIsOneWrite has slices on an API server")
	need(t, twoNodes)
	count := func() int {
		out := kubectl(t, "get", "node", "worker01", "-o", `jsonpath={.status.allocatable.intel\.com/intel_sriov_netdevice}`)
		n, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	kubectl(t, "apply", "-f", top+"/dist/kubernetes/device-classes.yaml")
	apply(t, strings.Replace(offerPolicy, "OFFER", "resource", 1))
	all := 0
	eventually(t, "the node has the resource", func() error {
		if all = count(); all == 0 {
			return errors.New("0 devices")
		}
		return nil
	})
	apply(t, strings.Replace(offerPolicy, "OFFER", "claims", 1))
	eventually(t, "the node has 0 of the resource", func() error {
		if got := count(); got != 0 {
			return fmt.Errorf("%d devices", got)
		}
		return nil
	})
	eventually(t, "the VFs stand in slices", func() error {
		if got := len(ownSlices(t, "worker01")); got != all {
			return fmt.Errorf("%d devices, want %d", got, all)
		}
		return nil
	})
	for _, d := range ownSlices(t, "worker01") {
		if root := d.Attributes["resource.kubernetes.io/pcieRoot"].StringValue; root == nil || !strings.HasPrefix(*root, "pci0000:") {
			t.Errorf("device %s: pcieRoot %v", d.Name, root)
		}
	}
	apply(t, claimingPod)
	eventually(t, "the scheduler allocates a VF", func() error {
		var c resourcev1.ResourceClaim
		if err := k8s.Get(t.Context(), &c, "resourceclaim", "vf"); err != nil || c.Status.Allocation == nil {
			return errors.Join(err, errors.New("it is not allocated"))
		}
		r := c.Status.Allocation.Devices.Results[0]
		if !slices.ContainsFunc(ownSlices(t, "worker01"), func(d resourcev1.Device) bool { return d.Name == r.Device }) || !strings.HasPrefix(r.Pool, "worker01/") {
			t.Errorf("allocated %+v", r)
		}
		return nil
	})
	kubectl(t, "delete", "--grace-period=0", "--force", "pod", "claiming")
	kubectl(t, "delete", "resourceclaim", "vf")
	apply(t, strings.Replace(offerPolicy, "OFFER", "resource", 1))
	eventually(t, "the slices go", func() error {
		if got := len(ownSlices(t, "worker01")); got != 0 {
			return fmt.Errorf("%d devices", got)
		}
		return nil
	})
	eventually(t, "the resource is back", func() error {
		if got := count(); got != all {
			return fmt.Errorf("%d devices, want %d", got, all)
		}
		return nil
	})
	kubectl(t, "delete", "nodepolicy", "offered")
}

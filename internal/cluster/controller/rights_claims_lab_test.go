//go:build lab

package controller

import (
	"cmp"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/test/apiserver"
)

// driverRights are those of a DRA driver, and more than the chart grants, so that only the policies refuse an
// attack. Since Kubernetes 1.36 the
// status of devices needs the last rule (docs/design/0053-kubernetes-1.37.md).
var driverRights = []rbacv1.PolicyRule{
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}, Verbs: []string{"get", "create", "patch", "delete"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceclaims/status"}, Verbs: []string{"get", "patch"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/driver"}, Verbs: []string{"associated-node:patch"}, ResourceNames: []string{"culvert.dev"}},
}

// olderRights are what the rights above reach to before Kubernetes 1.36: the devices of all nodes, and
// allocations. The policies hold there too.
var olderRights = []rbacv1.PolicyRule{
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/driver"}, Verbs: []string{"arbitrary-node:patch"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/binding"}, Verbs: []string{"patch"}},
}

// grantRights gives culvertd rights, as a ClusterRole of that name.
func (r cluster) grantRights(t *testing.T, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	createObject(t, r.admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	createObject(t, r.admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ownNamespace, Name: "culvertd"}},
	})
}

// newSlice is a ResourceSlice with one device of a node; without a node it is of all nodes.
func newSlice(name, node string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "culvert.dev", Pool: resourcev1.ResourcePool{Name: cmp.Or(node, "all") + "/pf", ResourceSliceCount: 1}, NodeName: &node, Devices: []resourcev1.Device{{Name: "vf0"}},
	}}
	if all := true; node == "" {
		s.Spec.NodeName, s.Spec.AllNodes = nil, &all
	}
	return s
}

// alteredSlice is newSlice of node n1 with a change.
func alteredSlice(name string, change func(*resourcev1.ResourceSlice)) *resourcev1.ResourceSlice {
	s := newSlice(name, "n1")
	change(s)
	return s
}

// allocateClaim makes a claim to which vf0 and vf1 of a driver's pool are allocated. The selector is the
// scheduler's, for devices of one node.
func (r cluster) allocateClaim(t *testing.T, name, driver, pool string) {
	t.Helper()
	node, _, _ := strings.Cut(pool, "/")
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: "vf", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "vf", AllocationMode: "ExactCount", Count: 2}}},
	}}}
	createObject(t, r.admin, c)
	c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}},
	}}}
	for _, device := range []string{"vf0", "vf1"} {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: "vf", Driver: driver, Pool: pool, Device: device})
	}
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: driver, Pool: pool, Device: "vf1"}}
	if err := r.admin.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// deviceStatus is the patch that gives a claim the status of vf0 of a driver's pool, and takes that of vf1.
func deviceStatus(driver, pool, mac string) string {
	return `{"status":{"devices":[{"driver":"` + driver + `","pool":"` + pool + `","device":"vf0","networkData":{"hardwareAddress":"` + mac + `"}}]}}`
}

// I10: a node's credential writes ResourceSlices of its own node and the status of its
// own devices. Each attack with a real token is refused, and succeeds once the policies
// are gone.
func TestI10NodeChangesItsOwnDevicesOnly(t *testing.T) {
	r := newRealCluster(t)
	r.grantRights(t, "dra", driverRights)
	for name, at := range map[string][2]string{
		"on-n1": {"culvert.dev", "n1/pf"}, "on-n2": {"culvert.dev", "n2/pf"}, "on-n10": {"culvert.dev", "n10/pf"}, "of-another": {"example.com", "n1/pf"},
	} {
		r.allocateClaim(t, name, at[0], at[1])
	}
	createObject(t, r.admin, newSlice("theirs", "n2"))
	createObject(t, r.admin, newSlice("stays", "n2"))
	c := connect(t, r.withToken(t, "culvertd", "n1"))
	claim := func(name string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	for name, write := range map[string]func(context.Context, client.Client) error{
		"own slice made":     createAs(newSlice("own", "n1")),
		"own device's state": patchStatus(claim("on-n1"), deviceStatus("culvert.dev", "n1/pf", "02:00:00:00:00:01")),
	} {
		apiserver.Eventually(t, name, func() error { return client.IgnoreAlreadyExists(write(t.Context(), c)) })
	}
	if err := patchObject(newSlice("own", "n1"), `{"spec":{"devices":[{"name":"vf1"}]}}`)(t.Context(), c); err != nil {
		t.Errorf("own slice changed: %v", err)
	}
	if err := c.Delete(t.Context(), newSlice("own", "n1")); err != nil {
		t.Errorf("own slice deleted: %v", err)
	}
	r.grantRights(t, "dra-before-1.36", olderRights)
	const slices, claims = "culvert-own-slices", "culvert-own-claims"
	r.provePolicies(t, c, []attack{
		{"slice of another node", slices, createAs(newSlice("other", "n2"))},
		{"slice of its own in another node's pool", slices, func(ctx context.Context, c client.Client) error {
			s := newSlice("intruder", "n1")
			s.Spec.Pool.Name, s.Spec.Pool.Generation = "n2/pf", 99
			return c.Create(ctx, s)
		}},
		{"slice of its own in the pool of a node whose name begins with its own", slices, createAs(alteredSlice("begins", func(s *resourcev1.ResourceSlice) { s.Spec.Pool.Name = "n10/pf" }))},
		{"slice of a node whose name begins with its own", slices, createAs(newSlice("ten", "n10"))},
		{"slice of another driver", slices, createAs(alteredSlice("driver", func(s *resourcev1.ResourceSlice) { s.Spec.Driver = "example.com" }))},
		{"slice that cannot be deleted", slices, createAs(alteredSlice("stuck", func(s *resourcev1.ResourceSlice) { s.Finalizers = []string{"example.com/x"} }))},
		{"slice of all nodes", slices, createAs(newSlice("all", ""))},
		{"another node's slice changed", slices, patchObject(newSlice("stays", "n2"), `{"spec":{"devices":[{"name":"vf9"}]}}`)},
		{"another node's slice deleted", slices, func(ctx context.Context, c client.Client) error { return c.Delete(ctx, newSlice("theirs", "n2")) }},
		{"another node's device", claims, patchStatus(claim("on-n2"), deviceStatus("culvert.dev", "n2/pf", "02:00:00:00:00:02"))},
		{"device of a node whose name begins with its own", claims, patchStatus(claim("on-n10"), deviceStatus("culvert.dev", "n10/pf", "02:00:00:00:00:03"))},
		{"device of another driver", claims, patchStatus(claim("of-another"), deviceStatus("example.com", "n1/pf", "02:00:00:00:00:04"))},
		{"another node's device removed", claims, patchStatus(claim("on-n2"), `{"status":{"devices":null}}`)},
		{"label of a claim", claims, patchObject(claim("on-n1"), `{"metadata":{"labels":{"a":"b"}}}`)},
		{"annotation of a claim", claims, patchObject(claim("on-n1"), `{"metadata":{"annotations":{"a":"b"}}}`)},
		{"pod that may use a claim", claims, patchStatus(claim("on-n1"), `{"status":{"reservedFor":[{"resource":"pods","name":"evil","uid":"1"}]}}`)},
		{"allocation of a claim", claims, patchStatus(claim("on-n1"), `{"status":{"reservedFor":null,"devices":null,"allocation":null}}`)},
	})
}

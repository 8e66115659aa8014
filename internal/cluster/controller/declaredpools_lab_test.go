//go:build lab

package controller

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/test/apiserver"
)

// I4: a person changes the subnets of a pool, and not its blocks: a write without them would
// take addresses from pods.
func TestI4BlocksAreTheControllersOnARealAPIServer(t *testing.T) {
	c := connect(t, apiServer(t))
	install(t, c, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	pool := declaredPool("storage", "10.9.0.0/24")
	pool.Spec.Blocks = []v1alpha1.AddressBlock{{Node: "a", First: "10.9.0.2", Last: "10.9.0.9"}}
	apiserver.Eventually(t, "AddressPool", func() error { return client.IgnoreAlreadyExists(c.Create(t.Context(), pool)) })
	without := func() error {
		o := getPool(t, c, "storage")
		o.Spec.Blocks = nil
		return c.Update(t.Context(), o, client.DryRunAll)
	}
	const want = "blocks, rollCall and wanted are culvert-controller's"
	apiserver.Eventually(t, "the policy is in force", func() error {
		if err := without(); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("I4: %w", err)
		}
		return nil
	})
	o := getPool(t, c, "storage")
	o.Spec.Subnets[0].CIDR = "10.9.0.0/23"
	if err := c.Update(t.Context(), o); err != nil || len(getPool(t, c, "storage").Spec.Blocks) != 1 {
		t.Errorf("a write of the subnets: %v", err)
	}
}

// TestAddressPoolsOnARealAPIServer: the API server refuses an AddressPool whose fields contradict each other.
func TestAddressPoolsOnARealAPIServer(t *testing.T) {
	c := connect(t, apiServer(t))
	for name, tc := range map[string]struct {
		spec v1alpha1.AddressPoolSpec
		want string
	}{
		"declared":        {v1alpha1.AddressPoolSpec{Subnets: declaredPool("", "10.9.0.0/24", "fd00::/64").Spec.Subnets, BlockSize: 8, Namespaces: []string{"red"}}, ""},
		"the-controllers": {v1alpha1.AddressPoolSpec{Network: "red/n"}, ""},
		"neither":         {v1alpha1.AddressPoolSpec{}, "write subnets"},
		"both":            {v1alpha1.AddressPoolSpec{Network: "n", Subnets: declaredPool("", "10.9.0.0/24").Spec.Subnets}, "write subnets"},
		"a-false-name":    {v1alpha1.AddressPoolSpec{Network: "pool:declared"}, "pool: is of pools that have subnets"},
		"no-subnets":      {v1alpha1.AddressPoolSpec{Network: "n", BlockSize: 8}, "blockSize and keepAddress are of pools that have subnets"},
		"whereabouts":     {v1alpha1.AddressPoolSpec{Network: "whereabouts:blue", Namespaces: []string{"red"}}, ""},
		"not-shared":      {v1alpha1.AddressPoolSpec{Network: "red/n", Namespaces: []string{"red"}}, "namespaces are of pools that have subnets, and of those of whereabouts networks"},
		"too-large":       {v1alpha1.AddressPoolSpec{Subnets: declaredPool("", "10.9.0.0/24").Spec.Subnets, BlockSize: 4096}, "blockSize"},
	} {
		o := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: tc.spec}
		err := c.Create(t.Context(), o)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	o := getPool(t, c, "declared")
	o.Spec.Network, o.Spec.Subnets, o.Spec.BlockSize, o.Spec.Namespaces = "red/n", nil, 0, nil
	if err := c.Update(t.Context(), o); err == nil || !strings.Contains(err.Error(), "a pool stays with its network") {
		t.Errorf("a declared pool becomes a network's: %v", err)
	}
}

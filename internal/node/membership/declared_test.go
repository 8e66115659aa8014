package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// A node requests blocks of the AddressPools that the networks of its VFs name, once for all
// networks of a pool, and its requests follow the pool's subnets. A pool that cannot be served
// is a problem of the node.
func TestAddressPoolsAreRequested(t *testing.T) {
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 1, "a")}
	const naming = `{"type": "culvert", "ipam": {"type": "culvert", "addressPool": %q}}`
	inNamespace := func(namespace, pool string) api.NetworkDefinition {
		n := nad("net", "", fmt.Sprintf(naming, pool))
		n.Namespace = namespace
		return n
	}
	c.networks = []api.NetworkDefinition{inNamespace("red", "storage"), inNamespace("blue", "storage"), inNamespace("green", "closed"), inNamespace("grey", "missing")}
	declare := func(name, cidr string, namespaces ...string) *v1alpha1.AddressPool {
		return &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AddressPoolSpec{Subnets: []v1alpha1.PoolSubnet{{CIDR: cidr}}, Namespaces: namespaces}}
	}
	requested := func() (out []string) {
		for _, r := range m.look(t).AddressRequests {
			for _, one := range r.Ranges {
				out = append(out, r.Pool+" "+one.First+"-"+one.Last)
			}
		}
		return out
	}
	for _, step := range []struct {
		pools []*v1alpha1.AddressPool
		want  []string
	}{
		{nil, nil},
		{[]*v1alpha1.AddressPool{declare("storage", "10.9.0.0/29"), declare("closed", "10.8.0.0/29", "red")}, []string{"pool:storage 10.9.0.2-10.9.0.6"}},
		{[]*v1alpha1.AddressPool{declare("storage", "10.9.0.0/28"), declare("closed", "10.8.0.0/29", "green")}, []string{"pool:closed 10.8.0.2-10.8.0.6", "pool:storage 10.9.0.2-10.9.0.14"}},
	} {
		c.pools = step.pools
		if got := requested(); !slices.Equal(got, step.want) {
			t.Errorf("%d pools: requested %q, want %q", len(step.pools), got, step.want)
		}
	}
	section, id, err := m.Section(ipam.Config{Type: "culvert", AddressPool: "storage"}, "red")
	if err != nil || id != "pool:storage" || len(section.Sets) != 1 {
		t.Errorf("an ADD gets %+v of pool %q, %v", section.Sets, id, err)
	}
	if _, _, err := m.Section(ipam.Config{Type: "culvert", AddressPool: "closed"}, "red"); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("an ADD of another namespace: %v", err)
	}
	c.pools = []*v1alpha1.AddressPool{declare("storage", "10.9.0.1/28")}
	m.readPools()
	if len(m.unusable) != 1 || m.unusable[0].Object != "AddressPool storage" || !strings.Contains(m.unusable[0].Reason, "subnets[0].cidr") {
		t.Errorf("problems: %+v", m.unusable)
	}
}

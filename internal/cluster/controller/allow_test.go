package controller

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

func policyWithAllow(name string, a *v1alpha1.Allow) *v1alpha1.NodePolicy {
	return &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodePolicySpec{
		Pools: []v1alpha1.Pool{{Name: "x", Prefix: "intel.com", Allow: a}},
	}}
}

// I9: the webhook refuses a network that every pool of its resource refuses, in the words
// of the node, and warns where only some do.
func TestI9NetworksAreComparedWithAllow(t *testing.T) {
	const network = `{"metadata":{"name":"n","namespace":"red","annotations":{"k8s.v1.cni.cncf.io/resourceName":"intel.com/x"}},"spec":{"config":%q}}`
	strict := policyWithAllow("strict", &v1alpha1.Allow{Namespaces: []string{"blue"}, VLANs: []string{"100-200"}})
	ask := func(config string, policies ...*v1alpha1.NodePolicy) string {
		c := newCluster()
		for _, p := range policies {
			if err := c.Create(t.Context(), p.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		got := (&networks{client: c}).Handle(t.Context(), request(fmt.Sprintf(network, config)))
		return fmt.Sprintf("%t %s %s", got.Allowed, got.Result.Message, strings.Join(got.Warnings, "; "))
	}
	const vlan5 = `{"type":"sriov","cniVersion":"0.3.1","name":"n","vlan":5}`
	const no = "pool intel.com/x: vlan 5 is not allowed: allow.vlans has 100-200 (NodePolicy strict, pools[0])"
	for _, tc := range []struct {
		says string
		got  string
	}{
		{"false spec.config: " + no, ask(vlan5, strict)},
		{"true  " + no, ask(vlan5, strict, policyWithAllow("open", nil))},
		{"pods of this namespace are refused: pool intel.com/x: namespace red is not allowed: allow.namespaces has blue", ask(`{"type":"sriov","cniVersion":"0.3.1","name":"n","vlan":150}`, strict)},
		{"true  ", ask(vlan5, policyWithAllow("open", nil))},
	} {
		if !strings.Contains(tc.got, tc.says) {
			t.Errorf("got %s\nwant %s", tc.got, tc.says)
		}
	}
}

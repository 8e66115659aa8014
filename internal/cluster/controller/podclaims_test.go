package controller

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

func selecting(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

// A pod gets no resource for a network whose VFs its own claim provides, and the rest of what its networks
// need. Claims of other devices, and those that cannot be read, change nothing.
func TestPodsWithClaims(t *testing.T) {
	resource := "intel.com/fast"
	exactly := func(class, selector string, count int64) resourcev1.ResourceClaimSpec {
		r := resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: count}
		if selector != "" {
			r.Selectors = selecting(selector)
		}
		return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "vf", Exactly: &r}}}}
	}
	claimOf := func(name string, spec resourcev1.ResourceClaimSpec) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}
	}
	first := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "vf", FirstAvailable: []resourcev1.DeviceSubRequest{{DeviceClassName: "fast"}}}}}}
	c := newCluster(annotated("default", "v", map[string]string{netannotation.ResourceName: resource}),
		&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "extended"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &resource}},
		&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Spec: resourcev1.DeviceClassSpec{Selectors: selecting(`device.attributes["k8s.cni.cncf.io"].resourceName == "intel.com/fast"`)}},
		&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "vf"}, Spec: resourcev1.DeviceClassSpec{Selectors: selecting(`device.driver == "culvert.dev"`)}},
		claimOf("extended", exactly("extended", "", 1)), claimOf("class", exactly("fast", "", 0)), claimOf("selector", exactly("vf", `device.attributes["k8s.cni.cncf.io"].resourceName == 'intel.com/fast'`, 2)),
		claimOf("first", first), claimOf("other", exactly("vf", `device.attributes["x"].y == "intel.com/fast2"`, 1)), claimOf("gpu", exactly("gpu", "", 1)),
		&resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "t"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: exactly("fast", "", 1)}})
	for _, tc := range []struct{ networks, claims, want, warning string }{
		{"v", `{"name":"a","resourceClaimName":"extended"}`, "", ""},
		{"v", `{"name":"a","resourceClaimName":"class"}`, "", ""},
		{"v", `{"name":"a","resourceClaimName":"first"}`, "", ""},
		{"v", `{"name":"a","resourceClaimTemplateName":"t"}`, "", ""},
		{"v,v,v", `{"name":"a","resourceClaimName":"selector"}`, `"intel.com/fast":"1"`, ""},
		{"v,v", `{"name":"a","resourceClaimName":"class"},{"name":"b","resourceClaimTemplateName":"t"}`, "", ""},
		{"v", `{"name":"a","resourceClaimName":"other"},{"name":"b","resourceClaimName":"gpu"}`, `"intel.com/fast":"1"`, ""},
		{"v", `{"name":"a","resourceClaimName":"none"}`, `"intel.com/fast":"1"`, `claim a: resourceclaims.resource.k8s.io "none" not found; the pod requests the resources of its networks`},
		{"v", `{"name":"a"}`, `"intel.com/fast":"1"`, "claim a: it names neither"},
	} {
		out, warnings := handleTwice(t, &pods{client: c, live: c}, podAsking(tc.networks, `{"containers":[{"name":"c"}],"resourceClaims":[`+tc.claims+`]}`))
		if has := strings.Contains(out, `"intel.com/fast"`); has != (tc.want != "") || !strings.Contains(out, tc.want) {
			t.Errorf("%s with %s: %s, want %s", tc.networks, tc.claims, out, tc.want)
		}
		if all := strings.Join(warnings, "; "); tc.warning == "" && all != "" || !strings.Contains(all, tc.warning) {
			t.Errorf("%s: warnings %q, want %q", tc.claims, all, tc.warning)
		}
	}
}

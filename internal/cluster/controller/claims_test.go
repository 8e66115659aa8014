package controller

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// A configuration that no node could read is refused when it is applied, with its place. Those of other
// drivers are not read.
func TestClaimsWebhook(t *testing.T) {
	const good, bad = `{"apiVersion":"culvert.dev/v1alpha1","kind":"VFConfig","vlan":7}`, `{"apiVersion":"culvert.dev/v1alpha1","kind":"VFConfig","vlna":7}`
	const class, ofClaim, template = `{"spec":{"config":[%s]}}`, `{"spec":{"devices":{"config":[%s]}}}`, `{"spec":{"spec":{"devices":{"config":[%s]}}}}`
	opaque := func(driver, parameters string) string {
		return fmt.Sprintf(`{"requests":["vf"],"opaque":{"driver":%q,"parameters":%s}}`, driver, parameters)
	}
	theirs := opaque("gpu.example.com", bad)
	for _, c := range []struct{ object, configs, want string }{
		{class, opaque("culvert.dev", good), ""},
		{class, "", ""},
		{ofClaim, theirs + "," + opaque("culvert.dev", good), ""},
		{template, theirs, ""},
		{class, opaque("culvert.dev", bad), "spec.config[0].opaque.parameters: vlna: did you mean vlan?"},
		{ofClaim, theirs + "," + opaque("culvert.dev", bad), "spec.devices.config[1].opaque.parameters: vlna: did you mean vlan?"},
		{template, opaque("culvert.dev", bad), "spec.spec.devices.config[0].opaque.parameters: vlna: did you mean vlan?"},
		{template, opaque("culvert.dev", "null"), "want a JSON object"},
	} {
		raw := fmt.Sprintf(c.object, c.configs)
		got := claims{}.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(raw)}}})
		if got.Allowed != (c.want == "") || !got.Allowed && !strings.Contains(got.Result.Message, c.want) {
			t.Errorf("%s: %+v, want %q", raw, got.Result, c.want)
		}
	}
	if got := (claims{}).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte("{")}}}); got.Allowed {
		t.Error("an object that cannot be read is allowed")
	}
}

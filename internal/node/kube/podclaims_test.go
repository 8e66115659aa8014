package kube

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A pod's claims come in the order of its spec, those of templates by the names in its status, and the
// claim for extended resources last. A claim that is not made yet has no name.
func TestClaimNames(t *testing.T) {
	const text = `{"metadata":{"name":"a"},"spec":{"containers":[{}],"resourceClaims":[
		{"name":"late","resourceClaimTemplateName":"t"},{"name":"two","resourceClaimTemplateName":"t"},{"name":"one","resourceClaimName":"mine"}]},
		"status":{"resourceClaimStatuses":[{"name":"two","resourceClaimName":"a-two-x7"},{"name":"late"}],
		"extendedResourceClaimStatus":{"resourceClaimName":"a-extended-resources-9","requestMappings":[]}}}`
	var p pod
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	lean, err := stripObject(&p)
	if err != nil {
		t.Fatal(err)
	}
	list := (&podList{Items: []pod{*lean.(*pod)}}).DeepCopyObject().(*podList)
	if diff := cmp.Diff([]string{"a-two-x7", "mine", "a-extended-resources-9"}, podOf(&list.Items[0]).Claims); diff != "" {
		t.Error(diff)
	}
}

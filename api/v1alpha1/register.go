package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group of all objects here.
var GroupVersion = schema.GroupVersion{Group: "culvert.dev", Version: "v1alpha1"}

// AddToScheme makes the objects known to a client.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&NodePolicy{}, &NodePolicyList{},
		&NodeState{}, &NodeStateList{},
		&AddressPool{}, &AddressPoolList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// I4: a ledger names a pool by its ID. Two pools never have one ID, and the AddressPool of a
// pool is found by the ID. A person's pool may have the name of a network.
func TestI4PoolIDs(t *testing.T) {
	for _, tc := range []struct {
		name, network string
		wantID        string
		declared      bool
	}{
		{name: "storage", wantID: "pool:storage", declared: true},
		{name: "storage", network: "storage", wantID: "storage"},
		{name: "red.net", wantID: "pool:red.net", declared: true},
		{name: AddressPoolName("red/net"), network: "red/net", wantID: "red/net"},
		{name: AddressPoolName("pools/net"), network: "pools/net", wantID: "pools/net"},
	} {
		p := &AddressPool{ObjectMeta: metav1.ObjectMeta{Name: tc.name}, Spec: AddressPoolSpec{Network: tc.network}}
		id := p.PoolID()
		if id != tc.wantID {
			t.Errorf("AddressPool %s of network %q has the ID %s, want %s", tc.name, tc.network, id, tc.wantID)
		}
		if IsDeclaredPool(id) != tc.declared {
			t.Errorf("ID %s: a person declares the pool: %t, want %t", id, !tc.declared, tc.declared)
		}
		if got := AddressPoolName(id); got != tc.name {
			t.Errorf("ID %s leads to AddressPool %s, want %s", id, got, tc.name)
		}
		if tc.declared && DeclaredPoolID(tc.name) != id {
			t.Errorf("a network that names pool %s uses the ID %s, want %s", tc.name, DeclaredPoolID(tc.name), id)
		}
	}
}

// A client that got the types from AddToScheme reads and writes every kind of the group.
func TestSchemeHasEveryKind(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"NodePolicy", "NodePolicyList", "NodeState", "NodeStateList", "AddressPool", "AddressPoolList"} {
		o, err := s.New(GroupVersion.WithKind(kind))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if known, _, err := s.ObjectKinds(o); err != nil || len(known) != 1 || known[0] != GroupVersion.WithKind(kind) {
			t.Errorf("%s is written as %v, %v", kind, known, err)
		}
	}
	if !s.IsVersionRegistered(GroupVersion) || !s.Recognizes(GroupVersion.WithKind("WatchEvent")) {
		t.Error("a client cannot watch the objects of the group")
	}
}

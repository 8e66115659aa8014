package journal

import (
	"fmt"
	"testing"
)

// The delegations that a record owes are bounded, even if tenants write large configurations and
// plugins refuse each DEL.
func TestOwingIsBounded(t *testing.T) {
	lease := func(id string, size int) Lease {
		return Lease{Request: make([]byte, size), Delegation: &Delegation{Plugin: "p", ContainerID: id, Interface: "net1"}}
	}
	for _, tc := range []struct{ size, want int }{{100, mostOwed}, {keepOwed / 2, 2}, {keepOwed, 1}, {4 * keepOwed, 1}} {
		var r Record
		for i := range 10 {
			r.Lease = lease(fmt.Sprint(i), tc.size)
			r.Owed = r.Owing()
			r.Owed = Record{Owed: r.Owed, Lease: r.Lease}.Owing() // again
		}
		if len(r.Owed) != tc.want || tc.want > 0 && r.Owed[len(r.Owed)-1].ContainerID != "9" {
			t.Errorf("configurations of %d bytes: %d are owed, want %d", tc.size, len(r.Owed), tc.want)
		}
	}
	r := Record{Owed: []Delegation{{ContainerID: "a"}}}
	if got := r.Owing(); len(got) != 1 {
		t.Errorf("a lease without a plugin: %v", got)
	}
}

package vf

import "testing"

// R3: a machine of OpenStack is known by its vendor or product, and those of public clouds by their
// tags.
func TestIsOpenStack(t *testing.T) {
	for _, c := range []struct {
		vendor, product, tag string
		want                 bool
	}{
		{"OpenStack Foundation", "", "", true},
		{"Red Hat", "OpenStack Compute", "", true},
		{"", "OpenStack Nova", "", true},
		{"", "", "OpenStack Nova", true},
		{"Xen", "HVM domU", "OpenTelekomCloud", true},
		{"VMware, Inc.", "VMware7,1", "SAP CCloud VM", true},
		{"", "", "HUAWEICLOUD", true},
		{"QEMU", "Standard PC (Q35 + ICH9, 2009)", "", false},
		{"HUAWEICLOUD", "", "", false},
		{"", "", "", false},
	} {
		if got := IsOpenStack(c.vendor, c.product, c.tag); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

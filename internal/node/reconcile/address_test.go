package reconcile_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
)

const gateway = "pfs: [{name: enp1s0, vfs: 2, addresses: [172.16.91.1/24, 'fd00::1/64']}]\npools: [{name: a}]\n"

// addresses returns the addresses of the first PF. A star marks those that culvertd added.
func (h *host) addresses(t *testing.T) string {
	t.Helper()
	pf, err := h.k.PF(t.Context(), h.Inventory.PFs()[0].PCI)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range pf.Addrs {
		text := a.String()
		for _, own := range pf.OwnAddrs {
			if own == a {
				text += "*"
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// culvertd may not know the wanted state of a PF, because it has just started or policies
// contradict each other. It then keeps the addresses that it added to the PF.
func TestPFAddressesStayWhileNothingIsKnown(t *testing.T) {
	h := boot(t, "")
	h.want(t, gateway)
	h.pass(t)
	before := h.addresses(t)
	for what, spec := range map[string]desired.Spec{
		"a start":         {Partial: true},
		"a contradiction": {Contested: []desired.Contested{{PCI: h.Inventory.PFs()[0].PCI}}},
	} {
		h.SetSpec(spec)
		h.pass(t)
		if got := h.addresses(t); got != before {
			t.Errorf("%s: %s, want %s", what, got, before)
		}
	}
	h.SetSpec(desired.Spec{})
	h.pass(t)
	if got := h.addresses(t); got != "" {
		t.Errorf("nothing is wanted: %s", got)
	}
}

// A PF gets the declared addresses. It loses an address that culvertd added once the address, or
// the PF itself, is no longer declared. Addresses of other origin stay, even if they were declared
// for a while.
func TestPFAddresses(t *testing.T) {
	h := boot(t, "")
	if err := h.k.AddOthersAddress(h.Inventory.PFs()[0].PCI, netip.MustParsePrefix("10.0.0.5/8")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ what, wanted, addresses string }{
		{"declared", gateway, "10.0.0.5/8 172.16.91.1/24* fd00::1/64*"},
		{"one less, and one of other origin", "pfs: [{name: enp1s0, vfs: 2, addresses: [172.16.91.1/24, 10.0.0.5/8]}]\npools: [{name: a}]\n", "10.0.0.5/8 172.16.91.1/24*"},
		{"none", "pfs: [{name: enp1s0, vfs: 2}]\npools: [{name: a}]\n", "10.0.0.5/8"},
		{"again", gateway, "10.0.0.5/8 172.16.91.1/24* fd00::1/64*"},
		{"nothing of the PF", "pools: [{name: a}]\n", "10.0.0.5/8"},
	} {
		h.want(t, tc.wanted)
		h.pass(t)
		if got := h.addresses(t); got != tc.addresses {
			t.Errorf("%s: %s, want %s", tc.what, got, tc.addresses)
		}
		h.start2(t) // a new culvertd finds the marks in the kernel
		if plans, err := h.Reconciler.PlanFor(t.Context(), h.Spec()); err != nil || len(plans[0].Changes) > 0 {
			t.Errorf("%s: the plan is %v, %v", tc.what, plans[0].Changes, err)
		}
	}
}

// I7: an address that cannot be added or removed does not delay other addresses or the VFs, and the
// next pass tries again. Each step fails once, before and after it was carried out.
func TestI7FailingPFAddress(t *testing.T) {
	for _, moment := range []faulty.Moment{faulty.Before, faulty.After} {
		for _, kind := range []string{"AddPFAddress", "DelPFAddress"} {
			h := boot(t, gateway)
			if kind == "DelPFAddress" {
				h.pass(t)
				h.want(t, "pfs: [{name: enp1s0, vfs: 3, addresses: [10.9.9.1/24]}]\npools: [{name: a}]\n")
			}
			failed := false
			h.faults.Fail(func(m faulty.Moment, s step.Step) error {
				if m != moment || failed || faulty.Kind(s) != kind {
					return nil
				}
				failed = true
				return errors.New("injected")
			})
			if err := h.Reconciler.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "PF enp1s0: ") || !strings.Contains(err.Error(), "injected") {
				t.Errorf("%s: %v", kind, err)
			}
			vfs, want := 2, "172.16.91.1/24* fd00::1/64*"
			if kind == "DelPFAddress" {
				vfs, want = 3, "10.9.9.1/24*"
			}
			if got := h.phases(t); got != fmt.Sprintf("map[free:%d]", vfs) {
				t.Errorf("%s: %s", kind, got)
			}
			h.pass(t)
			if got := h.addresses(t); !slices.Equal(slices.Sorted(strings.FieldsSeq(got)), slices.Sorted(strings.FieldsSeq(want))) {
				t.Errorf("%s: %s, want %s", kind, got, want)
			}
		}
	}
}

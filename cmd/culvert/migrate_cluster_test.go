package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/api"
)

func TestWritePlan(t *testing.T) {
	for name, c := range map[string]struct {
		plan migrate.Plan
		want string
	}{
		"empty": {migrate.Plan{}, ""},
		"whole": {
			migrate.Plan{
				Found:    []migrate.Part{{Name: "Multus", Workload: "DaemonSet kube-system/kube-multus-ds", Why: "Culvert works beside it"}, {Name: "device plugin", Workload: "DaemonSet kube-system/sriovdp", Goes: true, Why: "culvertd serves its resources"}},
				Becomes:  []migrate.Note{{Object: "SriovNetwork default/a", Field: "spec.vlan", Text: "vlan of the network"}},
				Problems: []migrate.Note{{Object: "Pod default/b", Text: "would be refused: no such network", Lost: true}},
				Steps:    []migrate.Step{{Command: "kubectl delete daemonset sriovdp", Why: "two device plugins must not serve one resource"}},
			},
			`There is
  Multus (DaemonSet kube-system/kube-multus-ds) stays: Culvert works beside it
  device plugin (DaemonSet kube-system/sriovdp) goes: culvertd serves its resources
Conversions
  SriovNetwork default/a: spec.vlan: vlan of the network
Problems
  Pod default/b: would be refused: no such network
Steps
  1. kubectl delete daemonset sriovdp
     two device plugins must not serve one resource
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := writePlan(&b, c.plan); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, b.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWriteLeft(t *testing.T) {
	for want, left := range map[string][]migrate.Note{
		"nothing is left: the old parts are gone, every pod with networks runs and every network is served\n": nil,
		"Pod default/b: it does not run\nNodePolicy a: it is not applied: no PF\n": {
			{Object: "Pod default/b", Text: "it does not run", Lost: true}, {Object: "NodePolicy a", Text: "it is not applied: no PF"},
		},
	} {
		var b strings.Builder
		if err := writeLeft(&b, left); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Error(d)
		}
	}
}

func TestBondOfAGuestIsTwoRequests(t *testing.T) {
	req := api.GuestXMLRequest{Device: "data"}
	if got, err := pairRequests(req, false); err != nil || !cmp.Equal(got, []api.GuestXMLRequest{req}) {
		t.Errorf("without a bond: %+v, %v", got, err)
	}
	got, err := pairRequests(req, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []api.GuestXMLRequest{{Device: "dataa"}, {Device: "datab", Apart: "dataa"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, req := range []api.GuestXMLRequest{{Apart: "x"}, {Failover: "x"}} {
		if _, err := pairRequests(req, true); err == nil || !strings.Contains(err.Error(), "--bond is of two VFs of two PFs") {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

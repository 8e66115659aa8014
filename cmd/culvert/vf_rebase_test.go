package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// culvertd takes a new baseline only of the differences that the user has seen.
func TestVFRebase(t *testing.T) {
	d := &culvertd{differs: []vf.Difference{{Attribute: "rings", Want: "256", Have: "4096"}}}
	socket := d.serve(t)
	const name, pci = "enp1s0f0#0", "0000:01:10.0"
	asks := api.RebaseRequest{VF: vf.PCIAddr{Bus: 1, Device: 0x10}}
	accepts := asks
	accepts.Accept = d.differs
	shown := name + " (" + pci + ") differs from its baseline:\n  rings is 4096, not 256\n"
	for _, tt := range []struct {
		args   []string
		out    string
		failed string
		asked  []api.RebaseRequest
	}{
		{[]string{name}, shown, name + ": nothing was changed, since the answer was not y: run it again, or give --yes", []api.RebaseRequest{asks}},
		{[]string{name, "--yes"}, shown + name + " is free. In its new baseline rings is 4096, not 256.\n", "", []api.RebaseRequest{asks, accepts}},
		{[]string{name, "--cluster"}, "", "culvert vf rebase works on this node alone: run it on the node that has the VF", nil},
	} {
		d.rebased = nil
		out, err := run(t.Context(), t, socket, append([]string{"vf", "rebase"}, tt.args...)...)
		failed := ""
		if err != nil {
			failed = err.Error()
		}
		if out != tt.out || failed != tt.failed {
			t.Errorf("%v: %q, %q", tt.args, out, failed)
		}
		if diff := cmp.Diff(tt.asked, d.rebased); diff != "" {
			t.Errorf("%v: asked (-want +got):\n%s", tt.args, diff)
		}
	}
	d.differs = nil
	out, err := run(t.Context(), t, socket, "vf", "rebase", name, "--yes")
	if want := name + " (" + pci + ") is as its baseline says: there is nothing to take anew.\n"; out != want || err != nil {
		t.Errorf("%q (%v)", out, err)
	}
}

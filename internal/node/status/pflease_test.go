package status

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// P11: status names the guest that has a PF as a whole, under the PF's own name. It is a problem only
// if host.yaml wants VFs of that PF.
func TestP11PFOfAGuest(t *testing.T) {
	in := node(t)
	was := in.PFs[2]
	_, wanted := in.Spec.ForPF(was)
	if !wanted {
		t.Fatal("host.yaml does not name this PF")
	}
	in.PFs[2] = vf.PF{PCI: was.PCI, Driver: "vfio-pci", Err: "driver vfio-pci has no netdevice"}
	in.PFLeases = []journal.PFLease{journal.NewPFLease(was, vf.Owner{UID: "u1", Name: "db1"})}
	for _, tt := range []struct {
		wanted  bool
		problem string
	}{{true, "guest db1 has it as a whole"}, {false, ""}} {
		if !tt.wanted {
			in.Spec.PFs = nil
		}
		st := Assemble(in)
		var said []string
		for _, p := range st.Problems {
			if p.Object == "PF "+was.Name {
				said = append(said, p.Reason)
			}
		}
		if text := strings.Join(said, "; "); (text != "") != (tt.problem != "") || !strings.Contains(text, tt.problem) {
			t.Errorf("wanted %t: problems %q, want %q", tt.wanted, text, tt.problem)
		}
		found := false
		for _, pf := range st.PFs {
			if pf.PCI == was.PCI {
				found = pf.Owner != nil && pf.Owner.String() == "vm db1" && pf.Name == was.Name
			}
		}
		if !found {
			t.Errorf("%+v", st.PFs)
		}
	}
}

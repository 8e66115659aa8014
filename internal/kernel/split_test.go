package kernel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// Culvert identifies a T6's PFs by the card and their number on it, so their identity is the same
// in another slot.
func TestSplitIdentitySurvivesTheSlot(t *testing.T) {
	a := parseArchive(t, "hosts/t6-cxgb4.txtar")
	identities := func(a *txtar.Archive) string {
		pfs, err := hostOf(t, a).PFs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, pf := range pfs {
			ids = append(ids, pf.ID.String())
			for _, v := range pf.VFs {
				ids = append(ids, v.ID.String())
			}
		}
		return fmt.Sprint(ids)
	}
	moved := txtar.Parse([]byte(strings.ReplaceAll(string(txtar.Format(a)), "0000:64:", "0000:17:")))
	want := "[00:07:43:50:00:80/pf0 00:07:43:50:00:80/pf0#0 00:07:43:50:00:80/pf0#1 00:07:43:50:00:80/pf1 00:07:43:50:00:80/pf2 00:07:43:50:00:80/pf3]"
	for _, a := range []*txtar.Archive{a, moved} {
		if diff := cmp.Diff(want, identities(a)); diff != "" {
			t.Error(diff)
		}
	}
}

// If a netdevice of a split card is missing, the error of the PF names it. Culvert still lists the
// other PFs of the card.
func TestSplitPFWithSomethingMissing(t *testing.T) {
	a := parseArchive(t, "hosts/t6-cxgb4.txtar")
	text := string(txtar.Format(a))
	for _, tt := range []struct{ name, without, wantErr string }{
		{"no control netdevice", "net/mgmtpf0,0/ifindex 9\n", "it has VFs and no netdevice to set them by (mgmtpf...) in the host's netns"},
		{"first port elsewhere", "net/enp100s0f4/ifindex 5\n", "the card's first port has no netdevice in the host's netns"},
	} {
		pfs, err := hostOf(t, txtar.Parse([]byte(strings.Replace(text, tt.without, "", 1)))).PFs(t.Context())
		if err != nil || len(pfs) != 4 || !strings.Contains(pfs[0].Err, tt.wantErr) {
			t.Errorf("%s: %v %+v", tt.name, err, pfs[0].Err)
		}
	}
}

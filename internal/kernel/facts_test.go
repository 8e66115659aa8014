package kernel

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// The facts of a VF are those of one folder in sysfs. A VF that is made anew at the address has
// another folder, and none of the old facts. TestLabFactsOfAVFThatCameBack does the same with VFs.
func TestFactsOfOneFolder(t *testing.T) {
	a, b := pciAddr(t, "01:10.0"), pciAddr(t, "01:10.2")
	first := facts{pf: vf.PCIAddr{Bus: 1}, index: 3, function: function{PCI: a, Vendor: "8086"}}
	second := facts{pf: vf.PCIAddr{Bus: 2}, index: 4, function: function{PCI: a, Vendor: "15b3"}}
	var all allFacts
	check := func(when string, addr vf.PCIAddr, inode uint64, want facts, wantOK bool) {
		t.Helper()
		got, ok := all.recallFacts(addr, inode)
		diff := cmp.Diff(want, got, cmp.AllowUnexported(facts{}))
		if ok != wantOK || ok && diff != "" {
			t.Errorf("%s: known %t -want +got:\n%s", when, ok, diff)
		}
	}
	check("before the first read", a, 100, facts{}, false)
	all.keepFacts(a, remembered{100, first})
	check("read", a, 100, first, true)
	check("another folder", a, 101, facts{}, false)
	check("another VF", b, 100, facts{}, false)
	all.keepFacts(a, remembered{101, second})
	check("read anew", a, 101, second, true)
	check("the first folder", a, 100, facts{}, false)
}

// Only sysfs gives each folder an inode number of its own, so facts of other file systems are not
// kept.
func TestFactsOfAnotherFileSystem(t *testing.T) {
	k, addr := New(Options{SysRoot: treeOf(t, "host.txtar").root}), pciAddr(t, "01:10.0")
	if f, err := k.readFacts(addr); f.index != 0 || f.Driver != "igbvf" || err != nil {
		t.Errorf("%+v, %v", f, err)
	}
	if len(k.known.of) != 0 {
		t.Errorf("kept %+v", k.known.of)
	}
}

package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

const pageSize = 4096

var addrs = cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})

// attachment returns the n-th of many attachments, each on one of 14 VFs.
func attachment(n int) (journal.Record, journal.Address) {
	i := n % 14
	owner := vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprintf("uid-%d", n), Name: fmt.Sprintf("ns/p%d", n), Interface: "net1"}
	addr := netip.AddrFrom4([4]byte{10, 0, byte(n / 200 % 200), byte(1 + n%200)})
	r := journal.Record{
		ID: id(i), PCI: vf.PCIAddr{Bus: 1, Device: uint8(i)}, Generation: uint64(1 + n/14), Phase: vf.PhaseAttached,
		Baseline: vf.Baseline{Admin: vf.Admin{MAC: vf.StableMAC(id(i).PF, i)}, Driver: "igbvf", Name: fmt.Sprintf("v%d", i)},
		Lease: journal.Lease{
			Owner: owner, Network: "blue", Netns: "/run/netns/" + owner.UID, Request: []byte(strings.Repeat("r", 400)),
			Wanted: vf.Spec{Interface: "net1", Addresses: []vf.Address{{Prefix: netip.PrefixFrom(addr, 16)}}},
		},
	}
	return r, journal.Address{Network: "blue", Addr: addr, VF: r.ID, Owner: owner}
}

// image makes a ledger of some size (its buckets have branch pages and small
// ones alike), as culvertd would leave it, and returns the bytes of its file.
func image(t testing.TB, vfs int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := journal.Open(path, journal.Options{NoSync: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	owner := func(i int) vf.Owner {
		return vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprintf("uid-%d", i), Name: fmt.Sprintf("ns/p%d", i), Interface: "net1"}
	}
	for i := range vfs {
		err := l.Update(func(tx *journal.Tx) error {
			r := journal.Record{
				ID: id(i), PCI: vf.PCIAddr{Bus: 1 + uint8(i/32), Device: uint8(i % 32)}, Generation: 1, Phase: vf.PhaseFree,
				Baseline: vf.Baseline{Admin: vf.Admin{MAC: vf.StableMAC(id(i).PF, i)}, Driver: "igbvf", Name: fmt.Sprintf("v%d", i)},
			}
			if i%3 != 0 {
				a := netip.AddrFrom4([4]byte{10, 0, byte(i / 200), byte(1 + i%200)})
				r.Phase, r.Lease = vf.PhaseAttached, journal.Lease{
					Owner: owner(i), Network: "blue", Netns: "/run/netns/" + owner(i).UID,
					Wanted: vf.Spec{Addresses: []vf.Address{{Prefix: netip.PrefixFrom(a, 16)}}},
				}
				if err := tx.HoldAddress(journal.Address{Network: "blue", Addr: a, VF: r.ID, Owner: owner(i)}); err != nil {
					return err
				}
			}
			return errors.Join(tx.SetBoot("boot-1"), tx.Put(r), tx.Event(journal.Event{Reason: "Made", Text: fmt.Sprint(i)}))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestWholeLedgerIsWithoutFault reads a file that bbolt wrote with package pages.
func TestWholeLedgerIsWithoutFault(t *testing.T) {
	for _, vfs := range []int{0, 1, 7, 64, 256} {
		c := readContent(image(t, vfs))
		if p := c.Problems(); len(p) > 0 {
			t.Errorf("%d VFs: %v", vfs, p)
		}
		if len(c.Records) != vfs || len(c.Events) != vfs {
			t.Errorf("%d VFs: %d records, %d events", vfs, len(c.Records), len(c.Events))
		}
	}
}

// acceptable checks the ledger's promise for a damaged image: Read refuses it as a whole, or
// returns each entry as it was written or marked as Damaged. No entry is missing or added.
func acceptable(t testing.TB, before journal.Content, damaged []byte) (refused bool) {
	t.Helper()
	c := readContent(damaged)
	if len(c.Faults) > 0 {
		return true
	}
	if c.Boot != before.Boot || c.Format != before.Format {
		t.Errorf("boot %q, format %q", c.Boot, c.Format)
	}
	was := map[vf.ID]journal.Record{}
	for _, r := range before.Records {
		was[r.ID] = r
	}
	for _, r := range c.Records {
		old, there := was[r.ID]
		delete(was, r.ID)
		if r.Phase == vf.PhaseDamaged {
			if !there {
				t.Errorf("VF %s came from nowhere", r.ID)
			}
			continue
		}
		if !reflect.DeepEqual(old, r) {
			t.Errorf("VF %s was read otherwise than it was written: %s", r.ID, cmp.Diff(old, r, addrs))
		}
	}
	if len(was) > 0 {
		t.Errorf("%d records are missing", len(was))
	}
	acceptableAddresses(t, before, c)
	if len(c.Events) != len(before.Events) {
		t.Errorf("%d events of %d", len(c.Events), len(before.Events))
	}
	return false
}

func acceptableAddresses(t testing.TB, before, c journal.Content) {
	t.Helper()
	type key struct {
		network string
		addr    netip.Addr
	}
	held := map[key]journal.Address{}
	for _, a := range c.Addresses {
		held[key{a.Network, a.Addr}] = a
	}
	for _, a := range before.Addresses {
		k := key{a.Network, a.Addr}
		if got, ok := held[k]; !ok || got.Damage == "" && got != a {
			t.Errorf("address %s: %v", a.Addr, got)
		}
		delete(held, k)
	}
	for k, a := range held {
		t.Errorf("address %v came from nowhere: %v", k, a)
	}
}

// opens fails the test unless Open refuses a file exactly if Read finds faults in its bytes. A
// ledger that Open accepts must have the records that Read returns, be writable, and have no faults
// after a write.
func opens(t testing.TB, damaged []byte) {
	t.Helper()
	c := readContent(damaged)
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := journal.Open(path, journal.Options{NoSync: true})
	if len(c.Faults) > 0 {
		if !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "culvert ledger") && !errors.Is(err, journal.ErrForeign) {
			t.Errorf("a ledger with faults (%v) was opened: %v", c.Faults[0], err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(after, damaged) {
			t.Error("a ledger that was refused was changed")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = l.Update(func(tx *journal.Tx) error {
		records := tx.Records()
		if diff := cmp.Diff(c.Records, records, addrs); diff != "" {
			t.Error(diff)
		}
		for _, r := range records {
			if r.Phase == vf.PhaseDamaged {
				continue
			}
			r.Generation++
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return errors.Join(err, tx.Event(journal.Event{Reason: "After"}))
	})
	if err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if after, err := journal.Inspect(path); err != nil || len(after.Faults) > 0 || len(after.Records) != len(c.Records) {
		t.Errorf("after a change it has faults: %v %v", after.Faults, err)
	}
}

// TestTruncatedLedger shows that a file that was cut short anywhere is refused, and never taken for
// an empty ledger.
func TestTruncatedLedger(t *testing.T) {
	whole := image(t, 64)
	used := len(whole)
	for at := 0; at < len(whole); at += pageSize { // unused pages at the end may be missing
		if len(readContent(whole[:at]).Faults) == 0 {
			used = at
			break
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < used; at += pageSize {
		for _, n := range []int{at, at + 1 + rnd.IntN(pageSize-1)} {
			if n >= used {
				continue
			}
			if len(readContent(whole[:n]).Faults) == 0 {
				t.Errorf("cut to %d of %d bytes: taken for whole", n, used)
			}
			opens(t, whole[:n])
		}
	}
}

// TestGarbageInAPage overwrites each page with zeros, with ones and with noise.
func TestGarbageInAPage(t *testing.T) {
	whole := image(t, 24)
	before := readContent(whole)
	rnd := rand.NewChaCha8([32]byte{7})
	refused, every := 0, 1
	if testing.Short() { // the race detector makes each page slow
		every = 3
	}
	for at := 0; at < len(whole); at += every * pageSize {
		for _, kind := range []string{"zeros", "ones", "noise", "another page"} {
			spoilt := bytes.Clone(whole)
			page := spoilt[at : at+pageSize]
			switch kind {
			case "zeros":
				clear(page)
			case "ones":
				copy(page, bytes.Repeat([]byte{0xff}, pageSize))
			case "noise":
				_, _ = rnd.Read(page)
			case "another page":
				copy(page, whole[(at+pageSize)%len(whole):])
			}
			if acceptable(t, before, spoilt) {
				refused++
			}
			if kind != "ones" {
				opens(t, spoilt)
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// TestOneFlippedBit flips single bits all over the file.
func TestOneFlippedBit(t *testing.T) {
	whole := image(t, 40)
	before := readContent(whole)
	rnd := rand.New(rand.NewPCG(3, 4))
	refused, accepted := 0, 0
	for at := 0; at < len(whole); at += 1 + rnd.IntN(900) {
		spoilt := bytes.Clone(whole)
		spoilt[at] ^= 1 << rnd.IntN(8)
		if acceptable(t, before, spoilt) {
			refused++
		} else {
			accepted++
		}
		if (refused+accepted)%20 == 0 {
			opens(t, spoilt)
		}
		if t.Failed() {
			t.Fatalf("bit in byte %d (page %d)", at, at/pageSize)
		}
	}
	t.Logf("%d bits flipped: %d refused, %d isolated or without effect", refused+accepted, refused, accepted)
}

// TestWhatIsNoFile puts objects that are no ledger at the ledger's path. The error of Open says
// what each one is.
func TestWhatIsNoFile(t *testing.T) {
	tests := map[string]struct {
		make func(path string) error
		want string
	}{
		"folder":          {func(path string) error { return os.Mkdir(path, 0o700) }, "it is no file"},
		"link to nowhere": {func(path string) error { return os.Symlink(path+".gone", path) }, "it is a link to"},
		"empty":           {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "it is empty (0 bytes)"},
		"device":          {func(path string) error { return os.Symlink("/dev/null", path) }, "it is no file"},
		"text":            {func(path string) error { return os.WriteFile(path, []byte("hello\n"), 0o600) }, "it is no ledger"},
		"zeros":           {func(path string) error { return os.WriteFile(path, make([]byte, 1<<16), 0o600) }, "it is no page of a ledger"},
		"folder is a file": {func(path string) error {
			return errors.Join(os.Remove(filepath.Dir(path)), os.WriteFile(filepath.Dir(path), nil, 0o600))
		}, "not a directory"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			path := filepath.Join(dir, "ledger.db")
			if err := errors.Join(os.Mkdir(dir, 0o700), test.make(path)); err != nil {
				t.Fatal(err)
			}
			_, err := journal.Open(path, journal.Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(path + ".new"); err == nil || !errors.Is(err, fs.ErrNotExist) && name != "folder is a file" {
				t.Errorf("left behind: %v", err)
			}
		})
	}
}

// If a ledger is cut short or overwritten while it is open, its methods return an error, even if
// bbolt panics or causes a memory fault.
func TestCutShortWhileOpen(t *testing.T) {
	for _, size := range []int64{0, 1, pageSize, 3 * pageSize} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		if err := os.WriteFile(path, image(t, 64), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := journal.Open(path, journal.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		read := func() error {
			return l.View(func(tx *journal.Tx) error { tx.Records(); return nil })
		}
		if err := read(); !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), "restart culvertd") {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
		write := l.Update(func(tx *journal.Tx) error { return tx.SetBoot("x") })
		if !errors.Is(write, journal.ErrDamaged) {
			t.Errorf("then: %v", write)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// readContent reads the bytes of a ledger's file.
func readContent(image []byte) journal.Content { return journal.Read(bytes.NewReader(image)) }

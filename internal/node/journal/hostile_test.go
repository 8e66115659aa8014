package journal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/journal/pages"
	"github.com/culvert-net/culvert/internal/vf"
)

// These files are made by hand, to cost their reader more than they cost their maker. order is the
// byte order of this machine, which bbolt has.
var order = binary.NativeEndian

// crafted returns a file of pages with two sound metas, whose root is page 2 and whose list of free
// pages is page 3.
func crafted(pages map[int][]byte) []byte {
	count := 4
	for n, b := range pages {
		count = max(count, n+(len(b)+pageSize-1)/pageSize)
	}
	file := make([]byte, count*pageSize)
	for n := range 2 {
		putHeader(file[n*pageSize:], n, 4, 0, 0)
		m := file[n*pageSize+16:]
		order.PutUint32(m, 0xED0CDAED)
		order.PutUint32(m[4:], 2)
		order.PutUint32(m[8:], pageSize)
		order.PutUint64(m[16:], 2)
		order.PutUint64(m[32:], 3)
		order.PutUint64(m[40:], uint64(count))
		order.PutUint64(m[48:], uint64(10+n))
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56])
		order.PutUint64(m[56:], sum.Sum64())
	}
	putHeader(file[3*pageSize:], 3, 0x10, 0, 0)
	for n, b := range pages {
		copy(file[n*pageSize:], b)
	}
	return file
}

func putHeader(b []byte, id, kind, count, more int) {
	order.PutUint64(b, uint64(id))
	order.PutUint16(b[8:], uint16(kind))
	order.PutUint16(b[10:], uint16(count))
	order.PutUint32(b[12:], uint32(more))
}

// putEntry writes entry i of a page of entries: at is the offset of its key.
func putEntry(page []byte, i, flags, at, key, value int) {
	e := page[16+16*i:]
	for n, v := range []int{flags, at - (16 + 16*i), key, value} {
		order.PutUint32(e[4*n:], uint32(v))
	}
}

// bucketPage returns page 2 with one bucket, whose root is another page.
func bucketPage(name string, root int) []byte {
	b := make([]byte, pageSize)
	putHeader(b, 2, 2, 1, 0)
	putEntry(b, 0, 1, 32, len(name), 16)
	copy(b[32:], name)
	order.PutUint64(b[32+len(name):], uint64(root))
	return b
}

// within fails the test if f takes longer than bound.
func within(t *testing.T, bound time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(bound):
		t.Fatalf("it takes more than %s", bound)
	}
}

// TestNestedBuckets reads an unused page with two small buckets that are one part of the page, each
// with two such buckets, and so on, 60 deep: 2^60 buckets in 4096 bytes.
func TestNestedBuckets(t *testing.T) {
	bomb := make([]byte, pageSize)
	for at := 0; at+65 < pageSize; at += 65 {
		putHeader(bomb[at:], 4, 2, 2, 0)
		for i := range 2 {
			putEntry(bomb[at:], i, 1, 48, 1, pageSize-at-49)
		}
	}
	file := crafted(map[int][]byte{2: bucketPage("vfs", 9), 4: bomb})
	within(t, 10*time.Second, func() { readContent(file) })
}

// TestOverlappingValues reads a page of 1.3 MiB whose 500 values of 1 MiB are one part of the page.
func TestOverlappingValues(t *testing.T) {
	const n, value = 500, 1<<20 - 16
	more := (16+16*n+n+8+value)/pageSize + 1
	leaf := make([]byte, (more+1)*pageSize)
	rnd := rand.NewChaCha8([32]byte{3})
	_, _ = rnd.Read(leaf)
	putHeader(leaf, 4, 2, n, more)
	for i := range n {
		putEntry(leaf, i, 0, 16+16*n+i, 8, value)
	}
	raw := crafted(map[int][]byte{2: bucketPage("meta", 4), 4: leaf})
	file := pages.Read(bytes.NewReader(raw))
	sum := 0
	for _, stored := range file.Items("meta") {
		sum += len(stored)
	}
	if sum > len(raw) {
		t.Errorf("of a file of %d bytes it reads values of %d", len(raw), sum)
	}
	if len(file.Faults) == 0 {
		t.Error("it finds nothing wrong")
	}
}

// TestThousandsOfBuckets reads a database of another program, or one made to look so, with many
// buckets. Its reader goes through the file a few times, and not once for each bucket.
func TestThousandsOfBuckets(t *testing.T) {
	const n = 40000
	more := (16 + 16*n + 40*n) / pageSize
	root := make([]byte, (more+1)*pageSize)
	putHeader(root, 4, 2, n, more)
	for i := range n {
		at := 16 + 16*n + 40*i
		putEntry(root, i, 1, at, 8, 32)
		binary.BigEndian.PutUint64(root[at:], uint64(i))
		putHeader(root[at+8+16:], 0, 2, 0, 0)
	}
	file := crafted(map[int][]byte{4: root})
	for m := range 2 { // the root is page 4
		meta := file[m*pageSize+16:]
		order.PutUint64(meta[16:], 4)
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:56])
		order.PutUint64(meta[56:], sum.Sum64())
	}
	var c journal.Content
	within(t, 10*time.Second, func() { c = readContent(file) })
	if len(c.Faults) > 1100 {
		t.Errorf("it lists %d faults", len(c.Faults))
	}
}

// I4: the records of two VFs and the entry of the address of one of them cannot be read. The VF that
// is not used is taken over. The other one has a running pod, and the address stays held.
func TestI4AddressStaysWhileAVFIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := openEntry(t, path)
	free, _ := attachment(0)
	free.Phase, free.Lease = vf.PhaseFree, journal.Lease{}
	used, address := attachment(1)
	err := l.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.SetBoot("boot-now"), tx.Put(free), tx.Put(used), tx.HoldAddress(address))
	})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.ReplaceAll(raw, []byte(`"generation":1`), []byte(`"generation":9`))
	raw = bytes.ReplaceAll(raw, []byte(`{"network":"blue","addr"`), []byte(`{"network":"blux","addr"`))
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	repaired(t, path, map[vf.ID]vf.PCIAddr{free.ID: free.PCI, used.ID: used.PCI})
	l = openEntry(t, path)
	err = l.Update(func(tx *journal.Tx) error { // as Reconciler.takeOver does it
		return errors.Join(tx.FreeAddresses(free.ID), tx.Put(journal.Record{ID: free.ID, PCI: free.PCI, Generation: 1, Phase: vf.PhaseMaking}))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = l.View(func(tx *journal.Tx) error {
		if held := tx.HoldersOf(address.Addr); len(held) != 1 {
			t.Errorf("address %s of a VF that a pod may use has holders %v", address.Addr, held)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// I4: a VF is quarantined since its owner's process does not end, and the entry of its address cannot
// be read. A repair keeps the address for it.
func TestI4RepairKeepsAddressesOfAQuarantinedVF(t *testing.T) {
	for _, phase := range []vf.Phase{vf.PhaseQuarantined, vf.PhaseReleasing} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		l := openEntry(t, path)
		rec, address := attachment(1)
		rec.Phase, rec.Reason = phase, "a process has it open"
		if err := errors.Join(l.Update(func(tx *journal.Tx) error {
			return errors.Join(tx.SetBoot("boot-now"), tx.Put(rec), tx.HoldAddress(address))
		}), l.Close()); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw = bytes.ReplaceAll(raw, []byte(`{"network":"blue","addr"`), []byte(`{"network":"blux","addr"`))
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		r, _ := repaired(t, path, nil)
		if len(r.Addresses) != 1 || r.Addresses[0].Addr != address.Addr || r.Addresses[0].VF != rec.ID || r.Addresses[0].Owner != address.Owner {
			t.Errorf("%s: the addresses are %v", phase, r.Addresses)
		}
	}
}

// I1: a page that was read twice, by a wrong page number above it, has two records of one VF: of two
// owners, or of one. The repair keeps a record that both agree upon, and marks the VF of the others
// as lost.
func TestI1RepairOfTwoRecordsOfOneVF(t *testing.T) {
	whole := image(t, 120)
	path := filepath.Join(t.TempDir(), "ledger.db")
	tried, twice := 0, 0
	was := map[vf.ID]journal.Record{}
	before := readContent(whole)
	for _, r := range before.Records {
		was[r.ID] = r
	}
	for page := 2; page < len(whole)/pageSize; page++ {
		b := whole[page*pageSize:]
		if order.Uint16(b[8:]) != 1 || order.Uint64(b) != uint64(page) { // a branch
			continue
		}
		for to := 2; to < len(whole)/pageSize; to++ {
			spoilt := bytes.Clone(whole)
			order.PutUint64(spoilt[page*pageSize+16+8:], uint64(to)) // its first child
			c := readContent(spoilt)
			seen, again := map[vf.ID]bool{}, false
			for _, r := range c.Records {
				again = again || seen[r.ID]
				seen[r.ID] = true
			}
			if tried++; !again {
				continue
			}
			twice++
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, spoilt, 0o600)); err != nil {
				t.Fatal(err)
			}
			c, err := journal.Inspect(path)
			if err != nil {
				t.Fatal(err)
			}
			r := journal.Mend(c, "boot-1", nil)
			if _, err := r.Write(path, now.Add(time.Duration(twice)*time.Second)); err != nil {
				t.Fatalf("page %d, child %d: %v", page, to, err)
			}
			for _, rec := range r.Records {
				if rec.Phase != vf.PhaseDamaged && rec.Lease.Owner != was[rec.ID].Lease.Owner {
					t.Errorf("VF %s is %s of %v, and was of %v", rec.ID, rec.Phase, rec.Lease.Owner, was[rec.ID].Lease.Owner)
				}
			}
		}
	}
	if twice == 0 {
		t.Skipf("none of %d files has two records of one VF", tried)
	}
}

// TestRepairFollowsNoLink: another user who may write the folder puts a link where the repair is
// about to make its file.
func TestRepairFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	aim := filepath.Join(dir, "elsewhere")
	link := filepath.Join(dir, "ledger.db.repaired")
	if err := os.Symlink(aim, link); err != nil {
		t.Fatal(err)
	}
	raw := image(t, 3)
	r := journal.Mend(readContent(raw), "boot-1", nil)
	err := r.WriteLedger(link, bytes.NewReader(raw), now)
	if _, there := os.Lstat(aim); err == nil || there == nil {
		t.Errorf("it wrote through the link: %v", err)
	}
}

// I1, I4: files with several bytes of damage, repaired. Each VF that had an owner has the same one or
// is marked as lost, and each address that was held has a holder.
func TestI4RepairAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	end := time.Now().Add(time.Second)
	if s := os.Getenv("CULVERT_DAMAGE_FOR"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		end = time.Now().Add(d)
	}
	runs, lostAddresses := 0, 0
	for time.Now().Before(end) {
		whole := image(t, 3+int(seed%60))
		before := readContent(whole)
		made := map[vf.ID]vf.PCIAddr{}
		for _, r := range before.Records {
			made[r.ID] = r.PCI
		}
		for range 20 {
			seed++
			rnd := rand.New(rand.NewPCG(seed, 0))
			spoilt := bytes.Clone(whole)
			for range 1 + rnd.IntN(4) {
				edit := []byte{"xxxsp"[rnd.IntN(5)], byte(rnd.IntN(60)), 0, 0, 0, 0, 0, byte(rnd.IntN(256))}
				at := rnd.IntN(len(whole))
				edit[3], edit[4], edit[5] = byte(at), byte(at>>8), byte(at>>16)
				spoilt = damaged(spoilt, edit)
			}
			path := filepath.Join(t.TempDir(), "ledger.db")
			if err := os.WriteFile(path, spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := journal.Inspect(path)
			if errors.Is(err, journal.ErrForeign) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			r := journal.Mend(c, "boot-1", made)
			if _, err := r.Write(path, now); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			runs++
			after := map[vf.ID]journal.Record{}
			lost := false
			for _, rec := range r.Records {
				after[rec.ID] = rec
				lost = lost || rec.Phase == vf.PhaseDamaged
			}
			for _, old := range before.Records {
				got := after[old.ID]
				if old.Held() && got.Phase != vf.PhaseDamaged && got.Lease.Owner != old.Lease.Owner {
					t.Errorf("seed %d: VF %s is of %v, and was of %v", seed, old.ID, got.Lease.Owner, old.Lease.Owner)
				}
			}
			held := map[netip.Addr]bool{}
			for _, a := range r.Addresses {
				held[a.Addr] = true
			}
			for _, a := range before.Addresses {
				switch {
				case held[a.Addr]:
				case lost:
					lostAddresses++ // nothing of it is left, and its VF is lost: addresses wait for that (Partial)
				default:
					t.Errorf("seed %d: address %s is given back", seed, a.Addr)
				}
			}
			if t.Failed() {
				t.Fatal(fmt.Sprint(r.Did))
			}
		}
	}
	t.Logf("%d files, %d addresses whose VF is lost", runs, lostAddresses)
}

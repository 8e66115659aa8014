package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal"
)

const mib = 1 << 20

// bloat frees most of a ledger's file, as when pods with networks of size bytes have ended.
func bloat(t *testing.T, path string, size int) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "bloat-%04d", i) }
	const piece = mib
	for i := range size / piece {
		err = errors.Join(err, db.Update(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("sandboxes")).Put(key(i), make([]byte, piece))
		}))
	}
	for range 2 { // pages that one transaction frees are free in the file after the next
		err = errors.Join(err, db.Update(func(tx *bolt.Tx) error {
			var errs []error
			for i := range size / piece {
				errs = append(errs, tx.Bucket([]byte("sandboxes")).Delete(key(i)))
			}
			return errors.Join(errs...)
		}))
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// bloated writes a ledger with 40 VFs, of which size bytes are free.
func bloated(t *testing.T, size int) (path string, before journal.Content) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, image(t, 40), 0o600); err != nil {
		t.Fatal(err)
	}
	bloat(t, path, size)
	before, err := journal.Inspect(path)
	if err != nil || len(before.Problems()) > 0 || fileSize(t, path) < int64(size) {
		t.Fatalf("%v, %v, %d bytes", err, before.Problems(), fileSize(t, path))
	}
	return path, before
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// sameContent fails the test unless a ledger has its earlier content, beside new events.
func sameContent(t *testing.T, path string, before journal.Content) (now journal.Content) {
	t.Helper()
	now, err := journal.Inspect(path)
	if err != nil || len(now.Problems()) > 0 {
		t.Fatalf("%v, %v", err, now.Problems())
	}
	if diff := cmp.Diff(before.Records, now.Records, addrs) + cmp.Diff(before.Addresses, now.Addresses, addrs) + cmp.Diff(before.Last, now.Last, addrs) + cmp.Diff(before.Boot, now.Boot); diff != "" {
		t.Fatal(diff)
	}
	if len(now.Events) < len(before.Events) {
		t.Fatalf("%d events, %d before", len(now.Events), len(before.Events))
	}
	return now
}

// I6: culvertd compacts a file that is mostly free when it starts, and keeps its content. It
// replaces the unfinished copy of a culvertd that was killed. It leaves a file with little
// free space as it is.
func TestI6BloatedLedgerIsCompacted(t *testing.T) {
	path, before := bloated(t, 300*mib)
	if err := os.WriteFile(path+".compacted", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := journal.Open(path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(path, journal.Options{}); !errors.Is(err, journal.ErrBusy) {
		t.Errorf("another culvertd opens it as well: %v", err)
	}
	if err := errors.Join(l.Update(func(tx *journal.Tx) error { return tx.SetBoot(before.Boot) }), l.Close()); err != nil {
		t.Fatal(err)
	}
	now := sameContent(t, path, before)
	if size := fileSize(t, path); size > mib {
		t.Errorf("it has %d bytes yet", size)
	}
	if last := now.Events[len(now.Events)-1]; last.Reason != "LedgerCompacted" || !strings.Contains(last.Text, " were free, and has ") {
		t.Errorf("the last event is %+v", last)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}

	small, _ := bloated(t, 8*mib)
	size := fileSize(t, small)
	l, err = journal.Open(small, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil || fileSize(t, small) != size {
		t.Errorf("%v, %d bytes, %d before", err, fileSize(t, small), size)
	}
}

// I6: if there is no room for the new file, culvertd works with the large one, and records an
// event.
func TestI6BloatedLedgerOnAFullDisk(t *testing.T) {
	path, before := bloated(t, 24*mib)
	dir := mountDisk(t, 40*mib)
	moved := filepath.Join(dir, "ledger.db")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(moved, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	fillDisk(t, dir, 3)
	l, err := journal.Open(moved, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	now := sameContent(t, moved, before)
	if last := now.Events[len(now.Events)-1]; last.Reason != "LedgerNotCompacted" || fileSize(t, moved) < 24*mib {
		t.Errorf("%d bytes, the last event is %+v", fileSize(t, moved), last)
	}
	if left, _ := filepath.Glob(moved + ".*"); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

// I6: a culvertd that is killed at any moment of the compaction leaves either the old file or the
// new one.
func TestI6KilledWhileCompacting(t *testing.T) {
	path, before := bloated(t, 24*mib)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	compacted, delay := 0, 10*time.Millisecond
	for range 40 {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), measureEnv+"="+path, measuredEnv+"=open")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		killed.Stop()
		sameContent(t, path, before)
		// The kills close in on the end of the work, however long the machine needs for it.
		if fileSize(t, path) < mib {
			compacted++
			delay = delay * 3 / 4
		} else {
			delay = delay * 3 / 2
		}
	}
	if compacted == 40 || compacted == 0 {
		t.Errorf("%d of 40 were compacted: no kill came before, or after", compacted)
	}
	t.Logf("%d of 40 were compacted before the kill", compacted)
}

const measureEnv, measuredEnv = "CULVERT_TEST_LEDGER_MEASURE", "CULVERT_TEST_LEDGER_MEASURED"

// measure opens, inspects or repairs a ledger and returns how much memory the process had
// at most, in KiB. For a repair it counts Go's memory only: bbolt maps the new file, and the kernel
// reclaims the pages of a mapped file when it needs them.
func measure(path, what string) string {
	var err error
	switch what {
	case "open":
		var l *journal.Ledger
		if l, err = journal.Open(path, journal.Options{NoSync: true}); err == nil {
			err = l.Close()
		}
	case "inspect":
		_, err = journal.Inspect(path)
	case "repair":
		var c journal.Content
		if c, err = journal.Inspect(path); err == nil {
			_, err = journal.Mend(c, "boot-1", nil).Write(path, now)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if err == nil {
			return fmt.Sprint(m.Sys >> 10)
		}
	}
	if err != nil {
		return err.Error()
	}
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err.Error()
	}
	_, rest, _ := bytes.Cut(raw, []byte("VmHWM:"))
	return strings.Fields(string(rest))[0]
}

// fullLedger is a copy of a ledger with n sandboxes of size bytes.
func fullLedger(t *testing.T, from string, n, size int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := journal.Open(path, journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Appendf(nil, `{"type":"bridge","x":%q}`, strings.Repeat("x", size))
	var all []journal.Sandbox
	for i := range n {
		all = append(all, journal.Sandbox{
			ID: fmt.Sprintf("c%04d", i), Namespace: "d", Pod: fmt.Sprint("p", i), Phase: journal.SandboxAdding,
			Networks: []journal.SandboxNetwork{{Name: "d/n", Interface: "eth0", Default: true, Plugins: []netconf.Plugin{{Type: "bridge", Raw: config}}}},
		})
	}
	for some := range slices.Chunk(all, 50) {
		err = errors.Join(err, l.StoreSandboxes(some))
	}
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// spoil overwrites one of the two first pages of a ledger.
func spoil(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("spoilt"), 40)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Open never refuses a sound ledger for its size. Open, check and repair need no more memory for a
// large ledger: full of sandboxes, with a record of a culvertd without bounds, or mostly free.
func TestMemoryOfLargeLedgers(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory of its own, and minutes for such files")
	}
	size := 300 // MiB; what may be needed is 64 MiB
	if testing.Short() {
		size = 128
	}
	peak := func(path, what string) int {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), measureEnv+"="+path, measuredEnv+"="+what)
		out, err := cmd.Output()
		kib, parseErr := strconv.Atoi(strings.TrimSpace(string(out)))
		if err := errors.Join(err, parseErr); err != nil {
			t.Fatalf("%s: %v: %s", what, err, out)
		}
		return kib >> 10
	}
	small := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(small, image(t, 40), 0o600); err != nil {
		t.Fatal(err)
	}
	least := peak(small, "open")
	check := func(path string, steps ...string) {
		t.Helper()
		size := fileSize(t, path) / mib
		for _, step := range steps {
			have := peak(path, step)
			t.Logf("%s of %d MiB: %d MiB resident at most, %d with a small one", step, size, have, least)
			if have > least+64 { // on a busy machine the collector is late
				t.Errorf("%s of %d MiB needs %d MiB, of a small one %d", step, size, have, least)
			}
		}
	}
	free, _ := bloated(t, size*mib)
	check(free, "inspect", "open")
	full := fullLedger(t, small, 1000, size<<10)
	check(full, "inspect", "open")
	spoil(t, full)
	check(full, "inspect", "repair")
	check(fullLedger(t, small, 2, 100*mib), "inspect", "open", "repair")
}

// A reader that waited for the lock while culvertd replaced the file has the lock of a file that is
// gone. culvertd writes the new file: a reader of it would see half a change, and a repair would
// replace the ledger of a running culvertd.
func TestInspectWhileTheFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	fresh := path + ".compacted"
	if err := errors.Join(os.WriteFile(path, image(t, 1), 0o600), os.WriteFile(fresh, image(t, 1), 0o600)); err != nil {
		t.Fatal(err)
	}
	old, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	now, err := bolt.Open(fresh, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer now.Close()
	replaced := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() { replaced <- errors.Join(os.Rename(fresh, path), old.Close()) })
	_, err = journal.Inspect(path)
	if !errors.Is(err, journal.ErrBusy) {
		t.Errorf("it was read: %v", err)
	}
	if err := <-replaced; err != nil {
		t.Error(err)
	}
}

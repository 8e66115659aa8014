package journal_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

const writerEnv = "CULVERT_TEST_LEDGER_WRITER"

// TestMain is also the process that TestI6KilledWriter kills, or the one whose memory
// TestMemoryOfLargeLedgers measures, if the environment variables of these tests are set.
func TestMain(m *testing.M) {
	if path := os.Getenv(measureEnv); path != "" {
		fmt.Println(measure(path, os.Getenv(measuredEnv)))
		os.Exit(0)
	}
	if path := os.Getenv(writerEnv); path != "" {
		fmt.Fprintln(os.Stderr, write(path, os.Stdout))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// write commits for ever, and prints the number of each commit when it is durable. A kill ends the
// process and not the machine, so fsync plays no role.
func write(path string, acknowledge io.Writer) error {
	l, err := journal.Open(path, journal.Options{NoSync: true})
	if err != nil {
		return err
	}
	for {
		var n uint64
		err := l.Update(func(tx *journal.Tx) error {
			r, err := tx.Record(id(0))
			if err != nil && !errors.Is(err, vf.ErrNotFound) {
				return err
			}
			n = r.Generation + 1
			errs := []error{tx.Event(journal.Event{Reason: "Written", Object: strconv.FormatUint(n, 10), Text: strings.Repeat("x", int(n*37%900))})}
			for i := range 8 { // all or none of them
				errs = append(errs, tx.Put(journal.Record{ID: id(i), Generation: n, Phase: vf.PhaseMaking, Reason: strings.Repeat("y", int(n*uint64(i)%300))}))
			}
			return errors.Join(errs...)
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(acknowledge, n); err != nil {
			return err
		}
	}
}

// I6: every acknowledged write is there after kill -9 at any moment, whole, and the
// next process can go on.
func TestI6KilledWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	kills, commits := 100, uint64(0)
	for range kills {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var complaint strings.Builder
		cmd.Stderr = &complaint
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		acknowledged := commits
		for range 1 + rand.IntN(4) {
			if !lines.Scan() {
				t.Fatalf("the writer ended by itself: %s", complaint.String())
			}
			acknowledged, _ = strconv.ParseUint(lines.Text(), 10, 64)
		}
		// The writer is now somewhere in its next commit.
		timer := time.NewTimer(time.Duration(rand.IntN(1500)) * time.Microsecond)
		<-timer.C
		_ = cmd.Process.Kill()
		for lines.Scan() { // the commits that it acknowledged before it died count, too
			if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
				acknowledged = n
			}
		}
		_ = cmd.Wait()
		c, err := journal.Inspect(path)
		if err != nil || len(c.Faults) > 0 || len(c.Records) != 8 {
			t.Fatalf("after a kill: %v %v, %d records", err, c.Faults, len(c.Records))
		}
		for _, r := range c.Records {
			if r.Generation != c.Records[0].Generation || r.Generation < acknowledged || r.Generation > acknowledged+1 {
				t.Fatalf("acknowledged %d; VF %s has %d, VF %s has %d", acknowledged, r.ID, r.Generation, c.Records[0].ID, c.Records[0].Generation)
			}
		}
		commits = c.Records[0].Generation
		checkEventsOfCommits(t, c.Events, commits)
	}
	t.Logf("%d kills, %d commits", kills, commits)
}

// checkEventsOfCommits checks that each commit has its one event, as it has its records.
func checkEventsOfCommits(t *testing.T, events []journal.Event, commits uint64) {
	t.Helper()
	kept := min(commits, journal.DefaultEvents)
	if uint64(len(events)) != kept {
		t.Fatalf("%d commits, %d events", commits, len(events))
	}
	for i, e := range events {
		want := commits - kept + uint64(i) + 1
		if e.Seq != want || e.Object != strconv.FormatUint(want, 10) {
			t.Fatalf("event %d of commit %s, want %d", e.Seq, e.Object, want)
		}
	}
}

// The file does not grow with the number of attachments. After thousands of them, it is as large as
// after the first thousand (measured: 512 KiB after 1,000 and after 10,000).
func TestGrowthIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := journal.Open(path, journal.Options{NoSync: true, KeepEvents: journal.LeastEvents})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	cycles, early := 2000, int64(0)
	switch {
	case os.Getenv("CULVERT_DAMAGE_FOR") != "": // a long run by hand
		cycles = 10000
	case testing.Short(): // the race detector makes each one slow
		cycles = 1000
	}
	for n := range cycles {
		r, a := attachment(n)
		for _, phase := range []vf.Phase{vf.PhaseConfiguring, vf.PhaseAttached, vf.PhaseReleasing, vf.PhaseFree} {
			err := l.Update(func(tx *journal.Tx) error {
				r.Phase = phase
				errs := []error{}
				switch phase {
				case vf.PhaseConfiguring:
					errs = append(errs, tx.HoldAddress(a))
				case vf.PhaseAttached:
					errs = append(errs, tx.Event(journal.Event{Reason: "Attached", Text: r.Lease.Owner.String()}))
				case vf.PhaseFree:
					r.Lease = journal.Lease{}
					errs = append(errs, tx.FreeAddresses(r.ID), tx.Event(journal.Event{Reason: "Detached", Text: a.Owner.String()}))
				}
				return errors.Join(append(errs, tx.Put(r))...)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if n == cycles/2 {
			early = size()
		}
	}
	if now := size(); now > 2*early || now > 2<<20 {
		t.Errorf("%d bytes after %d attachments, %d after %d", early, cycles/2, now, cycles)
	}
	t.Logf("%d KiB after %d attachments, %d KiB after %d", early>>10, cycles/2, size()>>10, cycles)
}

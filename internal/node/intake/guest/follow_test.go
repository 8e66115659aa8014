package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest/libvirt"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// libvirtFake is a libvirt in memory.
type libvirtFake struct {
	up     atomic.Bool
	refuse atomic.Bool
	hangs  atomic.Bool
	events chan libvirt.Event // of the connection there is
}

func (l *libvirtFake) dial(context.Context) (guestLister, error) {
	if l.refuse.Load() {
		return nil, errors.New("permission denied")
	}
	return l, nil
}

func (l *libvirtFake) Guests(ctx context.Context) ([]libvirt.Guest, error) {
	if l.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []libvirt.Guest{
		{UUID: uuidOf(1), Name: "web", State: libvirt.Running, Persistent: true},
		{UUID: uuidOf(2), Name: "db", State: libvirt.Off, Persistent: true},
		{UUID: uuidOf(3), Name: "passing", State: libvirt.Paused},
		{UUID: uuidOf(4), Name: "gone", State: libvirt.Off, Persistent: true},
		{UUID: uuidOf(5), Name: "odd", State: libvirt.Off, Persistent: true},
	}, nil
}

func (l *libvirtFake) XML(_ context.Context, guest string, which libvirt.Which) (string, error) {
	name := map[string]string{uuidOf(1): "web", uuidOf(2): "db", uuidOf(3): "passing", uuidOf(5): "odd"}[guest]
	switch name {
	case "":
		return "", fmt.Errorf("guest %s: %w", guest, vf.ErrNotFound)
	case "odd":
		return "<domain/>", nil
	}
	device := 1
	if which == libvirt.Live {
		device = 2
	}
	return fmt.Sprintf(`<domain><name>%s</name><uuid>%s</uuid><devices><hostdev mode='subsystem' type='pci'><source>
		<address domain='0' bus='1' slot='0x10' function='%d'/></source></hostdev></devices></domain>`, name, guest, device), nil
}

func (l *libvirtFake) Events(context.Context) (<-chan libvirt.Event, error) {
	l.events = make(chan libvirt.Event)
	return l.events, nil
}

func (l *libvirtFake) Close() error { return nil }

func uuidOf(n int) string {
	return strings.ReplaceAll("nnnnnnnn-f6a4-8304-79aa-97f2502e193f", "n", fmt.Sprint(n))
}

// following returns a Follower of a libvirt in memory, and a channel with the lists of guests that
// it compares. One guest has a VF.
func following(t *testing.T, l *libvirtFake, problems func() []api.Problem) (*Follower, <-chan []Seen) {
	t.Helper()
	ledger, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = ledger.Update(func(tx *journal.Tx) error {
		return tx.Put(journal.Record{ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Index: 0}, Generation: 1, Phase: vf.PhaseAttached,
			Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: uuidOf(1), Name: "web", Interface: "net1"}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	looks := make(chan []Seen)
	f := &Follower{
		runs: l.up.Load, dial: l.dial, ledger: ledger, log: slog.New(slog.DiscardHandler),
		pace: pace{retry: time.Millisecond, settle: time.Millisecond, repeat: time.Hour, answer: 100 * time.Millisecond},
		compare: func(ctx context.Context, list func(context.Context) ([]Seen, error)) ([]api.Problem, error) {
			all, err := list(ctx)
			if err != nil {
				return nil, err
			}
			select {
			case looks <- all:
			case <-ctx.Done():
			}
			return problems(), nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = ledger.Close()
	})
	return f, looks
}

// says waits until the follower's problems are these words, or none.
func says(t *testing.T, f *Follower, words string) {
	t.Helper()
	var got string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		got = ""
		for _, p := range f.Problems() {
			got += p.Object + ": " + p.Reason
		}
		if words == "" && got == "" || words != "" && strings.Contains(got, words) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("the problems are %q, want %q", got, words)
}

// P11: culvertd does not need libvirt, connects whenever libvirt starts, and compares after each
// event.
func TestP11LibvirtComesAndGoes(t *testing.T) {
	l := &libvirtFake{}
	var wrong atomic.Bool
	f, looks := following(t, l, func() []api.Problem {
		if wrong.Load() {
			return []api.Problem{{Object: "guest web", Reason: "it runs with the VF of a pod"}}
		}
		return nil
	})
	says(t, f, "libvirt: it does not run")
	l.refuse.Store(true)
	l.up.Store(true)
	says(t, f, "libvirt: permission denied")
	l.refuse.Store(false)

	type seen struct {
		Name       string
		Running    bool
		Live, Next string
		Unread     bool
	}
	var got []seen
	for _, g := range <-looks {
		s := seen{Name: g.Name, Running: g.Running, Unread: g.Unread}
		for _, u := range g.Live.Uses {
			s.Live = u.PCI.String()
		}
		for _, u := range g.Next.Uses {
			s.Next = u.PCI.String()
		}
		got = append(got, s)
	}
	want := []seen{
		{Name: "web", Running: true, Live: "0000:01:10.2", Next: "0000:01:10.1"},
		{Name: "db", Next: "0000:01:10.1"},
		{Name: "passing", Running: true, Live: "0000:01:10.2"},
		{Name: "odd", Unread: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	says(t, f, "")

	wrong.Store(true)
	l.events <- libvirt.Event{Change: libvirt.Started}
	<-looks
	says(t, f, "guest web: it runs with the VF of a pod")
	wrong.Store(false)
	l.events <- libvirt.Event{Change: libvirt.Stopped}
	<-looks
	says(t, f, "")
	var told []string
	if err := f.ledger.View(func(tx *journal.Tx) error {
		events := tx.Events(0)
		for _, e := range events {
			told = append(told, e.Type+" "+e.Reason)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Warning GuestContradicts", "Normal GuestInOrder"}, told); diff != "" {
		t.Errorf("events: -want +got:\n%s", diff)
	}

	l.up.Store(false)
	close(l.events)
	says(t, f, "libvirt: it does not run")
	l.up.Store(true)
	<-looks
	says(t, f, "")
}

// If no guest has a VF, it is no problem that libvirt does not run.
func TestLibvirtIsNotMissedWithoutGuests(t *testing.T) {
	l := &libvirtFake{}
	f, _ := following(t, l, func() []api.Problem { return nil })
	says(t, f, "libvirt: it does not run")
	if err := f.ledger.Update(func(tx *journal.Tx) error {
		return tx.Put(journal.Record{ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Index: 0}, Generation: 1, Phase: vf.PhaseMaking})
	}); err != nil {
		t.Fatal(err)
	}
	says(t, f, "")
}

// A libvirt that never answers blocks the Follower only for the bound of an answer, and is then a
// problem.
func TestP11LibvirtHangs(t *testing.T) {
	l := &libvirtFake{}
	f, looks := following(t, l, func() []api.Problem { return nil })
	l.hangs.Store(true)
	l.up.Store(true)
	says(t, f, context.DeadlineExceeded.Error())
	l.hangs.Store(false)
	<-looks
	says(t, f, "")
}

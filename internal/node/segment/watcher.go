package segment

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// Period is the time between two frames of a PF.
const Period = 5 * time.Second

// mostFrames is the number of frames of a PF that the Watcher uses in a round: twice those of
// mostStations, since a round may be late. The port drops the rest, which bounds the cost of a
// flood. The queue of kernel/beacon holds as many.
const mostFrames = 2 * mostStations

// Port is an open socket on a PF.
type Port interface {
	// Send sends a payload to all stations of the segment.
	Send(payload []byte) error
	// Receive returns the payloads of at most n frames that arrived since the last call, and drops
	// the rest. more is true if it dropped any.
	Receive(n int) (payloads [][]byte, more bool, err error)
	Close() error
}

// Config has the parts of a Watcher.
type Config struct {
	Node NodeID
	// Open opens a socket on the netdevice of a PF.
	Open func(name string) (Port, error)
	PFs  func() []vf.PF
	Spec func() desired.Spec
	// The Watcher calls Changed when the problems have changed.
	Changed func()
	Log     *slog.Logger
}

// Watcher sends and listens on the PFs of a host.
type Watcher struct {
	Config
	table *Table
	ports map[string]Port // by the netdevice's name
	mute  map[string]bool // netdevices whose last error is in the log

	mu    sync.Mutex // guards shown
	shown []api.Problem
}

// New returns a Watcher, which opens no socket until Run.
func New(c Config) *Watcher {
	return &Watcher{Config: c, table: NewTable(c.Node), ports: map[string]Port{}, mute: map[string]bool{}}
}

// Run sends and listens at each tick until ctx ends.
func (w *Watcher) Run(ctx context.Context, ticks <-chan time.Time) {
	defer w.closePorts(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			w.turn()
		}
	}
}

// turn runs one round: on each PF it reads the frames since the last round, and sends one. Then it
// judges the pairs of PFs.
func (w *Watcher) turn() {
	spec, pfs := w.Spec(), w.PFs()
	var ears []Reception
	names := map[string]bool{}
	for _, pf := range pfs {
		if pf.Name == "" || pf.Err != "" || !pf.Up || !pf.Carrier || !takesPart(spec, pf) {
			continue
		}
		names[pf.Name] = true
		if ear, err := w.visit(pf); err == nil {
			ears = append(ears, ear)
			delete(w.mute, pf.Name)
		} else {
			w.report(pf, err)
		}
	}
	w.closePorts(names)
	w.table.Add(ears, pfs)
	w.show(w.table.Problems(spec, pfs))
}

// visit reads the frames that a PF has received, and sends the PF's own frame.
func (w *Watcher) visit(pf vf.PF) (Reception, error) {
	port := w.ports[pf.Name]
	if port == nil {
		opened, err := w.Open(pf.Name)
		if err != nil {
			return Reception{}, err
		}
		port = opened
		w.ports[pf.Name] = port
	}
	payloads, more, err := port.Receive(mostFrames)
	if err == nil && sends(pf) {
		err = port.Send(Station{w.Node, pf.ID.MAC}.Encode())
	}
	if err != nil { // the netdevice has gone down, or another one has its name
		_ = port.Close()
		delete(w.ports, pf.Name)
		return Reception{}, err
	}
	ear := Reception{PF: pf, Flooded: more}
	for _, p := range payloads {
		if s, ok := parseFrame(p); ok {
			ear.Heard = append(ear.Heard, s)
		}
	}
	return ear, nil
}

// sends reports whether culvertd sends frames on a PF. On a member of a bond it only listens. All
// members have one MAC address, so after a frame from a member that is not active, the switch would
// send the bond's traffic to that member.
func sends(pf vf.PF) bool { return pf.Master == nil }

// report logs the first error of a PF, and then no further one until the PF works again.
func (w *Watcher) report(pf vf.PF, err error) {
	if !w.mute[pf.Name] {
		w.mute[pf.Name] = true
		w.Log.Warn("segment discovery does not work on a PF", "pf", pf.Label(), "err", err)
	}
}

// closePorts closes the sockets of netdevices that are not among names.
func (w *Watcher) closePorts(names map[string]bool) {
	for name, p := range w.ports {
		if !names[name] {
			_ = p.Close()
			delete(w.ports, name)
		}
	}
	for name := range w.mute {
		if !names[name] {
			delete(w.mute, name)
		}
	}
}

func (w *Watcher) show(now []api.Problem) {
	w.mu.Lock()
	for i := range now {
		now[i].Since = time.Now()
		for _, was := range w.shown {
			if was.Object == now[i].Object {
				now[i].Since = was.Since
			}
		}
	}
	same := slices.Equal(w.shown, now)
	w.shown = now
	w.mu.Unlock()
	if !same {
		w.Changed()
	}
}

// Problems returns a warning for each pool with PFs that do not hear each other.
func (w *Watcher) Problems() []api.Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.shown)
}

package page

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/node/status/flow"
)

// pace has the times of a feed.
type pace struct {
	tick     time.Duration // between two reads without a change
	rest     time.Duration // between two reads at least
	linger   time.Duration // from the last request until the source is no longer followed
	patience time.Duration // for one read
}

// feed reads the source while a page is open, once for all pages, and keeps the latest picture.
type feed struct {
	source  Source
	pace    pace
	wake    change.Wake
	changed change.Signal // the picture

	mu      sync.Mutex // guards the rest
	users   int        // streams, and requests of the last moments
	watched map[string]int
	now     *picture // immutable
	end     context.CancelFunc
	done    chan struct{} // closed when the reader has ended; nil before the first one
	closed  bool
}

func newFeed(source Source) *feed {
	return &feed{
		source: source, wake: change.NewWake(), watched: map[string]int{}, now: &picture{},
		pace: pace{tick: 2 * time.Second, rest: 200 * time.Millisecond, linger: 10 * time.Second, patience: 30 * time.Second},
	}
}

// beginUse begins to read the source, unless that goes on already. endUse is its opposite.
func (f *feed) beginUse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users++
	if f.end != nil || f.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	before, done := f.done, make(chan struct{})
	f.end, f.done, f.now = cancel, done, &picture{} // the last picture is old
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		f.readOften(ctx)
	}()
}

// endUse ends the reading a while later, unless another page follows by then.
func (f *feed) endUse() {
	time.AfterFunc(f.pace.linger, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.users--; f.users == 0 && f.end != nil {
			f.end()
			f.end = nil
		}
	})
}

// endReading ends the reading and waits for that.
func (f *feed) endReading() {
	f.mu.Lock()
	f.closed = true
	if f.end != nil {
		f.end()
	}
	done := f.done
	f.mu.Unlock()
	if done != nil {
		<-done
	}
}

// watchNode has the feed read a node whole until the caller calls unwatch.
func (f *feed) watchNode(node string) (unwatch func()) {
	if node == "" {
		return func() {}
	}
	add := func(n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.watched[node] += n; f.watched[node] == 0 {
			delete(f.watched, node)
		}
	}
	add(1)
	f.wake.Notify()
	return func() { add(-1) }
}

// latestPicture returns the latest picture, and a channel that is closed when there is another one.
func (f *feed) latestPicture() (*picture, <-chan struct{}) {
	next := f.changed.Next()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, next
}

func (f *feed) readOften(ctx context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.source.Follow(ctx, f.wake.Notify) })
	g.Go(func() error {
		tick := time.NewTicker(f.pace.tick)
		defer tick.Stop()
		for {
			f.readOnce(ctx)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(f.pace.rest):
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			case <-f.wake:
			}
		}
	})
	_ = g.Wait() // Follow's error is that of ctx; what cannot be read is part of the picture
}

// readOnce makes the next picture.
func (f *feed) readOnce(following context.Context) {
	ctx, cancel := context.WithTimeout(following, f.pace.patience)
	defer cancel()
	f.mu.Lock()
	before, watched := f.now, make([]string, 0, len(f.watched))
	for name := range f.watched {
		watched = append(watched, name)
	}
	f.mu.Unlock()
	next, err := readPicture(ctx, f.source, before, watched)
	if err != nil {
		failed := *before
		failed.failure, next = err.Error(), &failed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if following.Err() == nil { // else the next reader has begun a picture of its own
		f.now = next
		f.changed.Notify()
	}
}

// picture is what the pages show. It is not changed once it is made.
type picture struct {
	overview *Overview         // nil before the first read
	head     []byte            // the overview without its time and nodes
	rows     map[string][]byte // the nodes of the overview without their times
	nodes    map[string]nodePicture
	failure  string // why the source could not be read; the rest is older then
}

// nodePicture is a node that a page shows whole.
type nodePicture struct {
	status  api.NodeStatus
	text    []byte // without what differs at each read
	flows   []api.VFFlow
	from    api.NodeStatus // the status that the next flows begin with
	failure string
}

// readPicture reads the source. The rates of a node begin with the status in the picture before.
func readPicture(ctx context.Context, source Source, before *picture, watched []string) (*picture, error) {
	o, err := source.ReadOverview(ctx)
	if err != nil {
		return nil, err
	}
	p := &picture{overview: &o, rows: make(map[string][]byte, len(o.Nodes)), nodes: map[string]nodePicture{}}
	for _, row := range o.Nodes {
		row.Time = time.Time{}
		p.rows[row.Name] = encodeLine(row)
	}
	head := o
	head.Nodes, head.Time = nil, time.Time{}
	p.head = encodeLine(head)
	for _, name := range watched {
		p.nodes[name] = readNodePicture(ctx, source, before.nodes[name], name, o.HasRates)
	}
	return p, nil
}

// shortest is the shortest time that rates are an average of.
const shortest = time.Second

func readNodePicture(ctx context.Context, source Source, before nodePicture, name string, hasRates bool) nodePicture {
	status, err := readNode(ctx, source, name)
	if err != nil {
		before.failure = err.Error()
		return before
	}
	next := nodePicture{status: status, text: encodeLine(withoutTraffic(status)), flows: before.flows, from: before.from}
	switch {
	case !hasRates:
	case next.from.Time.IsZero():
		next.from = status
	case status.Time.Sub(next.from.Time) >= shortest:
		next.flows, next.from = flow.Between(next.from, status), status
	}
	return next
}

// withoutTraffic returns a node without its time and the counters of its VFs.
func withoutTraffic(n api.NodeStatus) api.NodeStatus {
	n.Time = time.Time{}
	n.VFs = append([]api.VF{}, n.VFs...)
	for i := range n.VFs {
		n.VFs[i].Traffic = nil
	}
	return n
}

// encodeLine returns JSON on one line, with its end. The page shows the reason if JSON lacks a value.
func encodeLine(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		text, _ = json.Marshal(failure{err.Error()})
	}
	return append(text, '\n')
}

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// churn attaches and detaches many pods at the same time, on all VFs.
type churn struct {
	t     *testing.T // receives each failure at once
	d     *daemon
	slots []*slot

	kills    atomic.Int64
	finished atomic.Int64                  // actions that slots have completed
	down     atomic.Pointer[chan struct{}] // nil while culvertd answers; closed when culvertd answers again

	// gate is held for reading by a slot during its step, and for writing by
	// the test while all slots must stand still.
	gate sync.RWMutex

	mu   sync.Mutex // guards done
	done map[string]int
}

// netSlots is one more than there are VFs in pool net, so that at times there
// is none left.
const (
	netSlots = 13
	vmSlots  = 2
)

// goesDown notes that culvertd does not answer from now on.
func (c *churn) goesDown() {
	if c.down.Load() == nil {
		c.down.Store(at(make(chan struct{})))
	}
}

// comesUp notes that culvertd answers again.
func (c *churn) comesUp() {
	if up := c.down.Swap(nil); up != nil {
		close(*up)
	}
}

func newChurn(t *testing.T, d *daemon, rng *rand.Rand) *churn {
	t.Helper()
	c := &churn{t: t, d: d, done: map[string]int{}}
	for n := range netSlots + vmSlots {
		id := fmt.Sprintf("torture%02d", n)
		s := &slot{
			churn: c, rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), state: gone,
			pod: pod{id: id, netns: "/run/netns/" + id}, kinds: netKinds(n),
		}
		if n >= netSlots {
			s.kinds = vmKinds()
		}
		c.slots = append(c.slots, s)
		t.Cleanup(func() {
			if err := netns.Delete(s.pod.netns); err != nil {
				t.Error(err)
			}
		})
	}
	return c
}

// run runs all slots until the context ends. The test opens and closes the gate
// meanwhile.
func (c *churn) run(ctx context.Context) error {
	var g errgroup.Group
	for _, s := range c.slots {
		g.Go(func() error {
			for ctx.Err() == nil {
				if err := c.step(ctx, s); err != nil {
					return err
				}
				if up := c.down.Load(); up != nil { // do not repeat calls that cannot succeed
					select {
					case <-*up:
					case <-ctx.Done():
					}
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (c *churn) step(ctx context.Context, s *slot) error {
	c.gate.RLock()
	defer c.gate.RUnlock()
	if ctx.Err() != nil {
		return nil
	}
	err := s.step(context.WithoutCancel(ctx))
	if err != nil {
		c.count("failed without a reason")
		c.t.Errorf("while culvertd lived: %v", err)
	}
	return err
}

// end detaches all slots, also those that are detached already and those whose
// DEL a kill cut off.
func (c *churn) end(ctx context.Context) error {
	var errs []error
	for _, s := range c.slots {
		errs = append(errs, s.del(ctx, 99))
	}
	return errors.Join(errs...)
}

func (c *churn) count(what string) {
	c.finished.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[what]++
}

// tally returns how often each action happened.
func (c *churn) tally() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(c.done)) {
		parts = append(parts, fmt.Sprintf("%d %s", c.done[what], what))
	}
	return strings.Join(parts, ", ")
}

// others returns a GC configuration in which the attachments of all slots but
// one are valid.
func (c *churn) others(but *slot) string {
	type attachment struct {
		ContainerID string `json:"containerID"`
		IfName      string `json:"ifname"`
	}
	valid := []attachment{}
	for _, s := range c.slots {
		if s != but {
			valid = append(valid, attachment{s.pod.id, iface})
		}
	}
	raw, err := json.Marshal(map[string]any{
		"cniVersion": "1.1.0", "name": but.network(), "type": "culvert", "cni.dev/valid-attachments": valid,
	})
	if err != nil {
		panic(err) // strings and maps of them always encode
	}
	return string(raw)
}

func (s *slot) network() string {
	if s.kinds[0].spec.Driver != "" {
		return "vm"
	}
	return "churn"
}

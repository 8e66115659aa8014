//go:build lab

package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// makeTrouble kills culvertds and the controller, and cuts nodes off, until ctx ends. Then
// all nodes are back.
func (s *simulation) makeTrouble(ctx context.Context, restartController func()) {
	r := rand.New(rand.NewPCG(*seed, 1<<32))
	pause := 5 * time.Second / time.Duration(*nodes) // each node has some every few seconds
	for i := 0; ctx.Err() == nil; i++ {
		all := s.all()
		m := all[r.IntN(len(all))]
		switch {
		case i == 20:
			restartController()
		case r.IntN(3) == 0:
			m.restart()
		default:
			m.setCutOff(r.IntN(2) == 0)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	for _, m := range s.all() {
		m.setCutOff(false)
	}
}

// deleteNodes deletes Node objects until ctx ends, some at a time, and two times at least. The
// machine of such a node runs on, as the administrator has not turned it off yet, and keeps its
// addresses until it is off. Every second time a node of another name replaces it, and joins before
// the machine is off. Otherwise another machine joins under the same name.
func (s *simulation) deleteNodes(ctx context.Context) {
	r := rand.New(rand.NewPCG(*seed, 1<<33))
	for i := 0; i < 2 || s.pause(ctx, 200*time.Millisecond); i++ {
		all := slices.Clone(s.all())
		dead := r.Perm(len(all))[:1+len(all)/100]
		var g errgroup.Group
		for _, k := range dead {
			g.Go(func() (err error) {
				all[k], err = s.replaceNode(all[k], i%2 == 0)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			s.t.Error(err)
			return
		}
		s.machines.Store(&all)
		s.deaths += len(dead)
		s.passGrace()
	}
}

// replaceNode deletes the Node object of a machine and makes another one with a new machine, which
// has another name if renamed is set.
func (s *simulation) replaceNode(dead *machine, renamed bool) (*machine, error) {
	defer dead.turnOff()
	if err := s.client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: dead.name}}); err != nil {
		return nil, err
	}
	if err := s.waitForAbsence(dead); err != nil {
		return nil, err
	}
	if !renamed {
		dead.turnOff()
		next, err := s.addNode(dead.name)
		if err == nil {
			next.start()
		}
		return next, err
	}
	next, err := s.addNode(fmt.Sprintf("%s-%s", s.network, dead.uid))
	if err != nil {
		return nil, err
	}
	next.start()
	return next, errors.Join(next.startFirstPod(), s.checkKeeps(dead))
}

// waitForAbsence waits until the controller has noted in the pool that the Node object of a machine
// is gone.
func (s *simulation) waitForAbsence(m *machine) error {
	isNoted := func() bool {
		for _, b := range s.blocksNow() {
			if b.UID == m.uid && b.GoneSince.IsZero() {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(5 * time.Minute); !isNoted(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the controller does not note that Node %s is gone", m.name)
		}
	}
	return nil
}

// checkKeeps checks that the addresses of a machine's pods are in blocks of that machine: the
// controller has granted blocks since it noted that the Node object is gone (I4).
func (s *simulation) checkKeeps(m *machine) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := s.blocksNow()
	for _, p := range m.pods {
		if !slices.ContainsFunc(all, func(b blocks.Block) bool { return b.UID == m.uid && b.Contains(p.addr) }) {
			err = errors.Join(err, fmt.Errorf("I4: %s has %s on %s, whose Node object was just deleted, and the pool has no such block any more", p.owner, p.addr, m.name))
		}
	}
	return err
}

// blocksNow returns the blocks of the simulation's pool.
func (s *simulation) blocksNow() (all []blocks.Block) {
	for _, o := range s.poolObjects() {
		p, err := s.readPool(o)
		if err != nil {
			s.t.Error(err)
		}
		all = append(all, p.Blocks...)
	}
	return all
}

// addNode makes a Node object with its machine, which is new.
func (s *simulation) addNode(name string) (*machine, error) {
	n := &corev1.Node{}
	n.Name = name
	if err := s.client.Create(context.Background(), n); err != nil {
		return nil, err
	}
	return s.newMachine(name, string(n.UID))
}

// pause waits, and reports whether ctx has not ended.
func (s *simulation) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// now is the controller's clock.
func (s *simulation) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// passGrace sets the controller's clock ahead, so that it takes back the blocks of nodes whose
// absence it has noted. Call it while no machine runs whose Node object is deleted.
func (s *simulation) passGrace() { s.ahead.Add(int64(blocks.Grace)) }

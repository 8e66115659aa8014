package socket

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/vf"
)

// Apply writes a table into the kernel's maps, and only the entries that differ. Programs see the
// old or the new rule of a Frontend, and a pod sees no Frontend of a view that it has left. Apply
// leaves out a pod whose network namespace is gone. After an error it goes on with the rest of the
// table: a Frontend whose new backends do not fit into the maps keeps its old ones. A later call of
// Apply does the work that an error left. Apply also attaches programs that were detached outside
// Culvert, and its error names them.
func (b *Balancer) Apply(t balance.Table) error {
	errs := []error{b.Sweep()} // room for the new sets
	views, err := b.podViews(t.Pods)
	pods, noRecords := b.assignSlots(t, views)
	wanted, sets := b.wantedRules(t)
	errs = append(errs, err, noRecords, b.writeSets(wanted, sets), b.writeRules(wanted), b.writePods(pods, err == nil), b.dropRules(wanted), b.disconnectStale(t.Pods))
	b.retire()
	errs = append(errs, b.Sweep())
	return errors.Join(append(errs, b.attach())...)
}

// podViews returns the views of pods by the cookies of their network namespaces.
func (b *Balancer) podViews(pods []balance.Pod) (map[uint64]balance.ViewID, error) {
	views, cookies := map[uint64]balance.ViewID{}, map[string]uint64{}
	var errs []error
	for _, p := range pods {
		value, known := b.cookies[p.ID]
		if !known {
			var err error
			value, err = cookieOf(p.Netns)
			if errors.Is(err, vf.ErrNetnsGone) {
				continue
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("pod sandbox %s: %w", p.ID, err))
				continue
			}
		}
		cookies[p.ID], views[value] = value, p.View
	}
	b.cookies = cookies
	return views, errors.Join(errs...)
}

// wanted is a rule of the Table with its value for the map of rules. The set of the value is 0
// until the set of backends is written.
type wanted struct {
	*balance.Rule
	value rule
}

// wantedRules returns the wanted rules by key. sets has the existing set of backends that can serve
// a rule; it has one entry for each rule that views share.
func (b *Balancer) wantedRules(t balance.Table) (map[key]wanted, map[*balance.Rule]uint32) {
	out, sets := map[key]wanted{}, map[*balance.Rule]uint32{}
	for id, view := range t.Views {
		for f, r := range view {
			k := newKey(uint64(id), f)
			out[k] = wanted{r, rule{count: uint32(len(r.Backends)), affinity: seconds(r.Affinity)}}
			if there := b.rules[k].set; there != 0 && fits(f, b.sets[there], r) {
				sets[r] = there
			}
		}
	}
	return out, sets
}

// fits reports whether an existing set can serve a rule.
func fits(f balance.Frontend, there, r *balance.Rule) bool {
	return there != nil && slices.Equal(there.Backends, r.Backends) && keepsChoices(f.Protocol, there) == keepsChoices(f.Protocol, r)
}

// keepsChoices reports whether the programs keep choices for a rule, so that its set needs entries
// in the map members, too.
func keepsChoices(p balance.Protocol, r *balance.Rule) bool {
	return p == balance.UDP || r.Affinity > 0
}

// writeSets writes the missing sets of backends, and puts their numbers into the values of the
// rules. Small sets come first. If one does not fit into the maps, neither do the others of its
// kind.
func (b *Balancer) writeSets(all map[key]wanted, sets map[*balance.Rule]uint32) error {
	var order []key
	for k, w := range all {
		if len(w.Backends) > 0 {
			order = append(order, k)
		}
	}
	slices.SortFunc(order, func(x, y key) int {
		return cmp.Or(cmp.Compare(len(all[x].Backends), len(all[y].Backends)), bytes.Compare(x[:], y[:]))
	})
	failed, left := map[bool]error{}, 0
	for _, k := range order {
		w := all[k]
		set, there := sets[w.Rule]
		if kind := keepsChoices(k.frontend().Protocol, w.Rule); !there && failed[kind] == nil {
			var err error
			if set, err = b.writeSet(k.frontend(), w.Rule); err != nil {
				failed[kind] = fmt.Errorf("backends of %s: %w", k.frontend(), err)
			} else {
				sets[w.Rule] = set
			}
		}
		if set == 0 {
			left++
			continue
		}
		w.value.set = set
		all[k] = w
	}
	if left == 0 {
		return nil
	}
	return fmt.Errorf("%d rules keep their old backends: %w", left, errors.Join(failed[false], failed[true]))
}

// writeSet writes a new set. If it fails, it frees the part that it has written.
func (b *Balancer) writeSet(f balance.Frontend, r *balance.Rule) (_ uint32, err error) {
	set := b.lastSet + 1
	for b.sets[set] != nil || set == 0 {
		set++
	}
	// The set is in b.sets from here on, so that retire and Sweep free the part that an error
	// leaves.
	b.lastSet, b.sets[set] = set, &balance.Rule{Backends: r.Backends, Affinity: r.Affinity}
	for i, at := range r.Backends {
		err := b.tables.backends.Put(slotKey(set, uint32(i)), backendBytes(at))
		if err == nil && keepsChoices(f.Protocol, r) {
			err = b.tables.members.Put(memberKey(set, at), make([]byte, 4))
		}
		if err != nil {
			// No rule names the set, so no program reads it.
			return 0, errors.Join(fmt.Errorf("write an eBPF map: %w", err), b.freeSet(set, i+1))
		}
	}
	return set, nil
}

// freeSet deletes a set. written is how many of its backends may be in the maps. freeSet goes from
// the last to the first, so that the next culvertd can read a part that is left.
func (b *Balancer) freeSet(set uint32, written int) error {
	for i, at := range slices.Backward(b.sets[set].Backends[:written]) {
		if err := errors.Join(forget(b.tables.members, memberKey(set, at)), forget(b.tables.backends, slotKey(set, uint32(i)))); err != nil {
			return err
		}
	}
	delete(b.sets, set)
	return nil
}

// writeRules writes the rules that differ, except those whose set could not be written.
func (b *Balancer) writeRules(all map[key]wanted) error {
	var failed error
	for k, w := range all {
		if there, ok := b.rules[k]; ok && there == w.value || len(w.Backends) > 0 && w.value.set == 0 {
			continue
		}
		if err := b.tables.rules.Put(k[:], w.value.bytes()); err != nil {
			failed = cmp.Or(failed, fmt.Errorf("write the rule of %s: %w", k.frontend(), err))
			continue
		}
		b.noteStale(k)
		b.rules[k] = w.value
	}
	return failed
}

// noteStale notes the view of a UDP rule that changes or is removed: its pods may have sockets that
// are connected to a removed backend.
func (b *Balancer) noteStale(k key) {
	if k.frontend().Protocol == balance.UDP {
		b.stale[balance.ViewID(k.id())] = true
	}
}

// writePods writes the views and slots of pods. If all is set, pods has every pod, and writePods
// deletes all others.
func (b *Balancer) writePods(pods map[uint64]pod, all bool) error {
	for value, p := range pods {
		if there, ok := b.pods[value]; ok && there == p {
			continue
		}
		if err := b.tables.pods.Put(value, p.bytes()); err != nil {
			return fmt.Errorf("write the view of a pod: %w", err)
		}
		b.pods[value] = p
	}
	for value := range b.pods {
		if _, ok := pods[value]; ok || !all {
			continue
		}
		if err := forget(b.tables.pods, value); err != nil {
			return err
		}
		delete(b.pods, value)
	}
	return nil
}

func (b *Balancer) dropRules(all map[key]wanted) error {
	for k := range b.rules {
		if _, ok := all[k]; ok {
			continue
		}
		if err := forget(b.tables.rules, k[:]); err != nil {
			return err
		}
		b.noteStale(k)
		delete(b.rules, k)
	}
	return nil
}

// forget deletes an entry that may be gone.
func forget(m *ebpf.Map, k any) error {
	if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete from an eBPF map: %w", err)
	}
	return nil
}

// retire notes the sets that no rule names any more, so that Sweep frees them later.
func (b *Balancer) retire() {
	used := map[uint32]bool{}
	for _, r := range b.rules {
		used[r.set] = true
	}
	for _, r := range b.retired {
		used[r.set] = true
	}
	for set := range b.sets {
		if !used[set] {
			b.retired = append(b.retired, retiredSet{set, b.now()})
		}
	}
}

// Sweep frees the sets of backends that were replaced at least a second ago. Pending reports
// whether there are others.
func (b *Balancer) Sweep() error {
	for len(b.retired) > 0 && b.now().Sub(b.retired[0].when) >= b.interval {
		set := b.retired[0].set
		if err := b.freeSet(set, len(b.sets[set].Backends)); err != nil {
			return err
		}
		b.retired = b.retired[1:]
	}
	return nil
}

// Pending reports whether Sweep has something left to free, or Apply UDP sockets to end.
func (b *Balancer) Pending() bool { return len(b.retired) > 0 || len(b.stale) > 0 }

// read reads the entries that an earlier culvertd left in the maps.
func (b *Balancer) read() error {
	err := each(b.tables.pods, func(k, v []byte) error {
		b.pods[native.Uint64(k)] = readPod(v)
		return nil
	})
	err = errors.Join(err, each(b.tables.rules, func(k, v []byte) error {
		b.rules[key(k)] = readRule(v)
		b.noteStale(key(k)) // culvertd may have ended after the change
		return nil
	}))
	slots := map[uint32]map[uint32]netip.AddrPort{}
	err = errors.Join(err, b.readSlots(), each(b.tables.backends, func(k, v []byte) error {
		set, number := native.Uint32(k), native.Uint32(k[4:])
		if slots[set] == nil {
			slots[set] = map[uint32]netip.AddrPort{}
		}
		slots[set][number] = readAddrPort(v)
		return nil
	}))
	if err != nil {
		return err
	}
	for set, numbered := range slots {
		r := &balance.Rule{}
		for _, number := range slices.Sorted(maps.Keys(numbered)) {
			r.Backends = append(r.Backends, numbered[number])
		}
		b.sets[set], b.lastSet = r, max(b.lastSet, set)
	}
	return b.readMembers()
}

// readMembers marks the sets that have all their members, so that Apply does not use a set that an
// earlier culvertd wrote only in part.
func (b *Balancer) readMembers() error {
	count := map[uint32]int{}
	err := each(b.tables.members, func(k, _ []byte) error {
		count[native.Uint32(k)]++
		return nil
	})
	for set, r := range b.sets {
		if n := count[set]; n > 0 && n == len(r.Backends) {
			r.Affinity = grace // any value marks a set with members
		}
	}
	return err
}

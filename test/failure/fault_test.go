package failure

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// fault is a way in which a step can go wrong. Its hook is called at each moment
// of a step that is to fail.
type fault struct {
	name string
	hook func(*world, faulty.Moment, step.Step) error
}

// faults returns all ways in which a kernel can fail a step. The step returns an
// error before or after its effect, or it reports success without the effect or
// with another one. Or it hangs past its bound, and its effect comes late or
// never.
func faults() []fault {
	var all []fault
	for _, errno := range []syscall.Errno{syscall.EBUSY, syscall.ENODEV, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EOPNOTSUPP} {
		for _, when := range []faulty.Moment{faulty.Before, faulty.After} {
			all = append(all, fault{fmt.Sprintf("%s %s", errno.Error(), when), func(_ *world, m faulty.Moment, _ step.Step) error {
				if m == when {
					return errno
				}
				return nil
			}})
		}
	}
	return append(all,
		fault{"success without effect", func(_ *world, m faulty.Moment, s step.Step) error {
			if _, isReadBack := s.(step.SetNumVFs); m == faulty.Before && !isReadBack { // package kernel reads this step back
				return faulty.ErrIgnored
			}
			return nil
		}},
		fault{"success with another effect", func(w *world, m faulty.Moment, s step.Step) error {
			if m == faulty.After {
				w.twist(s)
			}
			return nil
		}},
		fault{"a hang past its bound, and no effect", func(_ *world, m faulty.Moment, _ step.Step) error {
			if m == faulty.Before {
				return fmt.Errorf("%w, and the call is still stuck in the kernel", vf.ErrTimeout)
			}
			return nil
		}},
		fault{"a hang past its bound, and a late effect", func(_ *world, m faulty.Moment, _ step.Step) error {
			if m == faulty.Before {
				return faulty.ErrHangs
			}
			return nil
		}},
	)
}

// twist changes the effect of a step into another one.
func (w *world) twist(s step.Step) {
	admin := func(pf vf.PCIAddr, index int, change func(*vf.Admin)) {
		for _, v := range w.vfs() {
			if v.ID.Index == index && w.pfOf(v.ID) == pf {
				_ = w.k.Meddle(v.PCI, func(st *vf.State) { change(&st.Admin) })
			}
		}
	}
	switch s := s.(type) {
	case step.SetVFMAC:
		admin(s.PF, s.Index, func(a *vf.Admin) { a.MAC[5] ^= 1 })
	case step.SetVFVLAN:
		admin(s.PF, s.Index, func(a *vf.Admin) { a.VLAN.ID ^= 1 })
	case step.SetVFSwitch:
		admin(s.PF, s.Index, func(a *vf.Admin) { *a.Switch(s.Setting) = vf.TriOf(!s.On) })
	case step.SetVFRate:
		admin(s.PF, s.Index, func(a *vf.Admin) { a.MaxTxRate = s.Max + 50 })
	case step.SetMTU:
		_ = w.k.Meddle(s.VF, func(st *vf.State) { st.Link.MTU-- })
	case step.Move:
		_ = w.k.Meddle(s.VF, func(st *vf.State) { st.Link.Name += "x" })
	case step.SetUp:
		_ = w.k.Meddle(s.VF, func(st *vf.State) { st.Link.Up = !s.Up })
	case step.SetGuard:
		w.k.MeddleGuard(s.VF, s.Netns, func(g *vf.Guard) { g.Addresses = nil })
	case step.Bind:
		_ = w.k.Meddle(s.VF, func(st *vf.State) { st.Driver, st.Link = "", nil })
	}
}

// arm makes the nth step from now fail, and if again is set also each later step
// of the same kind. The returned function returns the step that failed, or nil.
func (w *world) arm(f fault, n int, again bool) (hit func() step.Step) {
	var (
		mu   sync.Mutex // guards the rest: steps of several VFs run side by side
		seen int
		what step.Step
	)
	w.fault.Fail(func(m faulty.Moment, s step.Step) error {
		mu.Lock()
		if m == faulty.Before {
			seen++
			if seen == n {
				what = s
			}
		}
		mine := what != nil && (seen == n && sameStep(s, what) || again && faulty.Kind(s) == faulty.Kind(what))
		mu.Unlock()
		if !mine {
			return nil
		}
		return f.hook(w, m, s)
	})
	return func() step.Step {
		mu.Lock()
		defer mu.Unlock()
		return what
	}
}

func sameStep(a, b step.Step) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// I1, I2, I3, I4, I6: every step of every kind of work fails in every way, once
// and for good. Free VFs are clean, and attachments are as culvertd answered.
// When the kernel works again, everything can be brought back to its first
// state.
func TestEveryStepFailsInEveryWay(t *testing.T) {
	for name, profile := range profiles() {
		for i, f := range faults() {
			if name != "igb" && i%4 > 1 {
				continue // one driver has them all, the others half of each kind
			}
			t.Run(name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				dir, total := fastDir(t), 0
				for _, s := range stories() {
					for _, again := range []bool{false, true} {
						for n := 1; ; n += stride(1) {
							w := made(t, profile, dir)
							if s.before != nil {
								s.before(w)
							}
							hit := w.arm(f, n, again)
							s.work(w)
							w.node.VFs.Wait()
							if hit() == nil {
								w.fault.Fail(nil)
								w.close()
								break
							}
							total++
							w.survives(fmt.Sprintf("%s, %s (again %t)", s.name, hit(), again))
						}
					}
				}
				t.Logf("%d failures", total)
			})
		}
	}
}

// survives checks the world after a failure, and again when the kernel works.
func (w *world) survives(what string) {
	w.t.Helper()
	w.sound()
	w.clean()
	w.fault.Fail(nil)
	if len(w.fault.Hung()) > 0 {
		w.rest()
		w.sound()
		_ = w.fault.EndHangs(context.Background()) // the late effects come only now
	}
	w.want(vfsPerPF)
	w.rest()
	w.rest() // mends the late effects
	w.settled()
	w.k.AddNetns(netnsOf("a"))
	w.asNew()
	if t, ok := w.t.(*testing.T); ok && t.Failed() {
		t.Fatalf("%s\n%s", what, w.describe())
	}
	w.close()
}

// The error of an attach that fails names the VF, its PF, the owner and the
// failed step, and has a next step.
func TestFailureIsExplained(t *testing.T) {
	for _, f := range faults() {
		if strings.HasPrefix(f.name, "success") {
			continue
		}
		for n := 1; ; n++ {
			w := made(t, profiles()["igb"], fastDir(t))
			hit := w.arm(f, n, true)
			err := w.add(podA)
			w.fault.Fail(nil)
			s := hit()
			w.close()
			if s == nil {
				break
			}
			if _, harmless := s.(step.Announce); harmless {
				continue
			}
			if err == nil {
				t.Errorf("%s at %s: the attach succeeded", f.name, s)
				continue
			}
			var answer api.CNIError
			if err := json.Unmarshal([]byte(err.Error()), &answer); err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"VF 0000:01:10.", "PF enp1s0", "container a", verb(s)} {
				if !strings.Contains(answer.Msg, part) {
					t.Errorf("%s at %s: %q does not say %q", f.name, s, answer.Msg, part)
				}
			}
			if answer.Details == "" {
				t.Errorf("%s at %s: %q comes without a next step", f.name, s, answer.Msg)
			}
		}
	}
}

// verb is how a step's text begins.
func verb(s step.Step) string { v, _, _ := strings.Cut(fmt.Sprint(s), " "); return v }

// I3, I7: the ledger's disk is full at every commit of every kind of work, for
// that commit and for the next three. culvertd reports no unfinished work as
// done, and finishes everything when there is room again.
func TestFullDiskAtEveryCommit(t *testing.T) {
	total := 0
	for _, s := range stories() {
		for n := 1; ; n++ {
			w := made(t, profiles()["igb"], fastDir(t))
			if s.before != nil {
				s.before(w)
			}
			w.disk.fill(n, 4)
			s.work(w)
			w.node.VFs.Wait()
			if !w.disk.wasFull() {
				w.close()
				break
			}
			total++
			w.survives(fmt.Sprintf("%s, disk full at commit %d", s.name, n))
		}
	}
	t.Logf("%d full disks", total)
}

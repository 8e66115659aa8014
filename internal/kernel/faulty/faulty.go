// Package faulty makes steps and readings fail on purpose, on any kernel: tests wrap the
// fake one, or Linux in the lab, and decide at each moment of each step.
package faulty

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// Moment is a point of a step at which the Kernel calls a Hook.
type Moment string

// A step fails Before it had any effect, or After it had all of it.
const (
	Before Moment = "before"
	After  Moment = "after"
)

// under is any kernel.
type under interface {
	reader
	users
	guards
	steps
	Watch(context.Context) (<-chan struct{}, error)
}

type steps interface {
	Do(context.Context, step.Step) error
	Hung() []step.Step
}

type guards interface {
	Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error)
}

type reader interface {
	PFs(context.Context) ([]vf.PF, error)
	VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error)
	Probe(ctx context.Context, pf vf.PCIAddr, index int) (vf.Abilities, error)
	VFTraffic(ctx context.Context, pf vf.PCIAddr) (map[int]vf.Traffic, error)
}

type users interface {
	Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error)
	Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error)
}

// ErrIgnored is for Hooks. If a Hook returns it before a step, the step does nothing and succeeds,
// as with some drivers.
var ErrIgnored = errors.New("ignored")

// ErrHangs is for Hooks. If a Hook returns it before a step, the step hangs: Do returns
// vf.ErrTimeout, and the step takes effect when the test calls EndHangs.
var ErrHangs = errors.New("hangs")

// Hook is called at each Moment of each step. The step fails with the error that it returns.
type Hook func(Moment, step.Step) error

// Kernel is a kernel whose steps and readings may fail.
type Kernel struct {
	under
	hook     atomic.Pointer[Hook]
	readHook atomic.Pointer[ReadHook]

	mu   sync.Mutex // guards hung
	hung []step.Step
}

// New wraps a kernel.
func New(k under) *Kernel { return &Kernel{under: k} }

// Fail makes every later step call h. If h is nil, no step fails.
func (k *Kernel) Fail(h Hook) {
	if h == nil {
		k.hook.Store(nil)
		return
	}
	k.hook.Store(&h)
}

// Do carries out the step, unless the Hook returns an error.
func (k *Kernel) Do(ctx context.Context, s step.Step) error {
	if err := k.askHook(Before, s); err != nil {
		if errors.Is(err, ErrIgnored) {
			return nil
		}
		if errors.Is(err, ErrHangs) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.hung = append(k.hung, s)
			return fmt.Errorf("%s: %w", s, vf.ErrTimeout)
		}
		return err
	}
	if err := k.under.Do(ctx, s); err != nil {
		return err
	}
	return k.askHook(After, s)
}

// Hung returns the steps that hang.
func (k *Kernel) Hung() []step.Step {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append(k.under.Hung(), k.hung...)
}

// EndHangs makes the hanging steps take effect, and returns their errors.
func (k *Kernel) EndHangs(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, s := range k.hung {
		errs = append(errs, k.under.Do(ctx, s))
	}
	k.hung = nil
	return errors.Join(errs...)
}

// DropHangs drops the hanging steps, so that they never take effect, as after a reboot.
func (k *Kernel) DropHangs() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hung = nil
}

func (k *Kernel) askHook(m Moment, s step.Step) error {
	h := k.hook.Load()
	if h == nil {
		return nil
	}
	if err := (*h)(m, s); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// Kind names the kind of a step: its type, and for a switch its setting
// (SetVFMAC, SetVFSwitch:trust).
func Kind(s step.Step) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", s), "step.")
	if on, ok := s.(step.SetVFSwitch); ok {
		name += ":" + string(on.Setting)
	}
	return name
}

package kernel

import (
	"context"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
)

// Bounds of steps whose context has no deadline. A VF's probe takes up to 4 s
// when its PF is not ready, and the kernel makes VFs one after another.
const (
	boundSlow = 2 * time.Minute
	boundFast = 30 * time.Second
)

// Do carries out one step and reads back the result. The error names the step and may wrap one of
// these:
//   - vf.ErrUnable: the driver lacks the setting or refuses the value;
//   - vf.ErrNotFound: no such device, or no netdevice in that netns;
//   - vf.ErrUnchanged: SetBondActive had nothing to change;
//   - vf.ErrDuplicate, as a vf.DuplicateError: DetectDuplicates found other holders of addresses;
//   - vf.ErrTimeout: the kernel or udev did not finish before ctx ended, or within a bound of Do
//     if ctx has no deadline. WaitCarrier and Announce have no such bound, since they wait for a
//     cable.
//
// A send rate that the driver rounds is no error: Kernel.VF returns the effective rate. Do does
// not read addresses and routes back, since the kernel's acknowledgement is exact for them.
func (k *Kernel) Do(ctx context.Context, s step.Step) error {
	if bound := boundOf(s); bound > 0 {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, bound)
			defer cancel()
		}
	}
	call := k.calls.beginCall(s)
	_, err := callBounded(ctx, func() (struct{}, error) {
		defer k.calls.endCall(call)
		return struct{}{}, k.carryOut(ctx, s)
	})
	k.calls.giveUp(call)
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

func boundOf(s step.Step) time.Duration {
	switch s.(type) {
	case step.WaitCarrier, step.Announce:
		return 0
	case step.SetNumVFs, step.Bind:
		return boundSlow
	}
	return boundFast
}

func (k *Kernel) carryOut(ctx context.Context, s step.Step) error {
	switch s := s.(type) {
	case step.SetAutoprobe:
		return k.setAutoprobe(s)
	case step.SetNumVFs:
		return k.setNumVFs(s)
	case step.SetPFUp:
		return k.setPFUp(s)
	case step.WaitCarrier:
		return k.waitCarrier(ctx, s)
	case step.SetPFMTU:
		return k.setPFMTU(s)
	case step.AddPFAddress:
		return k.addPFAddress(s)
	case step.DelPFAddress:
		return k.delPFAddress(s)
	case step.Bind:
		return k.bindDriver(ctx, s)
	case step.Unbind:
		return k.unbindDriver(s)
	case step.Reset:
		return k.resetFunction(s)
	case step.Move:
		return k.moveNetdev(s)
	case step.Announce:
		return k.announceAddresses(ctx, s)
	case step.DetectDuplicates:
		return k.detectDuplicates(ctx, s)
	case step.SetDefaultRoute:
		return k.setDefaultRoute(s)
	case step.AddBond, step.DelBond, step.Enslave, step.SetBondPrimary:
		return k.setBond(s)
	case step.SetBondActive:
		return k.setBondActive(ctx, s)
	case step.SetGuard:
		return k.setGuard(s)
	case step.DelGuard:
		return k.delGuard(s)
	case step.SetUp:
		// iavf does not open a VF that is in reset (iavf_open: EBUSY), as it is
		// after its trust, VLAN or MTU was set.
		return retryBusy(ctx, func() error { return k.setLink(s) })
	}
	if done, err := k.setAdmin(ctx, s); done {
		return err
	}
	return k.setLink(s)
}

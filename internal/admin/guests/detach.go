package guests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/vf"
)

// Detach takes devices out of the running guest and out of its definition, and takes their VFs
// back. If device is empty, these are all devices that Culvert made. A guest that does not
// release a device keeps the device, its definition and its VF. A repeated call changes nothing.
// Errors: vf.ErrNotFound when neither libvirt nor culvertd knows of such a guest.
func Detach(ctx context.Context, h localHost, name, device string, tell func(string)) (api.GuestDetached, error) {
	out := api.GuestDetached{VFs: []api.GuestVF{}}
	seen, unlock, err := seeLocked(ctx, h, name)
	if err != nil {
		return out, err
	}
	defer unlock()
	live, err1 := parseDevices(seen.Live)
	defined, err2 := parseDevices(seen.Defined)
	if err := errors.Join(err1, err2); err != nil {
		return out, err
	}
	leased := seen.leasesOf(seen.UUID)
	if seen.UUID == "" {
		return out, fmt.Errorf("guest %q: %w: neither libvirt nor the ledger has it: virsh list --all and culvert vm list show what there is", name, vf.ErrNotFound)
	}
	d := detaching{h, &work{tell: tell}, seen}
	for _, one := range namedDevices(device, leased, live, defined) {
		_, runs := live.Has(one)
		_, kept := defined.Has(one)
		if err := d.unplugDevice(ctx, live, one); err != nil {
			return out, err
		}
		if defined, err = d.forgetDevice(ctx, defined, one); err != nil {
			return out, err
		}
		if runs || kept {
			out.Devices = append(out.Devices, one)
		}
		if _, has := leased[one]; has {
			if err := d.work.doAction(ctx, h, seen.Host, Free{seen.UUID, one}, nil); err != nil {
				return out, err
			}
		}
	}
	after, err := h.See(ctx, seen.UUID)
	if err != nil {
		return out, err
	}
	for _, one := range slices.Sorted(maps.Keys(leased)) {
		if device != "" && one != device {
			continue
		}
		was := leased[one]
		now, there := after.vfAt(was.PCI)
		v := api.GuestVF{VF: was.PCI, Guest: *was.Owner, Phase: now.Phase, Reason: now.Reason}
		if !there || now.Missing {
			v.Phase = api.PhaseMissing
		}
		if now.Owner != nil && now.Phase != string(vf.PhaseQuarantined) { // the VF has another owner already
			v.Phase = string(vf.PhaseFree)
		}
		out.VFs = append(out.VFs, v)
	}
	return out, nil
}

// namedDevices returns device, or the names of all of the guest's devices if it is empty.
func namedDevices(device string, leased map[string]api.VF, definitions ...guest.Definition) []string {
	if device != "" {
		return []string{device}
	}
	all := slices.Collect(maps.Keys(leased))
	for _, d := range definitions {
		for _, u := range d.Uses {
			if u.Named() {
				all = append(all, u.Name())
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

type detaching struct {
	host host
	work *work
	seen Seen
}

func (d detaching) unplugDevice(ctx context.Context, live guest.Definition, device string) error {
	element, runs := live.Device(device)
	if !runs {
		return nil
	}
	err := d.work.doAction(ctx, d.host, d.seen.Host, Unplug{d.seen.UUID, device, element}, nil)
	if err != nil {
		return fmt.Errorf("%w: nothing is changed: shut guest %s down, which gives its VFs back, or ask again when it has booted", err, d.seen.Name)
	}
	return nil
}

func (d detaching) forgetDevice(ctx context.Context, defined guest.Definition, device string) (guest.Definition, error) {
	if d.seen.Defined == "" {
		return defined, nil
	}
	if _, has := defined.Has(device); !has {
		return defined, nil
	}
	text, err := defined.Without(device)
	if err != nil {
		return defined, err
	}
	if err := d.work.doAction(ctx, d.host, d.seen.Host, Define{text}, nil); err != nil {
		return defined, err
	}
	return guest.Parse([]byte(text))
}

package guests

import (
	"context"
	"fmt"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Attachment is a person's request for a VF of a guest.
type Attachment struct {
	Guest string // name or UUID
	// Devices has one request, or the two of a pair. Attach fills in their Definition.
	Devices []api.GuestXMLRequest
	// Live plugs the devices into the running guest, Config puts them into its definition. If
	// neither is set, Attach does both, as far as the guest has both.
	Live, Config bool
}

// Attach gives a guest VFs and puts the devices where they are wanted, or changes nothing. A
// repeated call changes nothing either. Attach calls tell with each step. Errors: vf.ErrNotFound,
// vf.ErrInvalid, those of libvirt and of the engine.
func Attach(ctx context.Context, h localHost, a Attachment, tell func(string)) (out api.GuestAttached, err error) {
	seen, unlock, err := seeLocked(ctx, h, a.Guest)
	if err != nil {
		return out, err
	}
	defer unlock()
	if a.Live, a.Config, err = chooseDefinitions(seen, a); err != nil {
		return out, err
	}
	w := &work{tell: tell}
	if out, err = attachDevice(ctx, h, w, seen, a); err != nil {
		return api.GuestAttached{}, w.undoAll(ctx, err)
	}
	return out, nil
}

// chooseDefinitions decides which of the two definitions Attach changes.
func chooseDefinitions(seen Seen, a Attachment) (live, config bool, err error) {
	switch {
	case seen.Defined == "" && seen.Live == "":
		return false, false, fmt.Errorf("guest %q: %w: virsh list --all shows which there are", a.Guest, vf.ErrNotFound)
	case a.Live && seen.Live == "":
		return false, false, fmt.Errorf("--live: %w: guest %s is off: leave it out, and the guest has the VF when it starts", vf.ErrInvalid, seen.Name)
	case a.Config && seen.Defined == "":
		return false, false, fmt.Errorf("--config: %w: guest %s has no definition that is kept (virsh define makes one): leave it out", vf.ErrInvalid, seen.Name)
	case a.Live || a.Config:
		return a.Live, a.Config, nil
	}
	return seen.Live != "", seen.Defined != "", nil
}

func attachDevice(ctx context.Context, h host, w *work, seen Seen, a Attachment) (api.GuestAttached, error) {
	out := api.GuestAttached{Guest: seen.Name}
	runs, err := parseDevices(seen.Live)
	if err != nil {
		return out, err
	}
	text, had := seen.Defined, seen.leasesOf(seen.UUID)
	if !a.Config {
		text = seen.Live
	}
	var plugs []Plug
	for _, req := range a.Devices {
		req.Definition = text
		if _, leased := had[req.Device]; !leased {
			w.addUndo(h, seen.Host, Free{seen.UUID, req.Device})
		}
		w.tell(fmt.Sprintf("%s: a VF for %s", seen.Host, req.Device))
		given, err := h.Lease(ctx, req)
		if err != nil {
			return out, err
		}
		if a.Config {
			text = given.Definition
		}
		use, has := runs.Has(req.Device)
		switch {
		case !a.Live:
		case has && use.Err != nil:
			return out, fmt.Errorf("guest %s runs with a device %s already: %w: %w: culvert vm detach %[1]s %[2]s first", seen.Name, req.Device, vf.ErrHeld, use.Err)
		case has && use.VF() != given.VF:
			return out, fmt.Errorf("guest %s runs with a device %s that passes PCI function %s, and not VF %s: %w: culvert vm detach %s %s first",
				seen.Name, req.Device, use.VF(), given.VF, vf.ErrHeld, seen.Name, req.Device)
		case !has:
			plugs = append(plugs, Plug{seen.UUID, req.Device, given.Device})
		}
		out.Devices = append(out.Devices, api.GuestDevice{Device: req.Device, VF: given.VF, Live: a.Live, Config: a.Config})
	}
	for _, p := range plugs {
		if err := w.doAction(ctx, h, seen.Host, p, Unplug(p)); err != nil {
			return out, err
		}
	}
	if !a.Config || text == seen.Defined {
		return out, nil
	}
	return out, w.doAction(ctx, h, seen.Host, Define{text}, Define{seen.Defined})
}

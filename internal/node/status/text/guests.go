package text

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// Guests draws `culvert vm list`: one line for each VF that a guest has.
func Guests(vfs []api.VF, o Options) string {
	if len(vfs) == 0 {
		return "No guest has a VF.\n"
	}
	t := screen.Table{Columns: []screen.Column{
		{Head: "GUEST", Least: 12}, {Head: "DEVICE"}, {Head: "VF"}, {Head: "PCI"}, {Head: "PHASE"}, {Head: "STATE"}, {Head: "POOL", Least: 12}, {Head: "SETTINGS", Least: 8},
	}}
	for _, v := range vfs {
		cells := screen.Words(v.Owner.Name, v.Owner.Interface, v.Name, v.PCI.String(), "", formatRunning(v), v.Pool, describeBriefly(v))
		cells[4] = phaseCell(v)
		t.Add(cells...)
	}
	var b strings.Builder
	t.Write(&b, o.Look)
	return b.String()
}

// GuestAttached says where a guest has its new devices.
func GuestAttached(done api.GuestAttached) string {
	var b strings.Builder
	for _, d := range done.Devices {
		var where []string
		if d.Live {
			where = append(where, "in the guest that runs")
		}
		if d.Config {
			where = append(where, "in its definition")
		}
		fmt.Fprintf(&b, "vm %s has VF %s as %s, %s\n", done.Guest, d.VF, d.Device, strings.Join(where, " and "))
	}
	return b.String()
}

// GuestMigrated says where a guest is, and how its memory came there.
func GuestMigrated(done api.GuestMigrated) string {
	out := fmt.Sprintf("vm %s is on host %s", done.Guest, done.Host)
	switch done.Transport {
	case "":
	case "tcp":
		out += "; its memory went over tcp, not encrypted"
	default:
		out += "; its memory went over " + done.Transport + ", encrypted"
	}
	return out + "\n"
}

// GuestDetached draws the result of `culvert vm detach`: the state of each VF, and the devices
// that had none.
func GuestDetached(done api.GuestDetached) string {
	var b strings.Builder
	for _, device := range done.Devices {
		if !slices.ContainsFunc(done.VFs, func(v api.GuestVF) bool { return v.Guest.Interface == device }) {
			fmt.Fprintf(&b, "device %s is taken out of the definition; it held no VF (a guest gives its VFs back when it stops)\n", device)
		}
	}
	for _, v := range done.VFs {
		fmt.Fprintf(&b, "VF %s, which %s had as %s, is %s", v.VF, v.Guest, v.Guest.Interface, v.Phase)
		if v.Phase == string(vf.PhaseQuarantined) {
			fmt.Fprintf(&b, ": %s: culvertd tries again", v.Reason)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

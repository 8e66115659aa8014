package why

import (
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// mostEvents is how many events of a guest an answer has.
const mostEvents = 3

// OfGuest returns what is wrong with the VFs of a guest of this host, by its name or UUID: a state
// of the host and its ledger's events. Errors: vf.ErrNotFound when Culvert has nothing on the guest.
func OfGuest(st api.NodeStatus, events []api.Event, name string) (api.Why, error) {
	out := api.Why{Object: "guest " + name, State: api.WhyWaits, Node: st.Node, Time: st.Time, Causes: []api.Cause{}}
	var vfs []api.VF
	for _, v := range st.VFs {
		if v.Owner != nil && v.Owner.Kind == vf.OwnerGuest && (v.Owner.Name == name || v.Owner.UID == name) {
			vfs, name = append(vfs, v), v.Owner.Name
		}
	}
	out.Object = "guest " + name
	for _, v := range vfs {
		if len(v.OpenBy) > 0 {
			out.State = api.WhyRuns
		}
		out.Causes = append(out.Causes, vfCauses(st, v)...)
	}
	if !st.Ready {
		out.Causes = append(out.Causes, causeOf("culvertd", firstProblem(st)))
	}
	for _, p := range st.Problems {
		if p.Object == "libvirt" || namesObject(p.Object+": "+p.Reason, out.Object) {
			out.Causes = append(out.Causes, causeOf("culvertd", p))
		}
	}
	found := len(vfs) > 0 || slices.ContainsFunc(st.Problems, func(p api.Problem) bool { return p.Object == out.Object })
	for _, e := range slices.Backward(events) {
		if len(out.Causes) < mostEvents && e.Type == "Warning" && namesObject(e.Object+" "+e.Text, name) {
			out.Causes = append(out.Causes, api.Cause{Source: "ledger", Text: fmt.Sprintf("%s: %s", e.Object, e.Text), Since: e.Time, Next: "culvert events"})
			found = true
		}
	}
	if !found {
		return api.Why{}, fmt.Errorf("guest %s: %w: no VF of this host is its own, and no event names it: culvert vm list shows the guests with VFs, and virsh list --all those of libvirt", name, vf.ErrNotFound)
	}
	return out, nil
}

// vfCauses is about one VF of a guest.
func vfCauses(st api.NodeStatus, v api.VF) (out []api.Cause) {
	for _, p := range st.Problems {
		if p.Object == "VF "+v.PCI.String() || p.Object == "VF "+v.Name {
			out = append(out, causeOf("culvertd", p))
		}
	}
	add := func(text, next string) { out = append(out, api.Cause{Source: "culvertd", Text: text, Next: next}) }
	switch {
	case v.Missing && len(out) == 0:
		add(fmt.Sprintf("its VF %s is not on the bus", v.Name), "culvert vm detach, then culvert vm attach gives the guest another VF")
	case v.Missing:
	case v.Phase == "configuring" || v.Phase == "releasing":
		add(fmt.Sprintf("its VF %s is %s since %s", v.Name, v.Phase, v.Since.UTC().Format(time.DateTime)), "culvert events shows what culvertd does with it")
	case len(v.OpenBy) == 0:
		add(fmt.Sprintf("VF %s (%s) is reserved for it, and no process has it open: the guest is off, or runs without the VF", v.Name, v.PCI),
			"virsh start; journalctl -u libvirtd -u virtqemud shows why a start failed")
	}
	for _, p := range st.PFs {
		if p.Name == v.PF && !p.Carrier {
			add(fmt.Sprintf("PF %s of its VF %s has no link", p.Name, v.Name), "check the cable and the port of the switch")
		}
	}
	return out
}

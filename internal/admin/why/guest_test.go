package why

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// A guest's VFs, the problems of the host and the ledger's events say what is wrong.
func TestGuests(t *testing.T) {
	db := &vf.Owner{Kind: vf.OwnerGuest, Name: "db1", UID: "5f1c"}
	host := func(v api.VF, change func(*api.NodeStatus)) api.NodeStatus {
		v.Owner, v.Name, v.PF, v.Phase = db, "enp1s0#0", "enp1s0", "attached"
		st := api.NodeStatus{Node: "host1", Ready: true, Time: now, VFs: []api.VF{v}, PFs: []api.PF{{PF: vf.PF{Name: "enp1s0", Carrier: true}}}}
		if change != nil {
			change(&st)
		}
		return st
	}
	running := api.VF{OpenBy: []vf.Process{{}}}
	refused := []api.Event{
		{Type: "Warning", Object: "VF enp1s0#0", Text: "refused: guest db10 has it", Time: now},
		{Type: "Warning", Object: "guest db1", Text: "its start was refused: VF enp1s0#0 is held by pod default/a", Time: now},
	}
	for name, c := range map[string]struct {
		st     api.NodeStatus
		events []api.Event
		state  string
		want   string
	}{
		"runs":    {st: host(running, nil), state: "runs"},
		"off":     {st: host(api.VF{}, nil), state: "waits", want: "no process has it open"},
		"missing": {st: host(api.VF{Missing: true}, nil), state: "waits", want: "is not on the bus"},
		"no link": {st: host(running, func(st *api.NodeStatus) { st.PFs[0].Carrier = false }), state: "runs", want: "PF enp1s0 of its VF enp1s0#0 has no link"},
		"libvirt": {st: host(running, func(st *api.NodeStatus) { st.Problems = []api.Problem{{Object: "libvirt", Reason: "it does not run"}} }), state: "runs", want: "libvirt: it does not run"},
		"conflict": {st: host(running, func(st *api.NodeStatus) {
			st.Problems = []api.Problem{{Object: "guest db1", Reason: "it runs with VF 0000:01:10.2, which is attached"}}
		}), state: "runs", want: "it runs with VF"},
		"refused": {st: api.NodeStatus{Ready: true, Time: now}, events: refused, state: "waits", want: "held by pod default/a"},
	} {
		got, err := OfGuest(c.st, c.events, "db1")
		if err != nil || got.State != c.state || (c.want == "") != (len(got.Causes) == 0) || !strings.Contains(fmt.Sprint(got.Causes), c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if strings.Contains(fmt.Sprint(got.Causes), "db10") {
			t.Errorf("%s: an event of another guest: %+v", name, got)
		}
	}
	if got, err := OfGuest(host(running, nil), nil, "5f1c"); err != nil || got.Object != "guest db1" {
		t.Errorf("by UUID: %+v, %v", got, err)
	}
	if _, err := OfGuest(host(running, nil), refused, "web"); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("a guest that is not there: %v", err)
	}
}

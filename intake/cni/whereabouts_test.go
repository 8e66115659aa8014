package cni

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

func TestWhereaboutsModes(t *testing.T) {
	answers := func(has bool, err error) func(context.Context, string) (bool, error) {
		return func(_ context.Context, group string) (bool, error) {
			return has && group == "whereabouts.cni.cncf.io", err
		}
	}
	for name, tc := range map[string]struct {
		flag string
		ask  func(context.Context, string) (bool, error)
		own  bool
		fail bool
	}{
		"pools":                  {"pools", answers(true, nil), true, false},
		"plugin":                 {"plugin", answers(false, nil), false, false},
		"auto, installed":        {"auto", answers(true, nil), false, false},
		"auto, not installed":    {"auto", answers(false, nil), true, false},
		"auto, nobody can tell":  {"auto", answers(false, vf.ErrNotReady), false, true},
		"auto, without cluster":  {"auto", nil, false, false},
		"pools, without cluster": {"pools", nil, true, false},
		"plugin without cluster": {"plugin", nil, false, false},
	} {
		mode, err := ParseWhereaboutsMode(tc.flag)
		if err != nil {
			t.Fatal(err)
		}
		serves := mode.Serves(tc.ask)
		for range 2 { // the second answer is remembered
			if own, err := serves(t.Context()); own != tc.own || errors.Is(err, vf.ErrNotReady) != tc.fail {
				t.Errorf("%s: %v, %v", name, own, err)
			}
		}
	}
	if _, err := ParseWhereaboutsMode("both"); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// Culvert serves a whereabouts network from a pool that all of them share; with the plugin it
// asks that.
func TestWhereaboutsNetwork(t *testing.T) {
	const config = `{"cniVersion":"1.0.0","name":"n","type":"sriov","ipam":{"type":"whereabouts","range":"10.5.0.0/24","log_level":"debug","unknown":1}}`
	d := newDelegates(t, lease1)
	out, err := d.call(t, cmdAdd, "c1", config)
	if err != nil || !strings.Contains(out, `"10.5.0.1/24"`) || len(d.calls) > 0 {
		t.Errorf("%s, %v, calls %v", out, err, d.calls)
	}
	if err := d.ledger.View(func(tx *journal.Tx) error {
		if all := tx.AddressesOf("whereabouts:"); len(all) != 1 {
			t.Errorf("the pool has %v", all)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	d.k.AddNetns("/run/netns/y")
	r := api.CNIRequest{Command: cmdAdd, ContainerID: "c2", IfName: "net1", Netns: "/run/netns/y", Config: []byte(strings.Replace(config, `"n"`, `"other"`, 1))}
	if out, err := d.h.Run(t.Context(), r, nil); err != nil || !strings.Contains(string(out), `"10.5.0.2/24"`) {
		t.Errorf("another network with the range: %s, %v", out, err)
	}
	checked := strings.TrimSuffix(config, "}") + `,"prevResult":` + out + "}"
	if _, err := d.call(t, cmdCheck, "c1", checked); err != nil || len(d.calls) > 0 {
		t.Errorf("CHECK: %v, calls %v", err, d.calls)
	}
	for _, container := range []string{"c1", "c2"} {
		if _, err := d.call(t, cmdDel, container, config); err != nil {
			t.Fatal(err)
		}
	}
	d.wantFree(t)
	d.h.ServesWhereabouts = WhereaboutsPlugin.Serves(nil)
	if _, err := d.call(t, cmdAdd, "c3", config); err != nil {
		t.Fatal(err)
	}
	d.wantCalls(t, "ADD whereabouts c3 net1")
	if _, err := d.call(t, cmdDel, "c3", config); err != nil {
		t.Fatal(err)
	}
	d.fail[cmdAdd] = vf.ErrNotFound
	if _, err := d.call(t, cmdAdd, "c4", config); err == nil || !strings.Contains(err.Error(), "culvertd --whereabouts=pools") {
		t.Errorf("not installed: %v", err)
	}
}

package cni

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
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

// A pod waits until Culvert knows whether the plugin or the pools give out the addresses of
// whereabouts networks: neither knows the other's addresses. Culvert refuses a section that it
// cannot serve.
func TestWhereaboutsNetworkIsRefused(t *testing.T) {
	unanswered := func(context.Context, string) (bool, error) { return false, vf.ErrNotReady }
	for name, tc := range map[string]struct {
		section string
		serves  func(context.Context) (bool, error)
		want    string
	}{
		"the API server does not answer": {`"range":"10.5.0.0/24"`, WhereaboutsAuto.Serves(unanswered), "11 whether whereabouts is installed in the cluster: not ready (culvert status says what culvertd waits for)"},
		"a wrong range":                  {`"range":"10.5.0.0/33"`, nil, `7 ipam.range: "10.5.0.0/33": want a range, e.g. 172.16.91.0/24 or 172.16.91.5-172.16.91.9/24 (correct the network configuration)`},
		"a range of a file":              {`"configuration_path":"/x"`, nil, "7 ipam.range: missing; want a range, e.g. 172.16.91.0/24, here or in ipRanges (culvertd does not read the file of configuration_path) (correct the network configuration)"},
	} {
		e := newMemory(1)
		h := New(partsOf(e))
		h.ServesWhereabouts = tc.serves
		_, err := h.Run(t.Context(), callOf(invocation(cmdAdd, with(`"ipam":{"type":"whereabouts",`+tc.section+`}`))), nil)
		if err == nil {
			t.Errorf("%s: it is accepted", name)
			continue
		}
		if got := refused(t, Failure("1.0.0", err)); got != tc.want || len(e.leases) > 0 {
			t.Errorf("%s\n got %s\nwant %s\nleft %s", name, got, tc.want, e)
		}
	}
}

// Culvert serves a whereabouts network from a pool that all whereabouts networks share. In mode
// plugin, it runs the whereabouts plugin instead.
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
	if out, err := d.h.Run(t.Context(), callOf(r), nil); err != nil || !strings.Contains(string(out), `"10.5.0.2/24"`) {
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

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	host "github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// delegates is a host with an IPAM plugin of another project, which gives the addresses of
// results in turn and remembers its calls.
type delegates struct {
	*host.Node
	k       *fake.Kernel
	h       *Handler
	ledger  *journal.Ledger
	results []string
	fail    map[string]error // by command; vf.ErrNotFound: it is not installed
	calls   []string
	last    api.PluginRequest
	later   time.Duration // what the node's clock is ahead
}

func newDelegates(t *testing.T, results ...string) *delegates {
	t.Helper()
	d := &delegates{k: fake.New(fake.IGB, 1), results: results, fail: map[string]error{}}
	d.k.AddNetns("/run/netns/x")
	var err error
	if d.ledger, err = journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.ledger.Close() })
	d.Node = host.New(host.Config{Kernel: d.k, Ledger: d.ledger, BootID: "b", Now: func() time.Time { return time.Now().Add(d.later) }})
	d.SetSpec(desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: desired.AllVFs, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
	})
	if err := errors.Join(d.Start(t.Context()), d.Reconciler.Pass(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.VFs.Wait)
	d.h = New(Parts{Engine: d.Engine, Resets: d.Resets, VFs: d.VFs})
	if d.h.IPAMTypes, err = ipam.ParseTypes([]string{"whereabouts2"}); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *delegates) ask(_ context.Context, method string, params, result any) error {
	r, ok := params.(api.PluginRequest)
	if !ok || method != api.MethodPlugin {
		return fmt.Errorf("%s: %w", method, vf.ErrInvalid)
	}
	d.calls = append(d.calls, r.Call.Command+" "+r.Type+" "+r.Call.ContainerID+" "+r.Call.IfName)
	d.last = r
	out, _ := result.(*api.PluginResponse)
	err := d.fail[r.Call.Command]
	switch {
	case errors.Is(err, vf.ErrNotFound):
		return fmt.Errorf("CNI plugin %s is not in /opt/cni/bin (CNI_PATH): %w", r.Type, err)
	case err != nil:
		out.Exit, out.Stdout = 1, fmt.Appendf(nil, `{"cniVersion":"1.0.0","code":100,"msg":%q}`, err)
	case r.Call.Command == cmdAdd:
		out.Stdout, d.results = []byte(d.results[0]), d.results[1:]
	}
	return nil
}

// call makes a call for a container.
func (d *delegates) call(t *testing.T, command, container, config string) (string, error) {
	t.Helper()
	r := api.CNIRequest{Command: command, ContainerID: container, IfName: "net1", Netns: "/run/netns/x", Args: "IgnoreUnknown=1;K8S_POD_NAME=p", Path: "/opt/cni/bin", Config: []byte(config)}
	out, err := d.h.Run(t.Context(), callOf(r), d.ask)
	return string(out), err
}

// wantFree checks that every VF is clean and free, and that no DEL is owing.
func (d *delegates) wantFree(t *testing.T) {
	t.Helper()
	held, owed, err := d.VFs.Delegations()
	if err != nil || len(held)+len(owed) > 0 {
		t.Errorf("delegations held %v, owed %v, %v", held, owed, err)
	}
	records, err := journal.ReadRecords(d.ledger)
	for _, r := range records {
		if r.Phase != vf.PhaseFree {
			t.Errorf("VF %s is %s", r.PCI, r.Phase)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func (d *delegates) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, d.calls, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("calls of the plugin, -want +got\n%s", diff)
	}
	d.calls = nil
}

const (
	lease1 = `{"cniVersion":"1.0.0","ips":[{"address":"10.5.0.7/24","gateway":"10.5.0.1"},{"address":"fd05::7/64"}],
		"routes":[{"dst":"10.6.0.0/16"},{"dst":"10.7.0.0/16","gw":"10.5.0.9"}],"dns":{"nameservers":["10.5.0.53"]}}`
	lease2   = `{"cniVersion":"1.0.0","ips":[{"address":"10.5.0.8/24"}]}`
	borrowed = `{"cniVersion":"1.0.0","name":"n","type":"sriov","ipam":{"type":"whereabouts2","range":"10.5.0.0/24","more":[1]}}`
)

// A plugin that Culvert does not serve itself gives the addresses, gets the call as the CNI
// project's ipam.ExecAdd gives it, and its DEL.
func TestDelegatedIPAM(t *testing.T) {
	d := newDelegates(t, lease1)
	out, err := d.call(t, cmdAdd, "c1", borrowed)
	if err != nil {
		t.Fatal(err)
	}
	r, err := config.DecodeResult(json.RawMessage(out), "1.0.0")
	if err != nil || len(r.IPs) != 2 || r.IPs[0].Address.String() != "10.5.0.7/24" || r.IPs[0].Gateway.String() != "10.5.0.1" || len(r.Routes) != 2 ||
		r.Routes[0].GW.String() != "10.5.0.1" || !slices.Equal(r.DNS.Nameservers, []string{"10.5.0.53"}) {
		t.Errorf("%v, %s", err, out)
	}
	if c := d.last.Call; string(c.Config) != borrowed || c.Netns != "/run/netns/x" || c.Args != "IgnoreUnknown=1;K8S_POD_NAME=p" || c.Path != "/opt/cni/bin" {
		t.Errorf("the plugin gets %+v with %s", c, c.Config)
	}
	records, err := journal.ReadRecords(d.ledger)
	if err != nil {
		t.Fatal(err)
	}
	st, err := d.k.VF(t.Context(), records[0].PCI, "/run/netns/x")
	if err != nil || st.Link == nil || len(st.Link.Addrs) != 2 || len(st.Link.Routes) != 2 {
		t.Errorf("in the netns: %+v, %v", st.Link, err)
	}
	d.calls = nil
	if _, err := d.call(t, cmdAdd, "c1", borrowed); !errors.Is(err, vf.ErrHeld) {
		t.Errorf("ADD again: %v", err)
	}
	d.wantCalls(t) // the attachment keeps its addresses
	checked := strings.TrimSuffix(borrowed, "}") + `,"prevResult":` + out + "}"
	if _, err := d.call(t, cmdCheck, "c1", checked); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	d.fail[cmdCheck] = errors.New("CNI CHECK method is not implemented")
	if _, err := d.call(t, cmdCheck, "c1", checked); err != nil {
		t.Errorf("CHECK of a plugin without it: %v", err)
	}
	d.fail[cmdCheck] = errors.New("address lost")
	if _, err := d.call(t, cmdCheck, "c1", checked); err == nil || !strings.Contains(err.Error(), "plugin whereabouts2: CHECK: address lost") {
		t.Errorf("CHECK that fails: %v", err)
	}
	d.calls = nil
	for range 2 { // at the second DEL, the ledger no longer has the attachment
		if _, err := d.call(t, cmdDel, "c1", borrowed); err != nil {
			t.Fatal(err)
		}
		d.wantCalls(t, "DEL whereabouts2 c1 net1")
	}
	d.wantFree(t)
}

// The plugin that Culvert replaced made an attachment that the ledger does not have. Its DEL runs
// the DEL of the IPAM plugin, too; otherwise the address would stay taken. The pod ends even if the
// IPAM plugin fails.
func TestDelegatedIPAMOfAnAttachmentFromBeforeCulvert(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		fail   error
		want   []string
	}{
		"works":            {borrowed, nil, []string{"DEL whereabouts2 old net1"}},
		"fails":            {borrowed, errors.New("no API server"), []string{"DEL whereabouts2 old net1"}},
		"is not there":     {borrowed, vf.ErrNotFound, []string{"DEL whereabouts2 old net1"}},
		"Culvert's own":    {`{"cniVersion":"1.0.0","name":"n","type":"sriov","ipam":{"type":"host-local","subnet":"10.5.0.0/24"}}`, nil, nil},
		"no configuration": {"gone", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDelegates(t)
			d.fail[cmdDel] = tc.fail
			if _, err := d.call(t, cmdDel, "old", tc.config); err != nil {
				t.Error(err)
			}
			d.wantCalls(t, tc.want...)
			d.wantFree(t)
		})
	}
}

// A failure after the ADD of the IPAM plugin undoes that ADD. Culvert checks the plugin's result.
func TestDelegatedIPAMIsUndone(t *testing.T) {
	for name, tc := range map[string]struct {
		result string
		fail   error
		want   string
	}{
		"the plugin fails":          {"", errors.New("no pool"), "plugin whereabouts2: ADD: no pool"},
		"it answers nothing":        {"x", nil, `plugin whereabouts2: ADD answered "x": invalid: not a result`},
		"it gives no address":       {`{"cniVersion":"1.0.0"}`, nil, "invalid: it has no address"},
		"its address is in use":     {lease2, nil, "address 10.5.0.8: held by pod other"},
		"an address without length": {`{"cniVersion":"1.0.0","ips":[{"address":"10.5.0.8"}]}`, nil, "plugin whereabouts2: ADD answered"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDelegates(t, tc.result)
			const static = `{"cniVersion":"1.0.0","name":"o","type":"sriov","ipam":{"type":"static","scope":"node","addresses":[{"address":"10.5.0.8/24"}]}}`
			r := api.CNIRequest{Command: cmdAdd, ContainerID: "c0", IfName: "net0", Netns: "/run/netns/x", Args: "K8S_POD_NAME=other", Config: []byte(static)}
			if _, err := d.h.Run(t.Context(), callOf(r), nil); err != nil {
				t.Fatal(err)
			}
			if tc.fail != nil {
				d.fail[cmdAdd] = tc.fail
			}
			if _, err := d.call(t, cmdAdd, "c1", borrowed); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v\nwant %s", err, tc.want)
			}
			d.wantCalls(t, "ADD whereabouts2 c1 net1", "DEL whereabouts2 c1 net1")
			r.Command = cmdDel
			if _, err := d.h.Run(t.Context(), callOf(r), nil); err != nil {
				t.Fatal(err)
			}
			d.wantFree(t)
		})
	}
}

// The error of a network whose IPAM plugin is not installed says how to correct it, and the
// network's pods can end. Only a plugin that ran is owed a DEL.
func TestDelegatedIPAMIsNotInstalled(t *testing.T) {
	d := newDelegates(t, lease1)
	d.fail[cmdAdd], d.fail[cmdDel] = vf.ErrNotFound, vf.ErrNotFound
	_, err := d.call(t, cmdAdd, "c1", borrowed)
	for _, want := range []string{"network n: ipam.type whereabouts2: the plugin is not installed: ", "CNI plugin whereabouts2 is not in /opt/cni/bin (CNI_PATH)", "install that plugin on every node"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if _, err := d.call(t, cmdDel, "c1", borrowed); err != nil {
		t.Errorf("DEL: %v", err)
	}
	d.wantCalls(t, "ADD whereabouts2 c1 net1", "DEL whereabouts2 c1 net1") // no DEL is owed; this one may be for an attachment from before Culvert
	d.wantFree(t)

	delete(d.fail, cmdAdd)
	if _, err := d.call(t, cmdAdd, "c2", borrowed); err != nil {
		t.Fatal(err)
	}
	if _, err := d.call(t, cmdDel, "c2", borrowed); err != nil {
		t.Errorf("DEL of a plugin that was removed: %v", err)
	}
	if _, owed, err := d.VFs.Delegations(); err != nil || len(owed) != 1 {
		t.Errorf("owed: %v, %v", owed, err)
	}
	delete(d.fail, cmdDel) // installed again
	d.h.now = func() time.Time { return time.Now().Add(firstDebtWait) }
	if _, err := d.call(t, cmdDel, "c3", borrowed); err != nil {
		t.Errorf("DEL of another pod: %v", err)
	}
	d.wantFree(t)
}

// I9: the plugin gave an address that the VF's pool does not allow. The ADD is refused, and the plugin
// gets its DEL.
func TestI9PluginThatGivesWhatThePoolForbids(t *testing.T) {
	d := newDelegates(t, lease1)
	spec := d.Spec()
	spec.Pools = slices.Clone(spec.Pools)
	spec.Pools[0].Allow = &desired.Allow{MTU: 9000, Addresses: []netip.Prefix{netip.MustParsePrefix("10.5.0.7/32")}}
	d.SetSpec(spec)
	_, err := d.call(t, cmdAdd, "c1", borrowed)
	if err == nil || !strings.Contains(err.Error(), "the IPAM plugin gave what it may not: pool x/a: ") || !strings.Contains(err.Error(), "address fd05::7 is not allowed") {
		t.Errorf("%v", err)
	}
	d.wantCalls(t, "ADD whereabouts2 c1 net1", "DEL whereabouts2 c1 net1")
	d.wantFree(t)
}

// I8: the DEL of an IPAM plugin needs only the ledger. It runs even if culvertd died in the ADD, or
// if the DEL failed at first.
func TestI8DelegatedIPAMIsDeletedFromTheLedger(t *testing.T) {
	for name, cut := range map[string]func(t *testing.T, d *delegates){
		"culvertd died in the ADD": func(t *testing.T, d *delegates) {
			err := d.ledger.Update(func(tx *journal.Tx) error {
				for _, r := range tx.Records() {
					if r.Phase == vf.PhaseAttached {
						r.Phase = vf.PhaseConfiguring
						return tx.Put(r)
					}
				}
				return vf.ErrNotFound
			})
			if err := errors.Join(err, d.Upkeep.Replay(t.Context())); err != nil {
				t.Fatal(err)
			}
		},
		"the DEL failed": func(t *testing.T, d *delegates) {
			d.fail[cmdDel] = errors.New("no API server")
			if _, err := d.call(t, cmdDel, "c1", borrowed); err == nil || !strings.Contains(err.Error(), "plugin whereabouts2: DEL: no API server") {
				t.Errorf("DEL: %v", err)
			}
			delete(d.fail, cmdDel)
		},
		"the lease ended without a DEL": func(t *testing.T, d *delegates) {
			if err := d.Resets.Detach(t.Context(), vf.Owner{Kind: vf.OwnerPod, Name: "p", UID: "c1", Interface: "net1"}); err != nil {
				t.Fatal(err)
			}
		},
		"all is well": func(*testing.T, *delegates) {},
	} {
		for _, config := range []string{"gone", borrowed} {
			t.Run(name+", "+config[:4], func(t *testing.T) {
				d := newDelegates(t, lease1)
				if _, err := d.call(t, cmdAdd, "c1", borrowed); err != nil {
					t.Fatal(err)
				}
				cut(t, d)
				d.calls = nil
				if _, err := d.call(t, cmdDel, "c1", config); err != nil {
					t.Fatal(err)
				}
				d.wantCalls(t, "DEL whereabouts2 c1 net1")
				if string(d.last.Call.Config) != borrowed || d.last.Call.Args != "IgnoreUnknown=1;K8S_POD_NAME=p" {
					t.Errorf("the plugin gets %+v with %s", d.last.Call, d.last.Call.Config)
				}
				d.wantFree(t)
			})
		}
	}
}

// owe makes VFs in the ledger owe the DELs of these containers, in this order: one for each VF.
func owe(t *testing.T, l *journal.Ledger, containers ...string) {
	t.Helper()
	err := l.Update(func(tx *journal.Tx) error {
		for i, rec := range tx.Records() {
			if i == len(containers) {
				break
			}
			rec.Owed = []journal.Delegation{{Plugin: "whereabouts2", Network: "n", ContainerID: containers[i], Interface: "net1", Config: []byte(borrowed)}}
			if err := tx.Put(rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// GC runs the IPAM plugin's DEL for each attachment that it does not keep, and the plugin's GC.
// STATUS runs the plugin's STATUS, too.
func TestDelegatedIPAMIsCollected(t *testing.T) {
	newest := strings.Replace(borrowed, "1.0.0", "1.1.0", 1)
	d := newDelegates(t, strings.Replace(lease1, "1.0.0", "1.1.0", 1), strings.Replace(lease2, "1.0.0", "1.1.0", 1))
	for _, container := range []string{"c1", "c2"} {
		r := api.CNIRequest{Command: cmdAdd, ContainerID: container, IfName: "net1", Netns: "/run/netns/x", Config: []byte(newest)}
		if container == "c2" {
			d.k.AddNetns("/run/netns/y")
			r.Netns = "/run/netns/y"
		}
		if _, err := d.h.Run(t.Context(), callOf(r), d.ask); err != nil {
			t.Fatal(err)
		}
	}
	d.calls, d.later = nil, hold.GCGrace
	if _, err := d.call(t, cmdGC, "", strings.TrimSuffix(newest, "}")+`,"cni.dev/valid-attachments":[{"containerID":"c2","ifname":"net1"}]}`); err != nil {
		t.Fatal(err)
	}
	d.wantCalls(t, "DEL whereabouts2 c1 net1", "GC whereabouts2  net1")
	if held, owed, err := d.VFs.Delegations(); err != nil || len(held) != 1 || held[0].ContainerID != "c2" || len(owed) > 0 {
		t.Errorf("held %v, owed %v, %v", held, owed, err)
	}
	d.calls = nil
	if _, err := d.call(t, cmdDel, "c9", newest); err != nil { // its interface has the same name
		t.Fatal(err)
	}
	d.wantCalls(t, "DEL whereabouts2 c9 net1")
	d.fail[cmdStatus] = errors.New("no range left")
	if _, err := d.call(t, cmdStatus, "", newest); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "plugin whereabouts2: STATUS: no range left") {
		t.Errorf("STATUS: %v", err)
	}
}

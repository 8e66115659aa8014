package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/helptext"
	"github.com/culvert-net/culvert/test/rpcserver"
)

var update = flag.Bool("update", false, "write the golden files")

// culvertd answers as a real one would on the node of package status's tests,
// and records the requests for changes.
type culvertd struct {
	plan    api.Plan
	applied []api.HostRequest
	guests  []api.GuestXMLRequest
	result  api.ApplyResult
	differs []vf.Difference // each VF, from its baseline
	rebased []api.RebaseRequest
	tried   []api.HostTryRequest
	ended   []string         // methods that ended a trial
	back    *api.ApplyResult // the answer to host revert; nil: result
}

// metricsText are the metrics of the fake culvertd.
const metricsText = "# HELP culvert_ready 1 when the VFs of the node are made.\n# TYPE culvert_ready gauge\nculvert_ready 1\n"

// serve starts the fake culvertd and returns its socket.
func (d *culvertd) serve(t *testing.T) string {
	t.Helper()
	node, err := os.ReadFile("../../internal/node/status/testdata/node.json")
	if err != nil {
		t.Fatal(err)
	}
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, func(srv *rpc.Server) {
		srv.Handle(api.MethodStatus, func(context.Context, json.RawMessage) (any, error) { return json.RawMessage(node), nil })
		srv.Handle(api.MethodMetrics, func(context.Context, json.RawMessage) (any, error) { return api.Metrics{Text: metricsText}, nil })
		srv.HandleStream(api.MethodEvents, func(ctx context.Context, raw json.RawMessage, send func(any) error) error {
			var req api.EventsRequest
			if err := json.Unmarshal(raw, &req); err != nil {
				return err
			}
			for seq := req.After + 1; seq <= 3; seq++ {
				e := api.Event{Seq: seq, Time: time.Date(2026, 11, 21, 20, 0, int(seq), 0, time.UTC), Type: "Normal", Reason: "Attached", Object: "VF 0000:01:10.0", Text: "vf 0 of enp1s0f0"}
				if seq == 2 {
					e.VF, e.Phase, e.Network, e.Settings = vf.ID{PF: vf.PFID{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, 1}}}, vf.PhaseAttached, "blue", "vlan 100"
					e.Owner = vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}
				}
				if err := send(e); err != nil {
					return err
				}
			}
			if req.Follow {
				<-ctx.Done()
			}
			return nil
		})
		srv.Handle(api.MethodLedger, func(context.Context, json.RawMessage) (any, error) { return api.Ledger{File: "/x/ledger.db"}, nil })
		srv.Handle(api.MethodGuestXML, func(_ context.Context, raw json.RawMessage) (any, error) {
			var req api.GuestXMLRequest
			err := json.Unmarshal(raw, &req)
			d.guests = append(d.guests, req)
			out := api.GuestXML{Definition: "<definition/>\n", Device: "<device/>\n", Network: "<network/>\n"}
			if req.OS == "windows" {
				out.Notes = []string{"VF 0000:01:10.0 needs a driver"}
			}
			return out, err
		})
		srv.Handle(api.MethodGuestDetach, func(_ context.Context, raw json.RawMessage) (any, error) {
			var req api.GuestDetachRequest
			err := json.Unmarshal(raw, &req)
			owner := vf.Owner{Kind: vf.OwnerGuest, Name: req.Guest, Interface: "net1"}
			return api.GuestDetached{VFs: []api.GuestVF{
				{VF: vf.PCIAddr{Bus: 1, Device: 0x10}, Guest: owner, Phase: "free"},
				{VF: vf.PCIAddr{Bus: 1, Device: 0x11}, Guest: owner, Phase: "quarantined", Reason: "vlan is 7, not none"},
			}}, err
		})
		srv.Handle(api.MethodRebase, func(_ context.Context, raw json.RawMessage) (any, error) {
			var req api.RebaseRequest
			err := json.Unmarshal(raw, &req)
			d.rebased = append(d.rebased, req)
			return api.Rebased{Differences: d.differs}, err
		})
		srv.Handle(api.MethodHostPlan, func(context.Context, json.RawMessage) (any, error) { return d.plan, nil })
		srv.Handle(api.MethodHostTry, func(_ context.Context, raw json.RawMessage) (any, error) {
			var req api.HostTryRequest
			err := json.Unmarshal(raw, &req)
			d.tried = append(d.tried, req)
			return d.result, err
		})
		for _, method := range []string{api.MethodHostConfirm, api.MethodHostRevert} {
			srv.Handle(method, func(context.Context, json.RawMessage) (any, error) {
				d.ended = append(d.ended, method)
				if method == api.MethodHostConfirm {
					return api.HostTrial{Began: time.Date(2026, 11, 21, 12, 0, 3, 0, time.UTC)}, nil
				}
				if d.back != nil {
					return *d.back, nil
				}
				return d.result, nil
			})
		}
		srv.Handle(api.MethodHostApply, func(_ context.Context, raw json.RawMessage) (any, error) {
			var req api.HostRequest
			err := json.Unmarshal(raw, &req)
			d.applied = append(d.applied, req)
			return d.result, err
		})
	})
	return socket
}

// run runs one command line and returns all output.
func run(ctx context.Context, t *testing.T, socket string, args ...string) (out string, err error) {
	t.Helper()
	root := newRoot()
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetIn(strings.NewReader("pfs: [{name: enp1s0f0, vfs: 4}]\n"))
	root.SetArgs(append([]string{"--socket", socket}, args...))
	err = root.ExecuteContext(ctx)
	return b.String(), err
}

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "culvert" { // TestProgram runs this binary as culvert
		main()
		return
	}
	time.Local = time.UTC
	os.Setenv("LC_ALL", "C")
	os.Unsetenv(clientConfig)
	os.Unsetenv(inPod)
	os.Exit(m.Run())
}

var hurting = api.Plan{PFs: []api.PFPlan{{
	PF: "enp1s0f0", PCI: vf.PCIAddr{Bus: 1},
	Changes: []api.Change{{Op: api.Modify, Attribute: "sriov_numvfs", From: "7", To: "4"}},
	Hurts:   []api.Holder{{VF: "enp1s0f0#0", Owner: vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}, Network: "n", Phase: "attached"}},
}}}

// TestCommands compares a session with testdata/session.txt: each command line
// with its output and its error.
func TestCommands(t *testing.T) {
	d := &culvertd{plan: hurting, result: api.ApplyResult{Plan: hurting}}
	socket := d.serve(t)
	var got strings.Builder
	for _, line := range []string{
		"status",
		"vf list",
		"vf list --pf enp1s0f1 --phase free",
		"vf list --pool nothing",
		"vf list --owner default/a -o json",
		"vf show default/a",
		"vf show enp1s0f0#1 -o yaml",
		"vf show enp1s0f0#17",
		"vf shwo",
		"vf",
		"pool list",
		"pool list -o json",
		"events",
		"events --since 2 -o json",
		"events -o wide",
		"events --since 2026-11-22",
		"events --since 2026-11-21T20:00:03Z -o jsonl",
		"events --owner default/a",
		"events --mac 02:00:00:00:00:01 --address 10.56.0.9 --pod-uid u",
		"vf history enp1s0f0#0",
		"vf history --owner default/a -o yaml",
		"vf history --owner default/b --since 2026-11-22",
		"vf history --pf enp1s0f0 -o jsonl",
		"vf history enp1s0f0#99",
		"host validate -",
		"host validate testdata/bad.yaml",
		"host validate testdata/none.yaml",
		"host plan -",
		"host plan - -o yaml",
		"host apply -",
		"host apply testdata/bad.yaml",
		"vm list",
		"vm list -o json",
		"vm show db1",
		"vm show db2",
		"why guest/db1",
		"why guest db1 -o json",
		"why guest/db2",
		"vm detach db1",
		"vm attach db1 --way network",
		"vm attach db1 --bond --apart net2",
		"vm attach db1 --vlan 5000",
		"vm migrate db1",
		"vm migrate db1 -- -oProxyCommand=x",
		"vm migrate db1 root@host2 --live --shutdown",
		"vm migrate db1 root@host2 --transport tcp",
		"vm migrate db1 root@host2 --live --transport rdma",
		"vm migrate db1 root@host2 --live --tls-name b",
		"vm xml --pool fast",
		"vm xml --os windows -",
		"vm xml --print device -",
		"vm xml --print network -",
		"vm xml --print network --way network -",
		"vm xml testdata/none.xml",
		"vm xml --vlan 5000 -",
		"vm xml --vlan-qos 3 -",
		"vm xml --mac 01:00:00:00:00:00 -",
		"vm xml --trust yes -",
		"vm xml --link-state up -",
		"vm xml --min-tx-rate 9 --max-tx-rate 5 -",
		"version",
	} {
		out, err := run(t.Context(), t, socket, strings.Fields(line)...)
		fmt.Fprintf(&got, "$ culvert %s\n%s", line, out)
		if err != nil {
			fmt.Fprintf(&got, "culvert: %v\n", err)
		}
		got.WriteByte('\n')
	}
	session := strings.ReplaceAll(got.String(), strings.TrimPrefix(versionLine(t, socket), "culvert "), "VERSION\n")
	if *update {
		if err := os.WriteFile("testdata/session.txt", []byte(session), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/session.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), session); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(d.applied) != 1 || d.applied[0].Force || !strings.Contains(d.applied[0].Content, "vfs: 4") {
		t.Errorf("asked to apply: %+v", d.applied)
	}
}

func versionLine(t *testing.T, socket string) string {
	out, err := run(t.Context(), t, socket, "version")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The request to culvertd has the settings that are given on the command line,
// and no others.
func TestGuestSettings(t *testing.T) {
	d := &culvertd{}
	socket := d.serve(t)
	line := "vm xml --pool fast --device net2 --way hostdev --mac 02:00:00:00:00:01 --vlan 7 --vlan-qos 3 --vlan-proto 802.1ad --spoofchk on --trust off --link-state enable --min-tx-rate 5 --max-tx-rate 9 -"
	for _, line := range []string{line, "vm xml -", "vm xml --max-tx-rate 0"} {
		if out, err := run(t.Context(), t, socket, strings.Fields(line)...); err != nil {
			t.Fatalf("%s%v", out, err)
		}
	}
	on, off, enable, minRate, maxRate, none := true, false, vf.LinkEnable, uint32(5), uint32(9), uint32(0)
	definition := "pfs: [{name: enp1s0f0, vfs: 4}]\n"
	want := []api.GuestXMLRequest{
		{Definition: definition, Device: "net2", Pool: "fast", Way: "hostdev", Spec: vf.Spec{
			MAC: &vf.MAC{2, 0, 0, 0, 0, 1}, VLAN: &vf.VLAN{ID: 7, QoS: 3, Proto: vf.Dot1AD}, SpoofChk: &on, Trust: &off,
			LinkState: &enable, MinTxRate: &minRate, MaxTxRate: &maxRate,
		}},
		{Definition: definition, Device: "net1", Way: "interface"},
		{Definition: definition, Device: "net1", Way: "interface", Spec: vf.Spec{MaxTxRate: &none}},
	}
	if diff := cmp.Diff(want, d.guests); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestApply(t *testing.T) {
	d := &culvertd{result: api.ApplyResult{Plan: hurting, Applied: true}}
	socket := d.serve(t)
	out, err := run(t.Context(), t, socket, "host", "apply", "--force", "-")
	if err != nil || !strings.HasSuffix(out, "Applied.\n") {
		t.Errorf("%s%v", out, err)
	}
	if len(d.applied) != 1 || !d.applied[0].Force || d.applied[0].File != "standard input" {
		t.Errorf("asked to apply: %+v", d.applied)
	}
	d.result.Problems = []api.Problem{{Object: "PF enp1s0f0", Reason: "no carrier", Next: "plug the cable in"}}
	out, err = run(t.Context(), t, socket, "host", "apply", "-")
	if err == nil || !strings.Contains(err.Error(), "problems are left") || !strings.Contains(out, "! PF enp1s0f0: no carrier") {
		t.Errorf("%s%v", out, err)
	}
}

func TestFollowEndsWithTheInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	root := newRoot()
	out := &interrupter{after: 2, interrupt: cancel}
	root.SetOut(out)
	root.SetArgs([]string{"--socket", new(culvertd).serve(t), "events", "-f", "--since", "1", "-o", "json"})
	if err := root.ExecuteContext(ctx); err != nil {
		t.Errorf("an interrupt is an error: %v", err)
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, `{"seq":2,`) {
		t.Errorf("followed:\n%s", got)
	}
}

// interrupter is an output that interrupts the command after some lines, as
// Ctrl-C does.
type interrupter struct {
	bytes.Buffer
	after     int
	interrupt func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	n, err := i.Buffer.Write(p)
	if strings.Count(i.String(), "\n") >= i.after {
		i.interrupt()
	}
	return n, err
}

func TestWithoutDaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	for _, line := range []string{"status", "vf list", "vf show x", "pool list", "events", "events -f", "host plan -", "host apply -"} {
		_, err := run(t.Context(), t, socket, strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), "systemctl status culvertd") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if out, err := run(t.Context(), t, socket, "host", "validate", "-"); err != nil {
		t.Errorf("validate needs culvertd: %s%v", out, err)
	}
}

func TestCompletion(t *testing.T) {
	socket := new(culvertd).serve(t)
	for _, tc := range []struct {
		line string
		want []string
	}{
		{"vf show ", []string{"enp1s0f0#3", "0000:01:10.6", "default/a"}},
		{"vf list --pool ", []string{"intel.com/intel_sriov_netdevice", "culvert.dev/dpdk"}},
		{"vf list --pf ", []string{"enp1s0f0", "enp1s0f1"}},
		{"vf list --phase ", []string{"free", "quarantined"}},
		{"vf list --owner ", []string{"default/a", "db1"}},
		{"vf list -o ", []string{"json", "yaml", "wide"}},
		{"host ", []string{"apply", "plan", "validate"}},
	} {
		out, err := run(t.Context(), t, socket, append([]string{cobra.ShellCompRequestCmd}, strings.Split(tc.line, " ")...)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range tc.want {
			if !strings.Contains("\n"+strings.ReplaceAll(out, "\t", "\n"), "\n"+w+"\n") {
				t.Errorf("%q does not offer %s:\n%s", tc.line, w, out)
			}
		}
	}
	if out, err := run(t.Context(), t, "/nonexistent", cobra.ShellCompRequestCmd, "vf", "show", ""); err != nil || strings.Contains(out, "enp") {
		t.Errorf("without culvertd: %s%v", out, err)
	}
}

// TestHelp leaves out lab, bench and esxi, whose help is that of their programs.
func TestHelp(t *testing.T) { helptext.Check(t, newRoot(), "lab", "bench", "esxi") }

// docs/reference has every command and flag.
func TestReference(t *testing.T) {
	helptext.CheckReference(t, "../../docs/reference/culvert.md", newRoot(), "lab", "bench", "esxi")
}

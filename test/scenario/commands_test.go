package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	guestintake "github.com/culvert-net/culvert/internal/node/intake/guest"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// commands has the commands of a story. Each writes its output to the file out.
// A command after ! must fail, and out has its error.
//
//	host [-force] FILE                  want FILE of this host, and make it so
//	plan FILE                           what FILE would change
//	pass                                look at the hardware once
//	restart                             stop culvertd and start it again
//	netns add|del NAME                  a pod's network namespace
//	cni COMMAND ID IFNAME NETNS FILE [ARGS]   as a runtime calls the plugin; - is the empty netns
//	vm xml FILE DEVICE POOL WAY [SPEC]  a VF for the guest of the definition FILE; out is the definition.
//	                                    DEVICE/OTHER is one of another PF than OTHER's
//	vm detach GUEST [DEVICE]            the guest gives it back
//	vm start|stop FILE                  libvirt is about to start the guest of the definition FILE, or it has ended
//	vm port created|deleted FILE        libvirt has taken a device of a network, or put it back
//	list [STATE=FILE[,FILE]...]         libvirt's list of guests, which culvertd compares: STATE is on or off, the second FILE
//	                                    what the next start of a running one has; out is what contradicts
//	open ALIAS                          some process has a VF open through vfio, as QEMU does
//	close ALIAS                         it has not any more
//	made PF N                           somebody else makes the VFs of a PF
//	bind ALIAS [vfio-pci]               somebody else binds a VF to vfio-pci, or to its netdevice driver
//	plugin FILE                         the device plugin's ConfigMap has FILE, and nothing else is wanted
//	give ALIAS [POD]                    the kubelet gave a VF to a pod, which has no network for it, or to none any more
//	drivers                             the driver of each VF
//	address PF ADDRESS                  somebody else gives a PF an address
//	addresses                           the addresses of each PF, those that Culvert added with a star
//	fault before|after|always STEP      the next step of that kind (faulty.Kind) fails, once or always
//	fault off                           all is well again
//	meddle ALIAS SETTING [VALUE]        somebody else changes a VF
//	tune ALIAS NETNS IFNAME             its owner changes everything that it can of its interface
//	looks ALIAS NETNS IFNAME            how the interface is set up, as the machine's own tools say
//	netdevices                          how many interfaces of VFs appeared on the host since that was last asked
//	clock DURATION                      time passes
//	show                                PFs, and the VFs that are not clean
//	ledger                              leases and addresses
//	events                              what happened, without times
//	problems                            what the last pass could not do
//	clean                               every VF free and at its baseline, no address held (I2, I3)
var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"host": command(host), "plan": command(plan), "pass": command(pass), "restart": command(restart),
	"netns": command(changeNetns), "cni": command(callCNI), "vm": command(callVM), "list": command(listGuests),
	"open": command(open), "close": command(closed), "fault": command(fault), "meddle": command(meddle),
	"tune": command(tune), "looks": command(looks), "netdevices": command(netdevices),
	"clock": command(advance), "show": command(show), "ledger": command(ledger), "events": command(events),
	"problems": command(problems), "clean": command(clean),
	"made": command(made), "bind": command(bind), "plugin": command(plugin), "give": command(give), "drivers": command(drivers),
	"addresses": command(addresses), "address": command(address),
}

// command adapts a function to testscript.
func command(f func(w *world, read func(string) string, args []string) (string, error)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		w := ts.Value(worldKey{}).(*world)
		read := func(file string) string { return os.Expand(ts.ReadFile(file), ts.Getenv) }
		out, err := f(w, read, args)
		if err != nil {
			out += err.Error() + "\n"
		}
		for _, kv := range append(w.aliases(), w.parts()...) {
			ts.Setenv(kv[0], kv[1])
		}
		out = w.told(out)
		ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(out), 0o644))
		switch {
		case err != nil && !neg:
			ts.Fatalf("%s", out)
		case err == nil && neg:
			ts.Fatalf("succeeded: %s", out)
		}
	}
}

func host(w *world, read func(string) string, args []string) (string, error) {
	force := args[0] == "-force"
	if force {
		args = args[1:]
	}
	spec, err := desired.Parse(args[0], []byte(read(args[0])))
	if err != nil {
		return "", err
	}
	w.spec = spec
	w.node.SetSpec(spec)
	return "", w.node.Reconciler.Apply(context.Background(), force)
}

func plan(w *world, read func(string) string, args []string) (string, error) {
	spec, err := desired.Parse(args[0], []byte(read(args[0])))
	if err != nil {
		return "", err
	}
	plans, err := w.node.Reconciler.PlanFor(context.Background(), spec)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range plans {
		describe(&b, p)
	}
	return b.String(), nil
}

func describe(b *strings.Builder, p reconcile.PFPlan) {
	if p.Err != nil {
		fmt.Fprintln(b, p.Err)
	}
	for _, c := range p.Changes {
		fmt.Fprintf(b, "%s: %s\n", p.PF.Label(), c)
	}
	if err := p.Refused(); err != nil {
		fmt.Fprintln(b, err)
	}
}

func pass(w *world, _ func(string) string, _ []string) (string, error) {
	return "", w.node.Reconciler.Pass(context.Background())
}

func restart(w *world, _ func(string) string, _ []string) (string, error) {
	w.faults.Fail(nil)
	if err := w.stop(); err != nil {
		return "", err
	}
	return "", w.start()
}

func changeNetns(w *world, _ func(string) string, args []string) (string, error) {
	if args[0] == "add" {
		w.netns = append(w.netns, args[1])
		return "", w.AddNetns(netnsPath(args[1]))
	}
	return "", w.DelNetns(netnsPath(args[1]))
}

func callCNI(w *world, read func(string) string, args []string) (string, error) {
	req := api.CNIRequest{Command: args[0], ContainerID: args[1], IfName: args[2], Config: []byte(read(args[4]))}
	if args[3] != "-" {
		req.Netns = netnsPath(args[3])
	}
	if len(args) > 5 {
		req.Args = args[5]
	}
	params, err := json.Marshal(req)
	if err != nil {
		return "", err
	}
	answer, err := w.cni.Serve(context.Background(), params, nil)
	if err != nil {
		return "", err
	}
	w.node.VFs.Wait() // for the announcement
	resp := answer.(api.CNIResponse)
	out := indent(resp.Stdout)
	if resp.Exit != 0 {
		return out, fmt.Errorf("exit status %d", resp.Exit)
	}
	return out, nil
}

func callVM(w *world, read func(string) string, args []string) (string, error) {
	if args[0] == "detach" {
		req := api.GuestDetachRequest{Guest: args[1]}
		if len(args) > 2 {
			req.Device = args[2]
		}
		answer, err := callGuests(w.guests.Detach, req)
		done, _ := answer.(api.GuestDetached)
		return text.GuestDetached(done), err
	}
	hooks := map[string]rpc.Handler{"start": w.guests.Start, "stop": w.guests.Stop, "created": w.guests.PortCreated, "deleted": w.guests.PortDeleted}
	if args[0] == "port" {
		args = args[1:]
	}
	if hook := hooks[args[0]]; hook != nil {
		answer, err := callGuests(hook, api.GuestReport{XML: []byte(read(args[1]))})
		if said, _ := answer.(api.GuestAnswer); said.Refused != "" {
			return "", errors.New(said.Refused)
		}
		return "", err
	}
	device, apart, _ := strings.Cut(args[2], "/")
	req := api.GuestXMLRequest{Definition: read(args[1]), Device: device, Apart: apart, Pool: args[3], Way: args[4]}
	if len(args) > 5 {
		if err := json.Unmarshal([]byte(read(args[5])), &req.Spec); err != nil {
			return "", err
		}
	}
	answer, err := callGuests(w.guests.XML, req)
	given, _ := answer.(api.GuestXML)
	return given.Definition + given.Network, err
}

func listGuests(w *world, read func(string) string, args []string) (string, error) {
	problems, err := w.list.Compare(context.Background(), func(context.Context) (out []guestintake.Seen, err error) {
		for _, arg := range args {
			state, files, _ := strings.Cut(arg, "=")
			live, next, two := strings.Cut(files, ",")
			if !two {
				next = live
			}
			def, err := guest.Parse([]byte(read(next)))
			if err != nil {
				return nil, err
			}
			g := guestintake.Seen{UUID: def.UUID, Name: def.Name, Next: def}
			if state == "on" {
				g.Running = true
				if g.Live, err = guest.Parse([]byte(read(live))); err != nil {
					return nil, err
				}
			}
			out = append(out, g)
		}
		return out, nil
	})
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s: %s: %s\n", p.Object, p.Reason, p.Next)
	}
	return b.String(), err
}

func open(w *world, _ func(string) string, args []string) (string, error) {
	_, v, err := w.vf(args[0])
	if err != nil {
		return "", err
	}
	return "", w.Open(v.PCI, vf.Process{PID: 4711, Name: "qemu-system-x86"})
}

func closed(w *world, _ func(string) string, args []string) (string, error) {
	_, v, err := w.vf(args[0])
	if err != nil {
		return "", err
	}
	return "", w.Open(v.PCI)
}

func tune(w *world, _ func(string) string, args []string) (string, error) {
	_, v, err := w.vf(args[0])
	if err != nil {
		return "", err
	}
	return "", w.Tune(v.PCI, netnsPath(args[1]), args[2])
}

func looks(w *world, _ func(string) string, args []string) (string, error) {
	_, v, err := w.vf(args[0])
	if err != nil {
		return "", err
	}
	return w.Looks(v.PCI, netnsPath(args[1]), args[2])
}

func netdevices(w *world, _ func(string) string, _ []string) (string, error) {
	shown, err := w.Netdevices()
	return fmt.Sprintln(shown), err
}

func callGuests(method rpc.Handler, req any) (any, error) {
	params, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	return method(context.Background(), params)
}

func indent(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	pretty, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return string(raw)
	}
	return string(pretty) + "\n"
}

func fault(w *world, _ func(string) string, args []string) (string, error) {
	if args[0] == "off" {
		w.faults.Fail(nil)
		return "", nil
	}
	var done atomic.Bool
	w.faults.Fail(func(m faulty.Moment, s step.Step) error {
		switch {
		case faulty.Kind(s) != args[1]:
		case args[0] == "always" && m == faulty.Before:
			return errors.New("no luck")
		case string(m) == args[0] && done.CompareAndSwap(false, true):
			return fmt.Errorf("no luck %s it", m)
		}
		return nil
	})
	return "", nil
}

func advance(w *world, _ func(string) string, args []string) (string, error) {
	d, err := time.ParseDuration(args[0])
	w.clock.Add(int64(d))
	return "", err
}

func meddle(w *world, _ func(string) string, args []string) (string, error) {
	pf, v, err := w.vf(args[0])
	if err != nil {
		return "", err
	}
	if args[1] == "home" { // from another netns, under its name
		records, err := w.records()
		for _, r := range records {
			if r.ID == v.ID {
				err = w.Do(context.Background(), step.Move{VF: v.PCI, From: netnsPath(args[2]), Name: r.Baseline.Name})
			}
		}
		return "", err
	}
	s, err := meddling(pf, v, args[1:])
	if err != nil {
		return "", err
	}
	return "", w.Do(context.Background(), s)
}

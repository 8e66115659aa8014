// Package story is a node on a kernel in memory on which owners have VFs. Two versions of Culvert
// bring their kernels to the same state by the same calls. So one can go on with the ledger of the
// other, as after an upgrade or a rollback.
//
// Package skew compiles this package in the tree of an older commit, too. So it uses only what both
// trees have.
package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing/fstest"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/intake/guest"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/node/status/gather"
	"github.com/culvert-net/culvert/internal/rpc"
)

const hostYAML = `pfs:
- {name: "*", vfs: 6}
pools:
- name: net
  prefix: skew.dev
  selectors: {pfNames: ["enp1s0#0-3", "enp2s0#0-3"]}
- name: user
  prefix: skew.dev
  deviceType: vfio-pci
  selectors: {pfNames: ["enp1s0#4-5", "enp2s0#4-5"]}
`

// Netns is the network namespace of each of the containers.
func Netns(container string) string { return "/run/netns/" + container }

// containers are those that have a network namespace. C1 has a VF with an address, a VLAN and a
// rate, and C2 a bond. The reset of C3's VF failed. The others have none.
var containers = []string{"c1", "c2", "c3", "c4"}

// Config returns the configuration of a container's network. A bond has one of its own.
func Config(container string) string {
	name, more := "plain", `"vlan": 42, "max_tx_rate": 70, "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}`
	if container == "c2" {
		name, more = "pair", `"bond": {}, "mtu": 1400, "ipam": {"type": "host-local", "subnet": "10.2.0.0/24"}`
	}
	return fmt.Sprintf(`{"cniVersion": "1.1.0", "name": %q, "type": "culvert", "pool": "skew.dev/net", %s}`, name, more)
}

// guestDefinition is the definition of the guest db1, which gets the device net1.
const guestDefinition = `<domain type='kvm'>
  <name>db1</name>
  <uuid>11111111-f6a4-8304-79aa-97f2502e193f</uuid>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
  </devices>
</domain>`

// Run brings the kernel to the state of the story, and serves the socket DIR/s until ctx ends. If
// DIR has a ledger, Run goes on with it. Otherwise DIR gets the ledger of the story, the answer to
// the ADD of each container, and the definition of the guest with its device.
func Run(ctx context.Context, dir string) error {
	profile := fake.IGB
	profile.TotalVFs = 6
	k := fake.New(profile, 2)
	for _, c := range containers {
		k.AddNetns(Netns(c))
	}
	faults := faulty.New(k)
	path := filepath.Join(dir, "ledger.db")
	_, err := os.Stat(path)
	isOther := err == nil
	if err := tell(ctx, faults, dir, isOther); err != nil {
		return fmt.Errorf("before it can go on: %w", err)
	}
	faults.Fail(nil)
	l, err := open(ctx, faults, path)
	if err != nil {
		return err
	}
	defer l.close()
	return l.serve(ctx, k, filepath.Join(dir, "s"))
}

// tell gives VFs to the owners of the story. If the directory has the ledger of another life, the
// one of this life is only needed to bring the kernel there.
func tell(ctx context.Context, faults *faulty.Kernel, dir string, isOther bool) (err error) {
	to := dir
	if isOther {
		if to, err = os.MkdirTemp(dir, "before"); err != nil {
			return err
		}
		defer os.RemoveAll(to)
	}
	l, err := open(ctx, faults, filepath.Join(to, "ledger.db"))
	if err != nil {
		return err
	}
	defer l.close()
	for _, c := range containers[:3] {
		answer, err := l.callCNI(ctx, "ADD", c)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, c+".json"), answer, 0o600)
		}
		if err != nil {
			return err
		}
	}
	params, err := json.Marshal(api.GuestXMLRequest{Definition: guestDefinition, Device: "net1", Pool: "skew.dev/user", Way: "hostdev"})
	if err != nil {
		return err
	}
	given, err := l.guests.XML(ctx, params)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "db1.xml"), []byte(given.(api.GuestXML).Definition), 0o600); err != nil {
		return err
	}
	faults.Fail(func(_ faulty.Moment, s step.Step) error {
		if faulty.Kind(s) == "SetVFRate" {
			return errors.New("no luck")
		}
		return nil
	})
	_, err = l.callCNI(ctx, "DEL", "c3")
	return err
}

// life is culvertd from its start to its end.
type life struct {
	ledger *journal.Ledger
	path   string
	node   *node.Node
	cni    *cni.Handler
	guests *guest.Handler
}

// open starts culvertd. Each life begins at the same time, so that no retry is due in one of them only.
func open(ctx context.Context, k node.Kernel, path string) (*life, error) {
	begin := time.Now()
	now := func() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC).Add(time.Since(begin)) }
	ledger, err := journal.Open(path, journal.Options{NoSync: true, Now: now})
	if err != nil {
		return nil, err
	}
	spec, err := desired.Parse("host.yaml", []byte(hostYAML))
	if err != nil {
		return nil, errors.Join(err, ledger.Close())
	}
	n := node.New(node.Config{Kernel: k, Ledger: ledger, BootID: "this boot", Now: now})
	l := &life{
		ledger: ledger, path: path, node: n,
		cni:    cni.New(cni.Parts{Engine: n.Engine, Resets: n.Resets, VFs: n.VFs}),
		guests: guest.New(guest.Parts{Engine: n.Engine, Resets: n.Resets, VFs: n.VFs, Upkeep: n.Upkeep}, ledger),
	}
	n.SetSpec(spec)
	if err := n.Start(ctx); err != nil {
		return nil, errors.Join(err, ledger.Close())
	}
	return l, n.Reconciler.Pass(ctx)
}

func (l *life) close() {
	l.node.VFs.Wait()
	_ = l.ledger.Close()
}

func (l *life) callCNI(ctx context.Context, command, container string) ([]byte, error) {
	params, err := json.Marshal(api.CNIRequest{Command: command, ContainerID: container, Netns: Netns(container), IfName: "net1", Config: []byte(Config(container))})
	if err != nil {
		return nil, err
	}
	answer, err := l.cni.Serve(ctx, params, nil)
	if err != nil {
		return nil, err
	}
	l.node.VFs.Wait()
	out := answer.(api.CNIResponse)
	if out.Exit != 0 {
		return nil, fmt.Errorf("%s %s: %s", command, container, out.Stdout)
	}
	return out.Stdout, nil
}

// serve answers what runtimes, libvirt's hooks and people ask.
func (l *life) serve(ctx context.Context, k *fake.Kernel, socket string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := rpc.Listen(socket)
	if err != nil {
		return err
	}
	g := &gather.Gatherer{
		Version: "unknown", Node: l.node, Kernel: k, Claims: &claims.Reader{Root: fstest.MapFS{}}, Log: log,
		Ready: func() bool { return true }, Problems: func() []api.Problem { return nil },
	}
	srv := rpc.NewServer(func(*net.UnixConn) error { return nil }, log)
	srv.Handle(api.MethodStatus, func(ctx context.Context, _ json.RawMessage) (any, error) { return g.Status(ctx) })
	srv.Handle(api.MethodLedger, func(context.Context, json.RawMessage) (any, error) {
		c, err := g.Ledger()
		return status.Ledger(l.path, c), err
	})
	srv.HandleStream(api.MethodEvents, l.sendEvents)
	srv.HandleDialog(api.MethodCNI, func(ctx context.Context, params json.RawMessage, ask rpc.Ask) (any, error) {
		return l.cni.Serve(ctx, params, cni.Ask(ask))
	})
	srv.Handle(api.MethodGuestXML, l.guests.XML)
	srv.Handle(api.MethodGuestDetach, l.guests.Detach)
	srv.Handle(api.MethodGuestStart, l.guests.Start)
	srv.Handle(api.MethodGuestStop, l.guests.Stop)
	return srv.Serve(ctx, listener)
}

func (l *life) sendEvents(_ context.Context, _ json.RawMessage, send func(any) error) error {
	var all []api.Event
	err := l.ledger.View(func(tx *journal.Tx) error {
		for _, e := range tx.Events(0) {
			all = append(all, api.Event(e))
		}
		return nil
	})
	for _, e := range all {
		err = errors.Join(err, send(e))
	}
	return err
}

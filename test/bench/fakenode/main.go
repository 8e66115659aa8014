// Command fakenode is culvertd with a kernel in memory that has 4 PFs of 64
// VFs each: what the memory of a large node is measured with. It serves CNI and
// nothing else.
//
//	fakenode DIR       socket, ledger and all in DIR
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/daemon"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/intake/cni"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/fake"
	"github.com/culvert-net/culvert/node"
	"github.com/culvert-net/culvert/rpc"
)

const hostYAML = `pfs:
- {name: enp1s0, vfs: 64}
- {name: enp2s0, vfs: 64}
- {name: enp3s0, vfs: 64}
- {name: enp4s0, vfs: 64}
pools:
- name: fast
  prefix: bench.dev
  selectors: {drivers: [igbvf]}
`

// sandboxes is how many netns there are: /run/netns/pod-0 and on.
const sandboxes = 256

func main() {
	daemon.SetCollector(os.Getenv("GOGC"))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakenode:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	profile := fake.IGB
	profile.TotalVFs = 64
	k := fake.New(profile, 4)
	for i := range sandboxes {
		k.AddNetns(fmt.Sprintf("/run/netns/pod-%d", i))
	}
	ledger, err := journal.Open(filepath.Join(dir, "ledger.db"), journal.Options{})
	if err != nil {
		return err
	}
	defer ledger.Close()
	spec, err := desired.Parse("host.yaml", []byte(hostYAML))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	node := node.New(node.Config{Kernel: k, Ledger: ledger, BootID: "one", Log: log})
	node.SetSpec(spec)
	if err := node.Start(ctx); err != nil {
		return err
	}
	if err := node.Reconciler.Pass(ctx, false); err != nil {
		return err
	}
	l, err := rpc.Listen(filepath.Join(dir, "culvertd.sock"))
	if err != nil {
		return err
	}
	srv := rpc.NewServer(func(*net.UnixConn) error { return nil }, log)
	srv.Handle(api.MethodCNI, cni.New(node.Engine).Serve)
	srv.Handle("ready", func(context.Context, json.RawMessage) (any, error) { return node.Inventory.PFs(), nil })
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return srv.Serve(ctx, l) })
	g.Go(func() error { return node.Reconciler.Run(ctx, func() {}) })
	return g.Wait()
}

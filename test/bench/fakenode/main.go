// Command fakenode is culvertd with a kernel in memory that has 4 PFs of 64 VFs each.
// Benchmarks measure the memory of a large node with it. It serves CNI and the ledger,
// and nothing else.
//
//	fakenode DIR [URL]   socket, ledger and all in DIR; as node n1 of the cluster whose API server is at URL
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
	"k8s.io/client-go/rest"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/daemon"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/node/status/gather"
	"github.com/culvert-net/culvert/internal/rpc"
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
	daemon.SetCollector(os.Getenv("GOGC"), os.Getenv("GOMEMLIMIT"))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := runNode(ctx, os.Args[1], os.Args[2:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakenode:", err)
		os.Exit(1)
	}
}

func runNode(ctx context.Context, dir string, cluster []string) error {
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
	if err := node.Reconciler.Pass(ctx); err != nil {
		return err
	}
	l, err := rpc.Listen(filepath.Join(dir, "culvertd.sock"))
	if err != nil {
		return err
	}
	srv := rpc.NewServer(func(*net.UnixConn) error { return nil }, log)
	srv.Handle("ready", func(context.Context, json.RawMessage) (any, error) { return node.Inventory.PFs(), nil })
	srv.Handle(api.MethodLedger, func(context.Context, json.RawMessage) (any, error) {
		c, err := (&gather.Gatherer{Node: node}).Ledger()
		return status.LedgerAnswer(status.Ledger(journal.DefaultPath, c)), err
	})
	g, ctx := errgroup.WithContext(ctx)
	if len(cluster) == 0 {
		srv.HandleDialog(api.MethodCNI, func(ctx context.Context, params json.RawMessage, ask rpc.Ask) (any, error) {
			return cni.New(cni.Parts{Engine: node.Engine, Resets: node.Resets, VFs: node.VFs}).Serve(ctx, params, cni.Ask(ask))
		})
	} else {
		client, err := kube.New(&rest.Config{Host: cluster[0]}, "n1", log)
		if err != nil {
			return err
		}
		networks := networksOfPods(dir, k, node, client)
		srv.HandleDialog(api.MethodCNI, func(ctx context.Context, params json.RawMessage, ask rpc.Ask) (any, error) {
			return networks.Serve(ctx, params, cni.Ask(ask))
		})
		srv.Handle("synced", func(ctx context.Context, _ json.RawMessage) (any, error) { return client.WaitForSync(ctx), nil })
		g.Go(func() error { return client.Run(ctx) })
	}
	g.Go(func() error { return srv.Serve(ctx, l) })
	g.Go(func() error { return node.Reconciler.Run(ctx, func(string) {}, func() {}) })
	return g.Wait()
}

// networksOfPods serves all networks of pods, which have no VFs of the kubelet. DIR/net.d
// has the default network.
func networksOfPods(dir string, k *fake.Kernel, n *node.Node, client *kube.Client) *pod.Handler {
	return pod.New(pod.Config{
		Networks: cni.New(cni.Parts{Engine: n.Engine, Resets: n.Resets, VFs: n.VFs}), Ledger: n.Ledger, Resets: n.Resets, Kernel: k, Hardware: n.Inventory, Cluster: client,
		Devices: func(context.Context, string, string, string) ([]string, error) { return nil, nil },
		ConfDir: filepath.Join(dir, "net.d"), DeviceInfo: filepath.Join(dir, "devinfo"),
	})
}

package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/service/agent"
	"github.com/culvert-net/culvert/internal/node/service/table"
	"github.com/culvert-net/culvert/internal/vf"
)

// oneService is a cluster with one Service of one backend over the network default/net1.
type oneService struct{ ip, backend netip.AddrPort }

func (o oneService) Services() (table.Input, bool) {
	port := func(at netip.AddrPort) []table.Port {
		return []table.Port{{Number: at.Port(), Protocol: balance.TCP}}
	}
	return table.Input{
		Services: []*table.Service{{Name: "default/web", ClusterIPs: []netip.Addr{o.ip.Addr()}, Ports: port(o.ip)}},
		Slices: []*table.Slice{{Name: "default/web-1", Service: "default/web", Network: service.Network{Namespace: "default", Name: "net1"}, Ports: port(o.backend),
			Endpoints: []table.Endpoint{{Addr: o.backend.Addr(), Ready: true, Serving: true}}}},
	}, true
}
func (oneService) ServicesChanged() <-chan struct{}         { return change.NewWake() }
func (oneService) WhyNoServices() error                     { return nil }
func (oneService) PodEvent(api.Pod, string, string, string) {}
func (oneService) Known(namespace, name string) (api.Pod, bool) {
	return api.Pod{Namespace: namespace, Name: name, Annotations: map[string]string{netannotation.Status: `[{"name": "default/net1", "interface": "net1"}]`}}, true
}

// withoutCgroup2 calls fn in a thread of its own that sees no cgroup hierarchy and an empty BPF file
// system, as on a host that has neither.
func withoutCgroup2(t *testing.T, fn func()) error {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/bpf"} {
			if _, none := os.Stat(dir); none == nil {
				err = errors.Join(err, unix.Mount("none", dir, "tmpfs", 0, ""))
			}
		}
		if err == nil {
			fn()
		}
		done <- err
	}()
	return <-done
}

// TestNodeWithoutCgroup2: where the host has no cgroup2 hierarchy, culvertd's mechanisms choose
// nftables by probing, the status says why, and a connection to a ClusterIP reaches the backend.
func TestNodeWithoutCgroup2(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making namespaces needs root")
	}
	pod := filepath.Join(t.TempDir(), "pod")
	if err := netns.New(pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(pod); err != nil {
			t.Error(err)
		}
	})
	cluster := oneService{netip.MustParseAddrPort("10.96.0.1:80"), netip.MustParseAddrPort("172.16.91.1:8080")}
	err := netns.Run(pod, func() error {
		for _, line := range []string{"ip link set lo up", "ip addr add 172.16.91.1/32 dev lo", "ip route add 10.96.0.0/12 dev lo"} {
			args := strings.Fields(line)
			if err := exec.Command(args[0], args[1:]...).Run(); err != nil {
				return err
			}
		}
		l, err := net.Listen("tcp", cluster.backend.String())
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				_, _ = c.Write([]byte("hello"))
				_ = c.Close()
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	err = ledger.Update(func(tx *journal.Tx) error {
		return tx.Put(journal.Record{ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}}, Phase: vf.PhaseAttached, Generation: 1,
			Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "s1", Name: "default/a", Interface: "net1"}, Netns: pod, Network: "net1"}})
	})
	if err != nil {
		t.Fatal(err)
	}

	s := &Server{Config: Config{ProcRoot: t.TempDir()}}
	a := agent.New(agent.Config{Cluster: cluster, Ledger: ledger, Mechanisms: s.listMechanisms(), Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return withoutCgroup2(t, func() { a.Run(ctx) }) })
	t.Cleanup(stop)
	for end := time.Now().Add(time.Minute); a.Status() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			stop()
			t.Fatalf("no status: %v, %v", a.Problems(), g.Wait())
		}
	}
	st, problems := a.Status(), a.Problems()
	if !strings.Contains(st.Why, "not eBPF: the host has no cgroup2 hierarchy at /sys/fs/cgroup or /sys/fs/cgroup/unified") {
		t.Errorf("status is %+v", st)
	}
	if st.Mechanism != "nftables" || len(problems) > 0 {
		if os.Getenv("CULVERT_LAB_NODE") == "" && len(problems) > 0 {
			t.Skipf("this kernel has no nftables: %v", problems)
		}
		t.Fatalf("status is %+v, problems are %v", st, problems)
	}
	err = netns.Run(pod, func() error {
		c, err := net.DialTimeout("tcp", cluster.ip.String(), time.Minute)
		if err != nil {
			return err
		}
		defer c.Close()
		text, err := io.ReadAll(c)
		if string(text) != "hello" {
			t.Errorf("the backend says %q", text)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

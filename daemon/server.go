package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/claims"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/intake/deviceplugin"
	"github.com/culvert-net/culvert/intake/pod"
	"github.com/culvert-net/culvert/intake/vm"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel"
	"github.com/culvert-net/culvert/kube"
	"github.com/culvert-net/culvert/rpc"
	"github.com/culvert-net/culvert/vf"
)

// Config is what culvertd's flags say.
type Config struct {
	HostFile string // host.yaml
	Ledger   string // path of the ledger
	Socket   string // path of the socket
	Version  string
	Log      *slog.Logger

	// PluginDir is where culvertd installs the CNI plugin; empty: somebody else
	// does.
	PluginDir string
	// Kubernetes is whether this is a node of a cluster, and KubeletDir its
	// kubelet's root folder.
	Kubernetes bool
	KubeletDir string
	Cluster    ClusterConfig
}

// Server is culvertd: a Node with a socket in front.
type Server struct {
	Config
	node   *Node
	kernel *kernel.Kernel
	ready  atomic.Bool
	// fileProblem is why host.yaml is not followed, until it is read again.
	fileProblem atomic.Pointer[api.Problem]
	others      *claims.Reader       // of other network managers' files
	made        chan struct{}        // closed when culvertd is ready
	pods        *deviceplugin.Plugin // nil without Kubernetes
	cluster     *kube.Client         // nil without a connection to a cluster
	wishes      *wishes
	guests      *follower    // of libvirt's guests
	member      *member      // nil without a connection to a cluster
	meta        *pod.Handler // nil where the networks of pods are not Culvert's
	// clusterProblem is why there is no connection to the cluster.
	clusterProblem *api.Problem
}

// Run serves until the context ends. It is ready, and says so to systemd
// (sd_notify), after the first pass over the hardware: whatever starts after
// culvertd finds its VFs made.
func Run(ctx context.Context, c Config) (err error) {
	k := kernel.New(kernel.Options{Log: c.Log})
	boot, err := kernel.BootID("/proc")
	if err != nil {
		return err
	}
	ledger, err := journal.Open(c.Ledger, journal.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	s := &Server{Config: c, kernel: k, others: &claims.Reader{Root: os.DirFS("/")}, made: make(chan struct{}), node: NewNode(NodeConfig{Kernel: k, Ledger: ledger, BootID: boot, Log: c.Log})}
	s.wishes, s.guests = &wishes{node: s.node}, newFollower(s.node, c.Log)
	s.readHostFile()
	if err := s.installPlugin(); err != nil {
		return err
	}
	if c.Kubernetes {
		s.pods = s.node.DevicePlugin(c.KubeletDir, c.Log)
		if err := s.joinCluster(); err != nil {
			return err
		}
	}
	listener, err := rpc.Listen(c.Socket) // before anything is touched: two culvertd must not share a host
	if err != nil {
		return err
	}
	if err := s.node.Start(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	srv := rpc.NewServer(authorize, c.Log)
	g, ctx := errgroup.WithContext(ctx)
	s.register(ctx, srv)
	g.Go(func() error { return srv.Serve(ctx, listener) })
	if s.cluster != nil {
		g.Go(func() error { return s.serveCluster(ctx) })
	}
	g.Go(func() error { return s.node.Reconciler.Run(ctx, s.announceReady) })
	g.Go(func() error { return s.followGuests(ctx) })
	if s.pods != nil {
		g.Go(func() error { return s.followHardware(ctx) })
		g.Go(func() error { return s.serveKubelet(ctx, s.pods) })
	}
	err = g.Wait()
	_, _ = sd.SdNotify(false, sd.SdNotifyStopping)
	s.node.Engine.Wait()
	return errors.Join(err, s.leave(context.WithoutCancel(ctx)))
}

func (s *Server) announceReady() {
	s.ready.Store(true)
	close(s.made)
	if s.member != nil {
		s.member.tell.Notify()
	}
	if _, err := sd.SdNotify(false, sd.SdNotifyReady); err != nil {
		s.Log.Warn("tell systemd that culvertd is ready", "err", err)
	}
	s.Log.Info("ready", "pfs", len(s.node.Inventory.PFs()), "socket", s.Socket)
}

// authorize lets root in, and whoever culvertd runs as: a client may give away
// and take every VF of the host.
func authorize(c *net.UnixConn) error {
	peer, err := kernel.PeerCredentials(c)
	if err != nil {
		return err
	}
	if peer.UID != 0 && int(peer.UID) != os.Geteuid() {
		return fmt.Errorf("process %d runs as user %d: only root may talk to culvertd: use sudo", peer.PID, peer.UID)
	}
	return nil
}

// register adds the methods; ctx ends when culvertd begins to stop.
func (s *Server) register(ctx context.Context, srv *rpc.Server) {
	s.registerCNI(srv)
	guests := vm.New(s.node.Engine, s.node.Ledger)
	srv.Handle(api.MethodGuestXML, guests.XML)
	srv.Handle(api.MethodGuestDetach, guests.Detach)
	srv.Handle(api.MethodGuestStart, s.whenMade(guests.Start))
	srv.Handle(api.MethodGuestStop, guests.Stop)
	srv.Handle(api.MethodPortCreated, s.whenMade(guests.PortCreated))
	srv.Handle(api.MethodPortDeleted, guests.PortDeleted)
	srv.Handle("status", s.status)
	srv.HandleStream("events", s.streamEvents)
	srv.Handle("ledger", s.ledger)
	srv.Handle("host.plan", s.hostPlan)
	srv.Handle("host.apply", s.hostApply)
	srv.HandleDialog("vf.lendRate", s.lendRate(ctx))
}

// whenMade has a question wait until the host's VFs are made: before that the ledger
// knows none of them.
func (s *Server) whenMade(answer rpc.Handler) rpc.Handler {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		select {
		case <-s.made:
			return answer(ctx, params)
		case <-ctx.Done():
			return nil, fmt.Errorf("culvertd still makes the host's VFs: %w", context.Cause(ctx))
		}
	}
}

// readHostFile makes host.yaml the node's wish. One that cannot be read leaves
// the host as it is: nothing is made, nothing is taken. A node of a cluster needs
// none.
func (s *Server) readHostFile() {
	content, err := os.ReadFile(s.HostFile)
	if errors.Is(err, os.ErrNotExist) && s.Kubernetes {
		s.fileProblem.Store(nil)
		return
	}
	if errors.Is(err, os.ErrNotExist) {
		s.fileProblem.Store(&api.Problem{Object: "host", Reason: s.HostFile + " is not there, so nothing is wanted of this host",
			Next: "write one (culvert host --help shows how) and run culvert host apply"})
		return
	}
	var spec desired.Spec
	if err == nil {
		spec, err = desired.Parse(s.HostFile, content)
	}
	if err != nil {
		s.Log.Error("read the host's wishes", "file", s.HostFile, "err", err)
		s.fileProblem.Store(&api.Problem{Object: "host", Reason: err.Error(), Since: time.Now(),
			Next: "mend it and run culvert host apply; until then the host stays as it is"})
		return
	}
	s.fileProblem.Store(nil)
	s.wishes.setHost(spec)
	s.wishes.merge()
}

// conditions are what the parts of culvertd report as wrong.
func (s *Server) conditions() []api.Problem {
	var out []api.Problem
	if p := s.fileProblem.Load(); p != nil {
		out = append(out, *p)
	}
	out = append(out, s.wishes.problems()...)
	out = append(out, s.node.problems()...)
	out = append(out, s.guests.problems()...)
	if s.pods != nil {
		out = append(out, s.pods.Problems()...)
	}
	if s.clusterProblem != nil {
		out = append(out, *s.clusterProblem)
	}
	return out
}

// users are the processes that have VFs open which are handed to user space. The
// picture goes without them when they cannot be read.
func (s *Server) users(ctx context.Context, records []journal.Record) map[vf.PCIAddr][]vf.Process {
	var handed []vf.PCIAddr
	for _, r := range records {
		if r.Phase == journal.Attached && r.Lease.Wanted.Driver == vf.DriverVFIO || r.Phase == journal.Quarantined {
			handed = append(handed, r.PCI)
		}
	}
	if len(handed) == 0 {
		return nil
	}
	out, err := s.kernel.Users(ctx, handed...)
	if err != nil {
		s.Log.Warn("status", "err", err)
	}
	return out
}

// seen reads the attached VFs where their owners have them.
func (s *Server) seen(ctx context.Context, records []journal.Record) map[vf.ID]vf.State {
	states := make([]vf.State, len(records))
	var g errgroup.Group
	g.SetLimit(8)
	for i, r := range records {
		if r.Phase != journal.Attached {
			continue
		}
		g.Go(func() error {
			if st, err := s.kernel.VF(ctx, r.PCI, r.Lease.Netns); err == nil {
				states[i] = st
			}
			return nil
		})
	}
	_ = g.Wait()
	out := map[vf.ID]vf.State{}
	for i, st := range states {
		if !st.PCI.IsZero() {
			out[records[i].ID] = st
		}
	}
	return out
}

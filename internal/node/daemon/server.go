// Package daemon is culvertd: it makes a Server of a node, the intakes, the socket, and in a
// cluster the parts for the kubelet and the API server. It composes other packages and decides only
// which of them run and in which order. cmd/culvertd runs it.
package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/guard"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/node/intake/deviceplugin"
	"github.com/culvert-net/culvert/internal/node/intake/guest"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/membership"
	"github.com/culvert-net/culvert/internal/node/metrics"
	"github.com/culvert-net/culvert/internal/node/segment"
	"github.com/culvert-net/culvert/internal/node/service/agent"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/node/status/gather"
	"github.com/culvert-net/culvert/internal/node/trial"
	"github.com/culvert-net/culvert/internal/rpc"
)

// Config has the values of culvertd's flags.
type Config struct {
	HostFile string // host.yaml
	Ledger   string // path of the ledger
	// KeepEvents is how many events the ledger keeps; 0 stands for journal.DefaultEvents.
	KeepEvents int
	Socket     string // path of the socket
	Version    string
	Log        *slog.Logger

	// Metrics is the address where Prometheus reads metrics; empty: nowhere.
	Metrics string

	// SegmentDiscovery is whether PFs send frames to find out which of them share a segment.
	SegmentDiscovery bool

	// ProcRoot is the path of the host's /proc.
	ProcRoot string

	// PluginDir has the CNI plugin, which culvertd removes when its DaemonSet is deleted;
	// empty: culvertd removes none.
	PluginDir string
	// Kubernetes is whether this is a node of a cluster, and KubeletDir its
	// kubelet's root folder.
	Kubernetes bool
	KubeletDir string
	Cluster    ClusterConfig
}

// Server is culvertd: a node with a socket in front, and in a cluster the kubelet and the
// API server beside it.
type Server struct {
	Config
	node     *node.Node
	kernel   *kernel.Kernel
	sources  *sources.Set
	hostFile *sources.HostFile
	trials   *trial.Keeper
	status   *gather.Gatherer
	guests   *guest.Follower
	faults   *node.Faults
	segments *segment.Watcher // nil: switched off
	metrics  *metrics.Node
	ready    atomic.Bool
	made     chan struct{}          // closed when the VFs are made
	missing  atomic.Pointer[string] // entries of host.yaml without a PF

	// Nil where culvertd does not run in a cluster.
	pods *deviceplugin.Plugin
	// Nil without a connection to the cluster, and clusterProblem says why.
	cluster        *kube.Client
	clusterProblem *api.Problem
	member         *membership.Member
	definitions    config.Definitions
	services       *agent.Agent
	claims         *claimParts
	networks       *pod.Handler // nil too where another meta plugin sets up pods' networks
}

// Run serves until the context ends. Run notifies systemd (sd_notify) after the first
// pass over the hardware, so that units ordered after culvertd find its VFs.
func Run(ctx context.Context, c Config) (err error) {
	k := kernel.New(kernel.Options{ProcRoot: c.ProcRoot, Log: c.Log, Guards: guard.Tables{}})
	boot, err := kernel.BootID(c.ProcRoot)
	if err != nil {
		return fmt.Errorf("--proc %s: %w: name the folder where the host's /proc is", c.ProcRoot, err)
	}
	counts := metrics.NewNode()
	ledger, err := journal.Open(c.Ledger, journal.Options{KeepEvents: c.KeepEvents, Observe: counts.ObserveCommit})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	s := newServer(c, node.New(node.Config{Kernel: k, Ledger: ledger, BootID: boot, Log: c.Log}), k, boot, counts)
	s.followSegments(segment.NewNodeID(boot))
	s.trials.Resume()
	if err := s.joinKubernetes(); err != nil {
		return err
	}
	listener, err := rpc.Listen(c.Socket) // before anything is touched: two culvertd must not share a host
	if err != nil {
		return fmt.Errorf("--socket %s: %w", c.Socket, err)
	}
	if err := s.node.Start(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	err = s.serveAll(ctx, listener)
	_, _ = sd.SdNotify(false, sd.SdNotifyStopping)
	s.node.VFs.Wait()
	return errors.Join(err, s.leaveHost(context.WithoutCancel(ctx)))
}

// newServer puts a node's Server together. boot is the ID of this boot. It touches nothing.
func newServer(c Config, n *node.Node, k *kernel.Kernel, boot string, counts *metrics.Node) *Server {
	s := &Server{Config: c, node: n, kernel: k, metrics: counts, made: make(chan struct{}), faults: node.NewFaults(nil)}
	n.VFs.Observe = counts
	s.sources = sources.NewSet(n.Current, n.Inventory.PFs, n.Problems)
	s.sources.InCluster = c.Kubernetes
	s.hostFile = &sources.HostFile{Path: c.HostFile, Optional: c.Kubernetes, Sources: s.sources, Log: c.Log}
	s.trials = trial.New(trial.Config{
		Store: trial.File(filepath.Join(filepath.Dir(c.Ledger), "host-trial.json")), Boot: boot, File: s.hostFile, Host: n.Reconciler,
		Preview: s.sources.PreviewHost, Ledger: n.Ledger, Now: time.Now, Log: c.Log,
	})
	s.guests = guest.NewFollower(guest.Parts{Engine: n.Engine, Resets: n.Resets, VFs: n.VFs, Upkeep: n.Upkeep}, n.Ledger, c.Log)
	s.status = &gather.Gatherer{
		Version: c.Version, Node: n, Kernel: k, Claims: &claims.Reader{Root: os.DirFS("/")},
		Ready: s.ready.Load, Problems: s.listProblems, Trial: s.trials.Status, Errors: s.faults.Count, Log: c.Log,
		LedgerFile: func() (size, free uint64, err error) { return kernel.FileSpace(c.Ledger) },
	}
	s.metrics.AddStatus(s.status.Status)
	return s
}

// serveAll runs all parts of culvertd until ctx ends or one of them fails.
func (s *Server) serveAll(ctx context.Context, listener *rpc.Listener) error {
	srv := rpc.NewServer(authorizePeer, s.Log)
	g, ctx := errgroup.WithContext(ctx)
	s.registerMethods(ctx, srv)
	if s.Metrics != "" {
		g.Go(func() error { keepServingMetrics(ctx, s.Metrics, s.metrics.Handler(), s.Log, metricsRetry); return nil })
	}
	g.Go(func() error { return srv.Serve(ctx, listener) })
	g.Go(func() error { s.followErrors(ctx); return nil })
	g.Go(func() error { s.followTroubles(ctx); return nil })
	g.Go(func() error { s.runSegments(ctx); return nil })
	g.Go(func() error { return s.node.Reconciler.Run(ctx, s.announceMissing, s.announceReady) })
	g.Go(func() error { return s.trials.Run(ctx) })
	g.Go(func() error {
		if s.awaitVFs(ctx) {
			s.guests.Run(ctx)
		}
		return nil
	})
	g.Go(func() error { return s.followBonds(ctx) })
	if s.cluster != nil {
		g.Go(func() error { return s.serveCluster(ctx) })
	}
	if s.pods != nil {
		g.Go(func() error { return s.followHardware(ctx) })
		g.Go(func() error { return s.serveKubelet(ctx) })
	}
	if s.claims != nil {
		g.Go(func() error { return s.serveClaims(ctx) })
	}
	return g.Wait()
}

// announceReady releases the parts of culvertd that wait for the VFs, and reports to
// systemd and the cluster that the node is ready.
func (s *Server) announceReady() {
	s.ready.Store(true)
	close(s.made)
	if s.member != nil {
		s.member.WriteSoon()
	}
	if _, err := sd.SdNotify(false, sd.SdNotifyReady); err != nil {
		s.Log.Warn("report to systemd that culvertd is ready", "err", err)
	}
	if missing := s.missing.Load(); missing != nil {
		s.announceMissing(*missing)
	}
	s.Log.Info("ready", "pfs", len(s.node.Inventory.PFs()), "socket", s.Socket)
}

// announceMissing logs which entries of host.yaml match no PF, and shows it in systemctl status. The
// reconciler calls it before its first pass ends, so that an administrator sees why
// systemctl start waits.
func (s *Server) announceMissing(missing string) {
	s.missing.Store(&missing)
	state := "serves"
	if !s.ready.Load() {
		state = "makes the VFs"
	}
	switch {
	case missing != "" && !s.ready.Load():
		state = "waits up to a minute for NICs: " + missing
		s.Log.Warn("wait up to a minute for NICs of host.yaml, whose drivers may be late", "missing", missing)
	case missing != "":
		state = "serves without some NICs of host.yaml: " + missing
		s.Log.Warn("serve without NICs of host.yaml", "missing", missing)
	}
	if _, err := sd.SdNotify(false, "STATUS="+strings.ReplaceAll(state, "\n", " ")); err != nil {
		s.Log.Warn("report a status to systemd", "err", err)
	}
}

// listProblems returns the problems that culvertd's parts report.
func (s *Server) listProblems() []api.Problem {
	out := slices.Concat(s.hostFile.Problems(), s.trials.Problems(), s.sources.Problems(), s.node.Problems(), s.node.AddressProblems(), s.guests.Problems(), s.faults.Problems(), s.segmentProblems())
	if s.pods != nil {
		out = append(out, s.pods.Problems()...)
	}
	if s.clusterProblem != nil {
		out = append(out, *s.clusterProblem)
	}
	return slices.Concat(out, s.serviceProblems(), s.claims.listProblems())
}

// authorizePeer admits root and the user that culvertd runs as: a client may take and give
// away every VF of the host.
func authorizePeer(c *net.UnixConn) error {
	peer, err := kernel.PeerCredentials(c)
	if err != nil {
		return err
	}
	if peer.UID != 0 && int(peer.UID) != os.Geteuid() {
		return fmt.Errorf("%s runs as user %d: only root may talk to culvertd: use sudo", peer, peer.UID)
	}
	return nil
}

// registerMethods adds the methods; ctx ends when culvertd begins to stop.
func (s *Server) registerMethods(ctx context.Context, srv *rpc.Server) {
	s.registerCNI(srv)
	guests := guest.New(guest.Parts{Engine: s.node.Engine, Resets: s.node.Resets, VFs: s.node.VFs, Upkeep: s.node.Upkeep}, s.node.Ledger)
	srv.HandleClient(api.MethodGuestXML, s.recordCommand(guests.XML, describeGuestXML))
	srv.HandleClient(api.MethodGuestDetach, s.recordCommand(guests.Detach, describeGuestDetach))
	srv.Handle(api.MethodGuestStart, s.whenMade(guests.Start))
	srv.Handle(api.MethodGuestStop, guests.Stop)
	srv.Handle(api.MethodPortCreated, s.whenMade(guests.PortCreated))
	srv.Handle(api.MethodPortDeleted, guests.PortDeleted)
	srv.Handle(api.MethodStatus, s.answerStatus)
	srv.Handle(api.MethodMetrics, s.answerMetrics)
	srv.HandleStream(api.MethodEvents, s.streamEvents)
	srv.Handle(api.MethodLedger, s.answerLedger)
	srv.Handle(api.MethodHostPlan, s.hostPlan)
	srv.HandleClient(api.MethodHostApply, s.recordCommand(s.hostApply, describeApply))
	srv.HandleClient(api.MethodHostTry, s.recordCommand(s.hostTry, describeTry))
	srv.HandleClient(api.MethodHostConfirm, s.recordCommand(s.hostConfirm, func(json.RawMessage, any) *command { return &command{line: "host confirm"} }))
	srv.HandleClient(api.MethodHostRevert, s.recordCommand(s.hostRevert, func(json.RawMessage, any) *command { return &command{line: "host revert"} }))
	srv.HandleClient(api.MethodRebase, s.recordCommand(s.rebaseVF, describeRebase))
	srv.HandleDialog(api.MethodLendRate, s.lendRate(ctx))
}

// whenMade makes a handler wait until the VFs are made: before that the ledger has none of them.
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

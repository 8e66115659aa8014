// Package claim serves the kubelet's DRA API: it prepares the VFs of ResourceClaims for pods, and takes
// them back. The API server is asked once for each claim, and the ledger keeps the answer; the VFs
// themselves are attached by the networks of the claim's pod (intake/pod). Containers get device nodes
// and variables by CDI files.
//
// culvertd runs one Driver on a node of a cluster. The design is in docs/design/0055-claims.md.
package claim

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/claim/metadata"
	"github.com/culvert-net/culvert/internal/node/intake/deviceplugin"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kubelet/socket"
	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/vf"
)

// claims is attach.Claims.
type claims interface {
	Claimed(uid string) ([]journal.Record, error)
	Prepare(context.Context, []attach.Wish) ([]journal.Record, error)
	Unprepare(ctx context.Context, uid string, cause error) error
}

// cluster is the part of kube.Client that reads claims.
type cluster interface {
	ResourceClaim(ctx context.Context, namespace, name string) (api.ResourceClaim, error)
}

// kubelet is the part of kubelet.PodResources that knows the claims of pods.
type kubelet interface {
	Claims(context.Context) (map[string]bool, error)
}

// Config has the parts of a Driver. All fields but Patience, Now and Log are needed.
type Config struct {
	Node       string // its name in the cluster
	KubeletDir string // the kubelet's root folder
	CDIDir     string // for CDI specifications
	// MetadataDir is for the metadata files of claims. It has the same path on the host, where the runtime
	// mounts the files from.
	MetadataDir string

	Claims  claims
	Cluster cluster
	Kubelet kubelet
	// Records returns the records of the ledger, and PFs the hardware as it was last listed.
	Records func() ([]journal.Record, error)
	PFs     func() []vf.PF
	// Changed returns a channel that is closed at the next change of the ledger.
	Changed func() <-chan struct{}
	// Patience is how long a claim waits for VFs that are being given back; 0 stands for 30 s. The kubelet
	// waits 45 s for the answer (k8s.io/kubernetes pkg/kubelet/cm/dra/plugin, defaultClientCallTimeout), and
	// tries again after a minute or more.
	Patience time.Duration
	Spec     func() desired.Spec // of the host
	// Uses returns the uses of VFs by the kernel, see kernel.Uses.
	Uses func(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error)
	// Watch wakes after each change in a folder, see kernel/dirwatch.
	Watch func(ctx context.Context, dir string) (<-chan struct{}, error)
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil discards
}

// Names of the driver's socket, and of the list of its CDI files. The kubelet looks for registrations
// in the folder (k8s.io/kubernetes pkg/kubelet/config, DefaultKubeletPluginsRegistrationDirName). The
// socket serves the driver too: its path is the kubelet's own, whatever that folder is called where
// culvertd runs.
const (
	registryFolder = "plugins_registry"
	socketFile     = claim.Driver + "-reg.sock"
	listFile       = ".culvert-claims"
)

// mostAtOnce is how many claims of one call are worked on at once.
const mostAtOnce = 8

// Driver prepares claims. Its methods may be called concurrently, but for EndLost.
type Driver struct {
	Config
	locks  keylock.Locks[string] // by the UID of a claim
	folder socket.Folder
	socket socket.Service

	metadata metadata.Files
	health   healthBoard

	files sync.Mutex          // guards wrote, and is held while files are written
	wrote *deviceplugin.Files // nil until the first look
	// absent has the time since which nothing speaks for a claim, by its UID. EndLost alone uses it.
	absent map[string]time.Time
}

// New returns a Driver; nothing is touched until Run.
func New(c Config) *Driver {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	d := &Driver{Config: c, absent: map[string]time.Time{}}
	d.metadata = metadata.Files{Dir: c.MetadataDir, Node: c.Node, Attributes: d.attributesOf}
	d.folder = socket.Folder{Dir: filepath.Join(c.KubeletDir, registryFolder), Watch: c.Watch, Log: c.Log}
	d.socket.Folder, d.socket.Name, d.socket.File = &d.folder, "claims", socketFile
	d.socket.Add = func(srv *grpc.Server, end func(error)) {
		drapb.RegisterDRAPluginServer(srv, d)
		addHealth(srv, d)
		registerapi.RegisterRegistrationServer(srv, &registration{log: c.Log, end: end})
	}
	return d
}

// Run serves the kubelet until ctx ends, and then removes the socket. The CDI files stay: containers
// that start meanwhile need them.
func (d *Driver) Run(ctx context.Context) error {
	if err := d.keepFiles(); err != nil {
		d.Log.Error("write the CDI files of claims", "err", err)
	}
	var g errgroup.Group
	g.Go(func() error { d.folder.Follow(ctx); return nil })
	g.Go(func() error { d.socket.Run(ctx); return nil })
	g.Go(func() error { d.endLostClaims(ctx); return nil })
	return g.Wait()
}

// KeepMetadata writes the metadata files of claims that have one of the records. The ADD of a pod calls it
// when the pod's networks are there.
func (d *Driver) KeepMetadata(records []journal.Record) error { return d.metadata.Keep(records) }

// attributesOf returns the attributes of a VF, as its ResourceSlice has them; none for a VF that is not
// listed now.
func (d *Driver) attributesOf(r journal.Record) map[string]offer.Value {
	pf, st, listed := hold.FindListed(r, d.PFs())
	if !listed {
		return nil
	}
	return offer.Attributes(d.Spec(), pf, st)
}

// Problems returns the problems that keep claims from being prepared.
func (d *Driver) Problems() (out []api.Problem) {
	if reason := d.socket.Problem(); reason != "" {
		out = append(out, api.Problem{Object: d.socket.Name, Reason: reason, Next: "culvertd tries again on its own"})
	}
	return out
}

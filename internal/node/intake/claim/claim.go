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
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/claim/metadata"
	"github.com/culvert-net/culvert/internal/node/intake/deviceplugin"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kubelet/socket"
	"github.com/culvert-net/culvert/internal/vf"
)

// engine is the part of attach.Engine that gives VFs to claims.
type engine interface {
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

// Config has the parts of a Driver. All fields but Now and Log are needed.
type Config struct {
	Node       string // its name in the cluster
	KubeletDir string // the kubelet's root folder
	CDIDir     string // for CDI specifications

	Engine  engine
	Cluster cluster
	Kubelet kubelet
	// Records returns the records of the ledger, and PFs the hardware as it was last listed.
	Records func() ([]journal.Record, error)
	PFs     func() []vf.PF
	Spec    func() desired.Spec // of the host
	// Uses returns the uses of VFs by the kernel, see kernel.Uses.
	Uses func(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error)
	// Watch wakes after each change in a folder, see kernel/dirwatch.
	Watch func(ctx context.Context, dir string) (<-chan struct{}, error)
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil discards
}

// Names of the driver's sockets, and of the list of its CDI files. The kubelet looks for registrations
// in the first folder (k8s.io/kubernetes pkg/kubelet/config, DefaultKubeletPluginsRegistrationDirName).
const (
	registryFolder = "plugins_registry"
	pluginsFolder  = "plugins"
	registerSocket = claim.Driver + "-reg.sock"
	serviceSocket  = "dra.sock"
	listFile       = ".culvert-claims"
	metadataFolder = "metadata"
)

// mostAtOnce is how many claims of one call are worked on at once.
const mostAtOnce = 8

// Driver prepares claims. Its methods may be called concurrently.
type Driver struct {
	Config
	locks    keylock.Locks[string] // by the UID of a claim
	service  socket.Service
	register socket.Service
	registry socket.Folder
	folder   socket.Folder

	metadata metadata.Files

	files  sync.Mutex          // guards written, and is held while files are written
	wrote  *deviceplugin.Files // nil until the first look
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
	d.metadata = metadata.Files{Dir: filepath.Join(c.KubeletDir, pluginsFolder, claim.Driver, metadataFolder), Node: c.Node}
	d.registry = socket.Folder{Dir: filepath.Join(c.KubeletDir, registryFolder), Watch: c.Watch, Log: c.Log}
	d.folder = socket.Folder{Dir: filepath.Join(c.KubeletDir, pluginsFolder, claim.Driver), Watch: c.Watch, Log: c.Log}
	d.service.Folder, d.service.Name, d.service.File = &d.folder, "claims", serviceSocket
	d.service.Add = func(srv *grpc.Server, _ func(error)) { drapb.RegisterDRAPluginServer(srv, d) }
	d.register.Folder, d.register.Name, d.register.File = &d.registry, "the registration of claims", registerSocket
	d.register.Add = func(srv *grpc.Server, end func(error)) {
		registerapi.RegisterRegistrationServer(srv, &registration{endpoint: filepath.Join(d.folder.Dir, serviceSocket), log: c.Log, end: end})
	}
	return d
}

// Run serves the kubelet until ctx ends, and then removes the sockets. The CDI files stay: containers
// that start meanwhile need them.
func (d *Driver) Run(ctx context.Context) error {
	if err := d.keepFiles(); err != nil {
		d.Log.Error("write the CDI files of claims", "err", err)
	}
	var g errgroup.Group
	g.Go(func() error { d.folder.Follow(ctx); return nil })
	g.Go(func() error { d.registry.Follow(ctx); return nil })
	g.Go(func() error { d.service.Run(ctx); return nil })
	g.Go(func() error { d.register.Run(ctx); return nil })
	g.Go(func() error { d.endLostClaims(ctx); return nil })
	return g.Wait()
}

// KeepMetadata writes the metadata files of claims that have one of the records. The ADD of a pod calls it
// when the pod's networks are there.
func (d *Driver) KeepMetadata(records []journal.Record) error { return d.metadata.Keep(records) }

// Problems returns the problems that keep claims from being prepared.
func (d *Driver) Problems() (out []api.Problem) {
	for _, s := range []*socket.Service{&d.service, &d.register} {
		if reason := s.Problem(); reason != "" {
			out = append(out, api.Problem{Object: s.Name, Reason: reason, Next: "culvertd tries again on its own"})
		}
	}
	return out
}

package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// networks is cni.Handler: networks of Culvert's own types.
type networks interface {
	Run(ctx context.Context, call cni.Call, ask cni.Ask) ([]byte, error)
}

// ledger is the part of journal.Ledger that is needed.
type ledger interface {
	Update(func(*journal.Tx) error) error
	View(func(*journal.Tx) error) error
}

// resets is the part of reset.Resetter that is needed.
type resets interface {
	Detach(context.Context, vf.Owner) error
}

// kernel is the part of kernel.Kernel that is needed.
type kernel interface {
	Do(context.Context, step.Step) error
}

// cluster is kube.Client. Annotate, PodEvent and SetClaimDevices return at once.
type cluster interface {
	// Pod returns a pod of this node; vf.ErrNotFound, vf.ErrNotReady.
	Pod(ctx context.Context, namespace, name, uid string) (api.Pod, error)
	// Network returns a network attachment definition; errors as for Pod.
	Network(ctx context.Context, namespace, name string) (api.NetworkDefinition, error)
	// Annotate sets annotations of a pod in one request.
	Annotate(p api.Pod, values map[string]string)
	PodEvent(p api.Pod, kind, reason, text string)
	// SetClaimDevices sets the entries of a claim's status that are Culvert's.
	SetClaimDevices(claim api.ResourceClaim, devices []api.ClaimDevice)
}

// hardware is inventory.Inventory: the PFs as they were last listed.
type hardware interface {
	PFs() []vf.PF
}

// Devices returns the IDs of the devices of a resource that the kubelet gave to a pod; of all its
// devices if the resource is empty.
type Devices func(ctx context.Context, namespace, pod, resource string) ([]string, error)

// Claimed returns the devices that the kubelet has had prepared for the ResourceClaims of a pod.
type Claimed func(ctx context.Context, namespace, pod string) ([]api.ClaimedDevice, error)

// Config has the parts of a Handler. All fields but Claimed, Definitions, EveryPod, IPAMTypes,
// Isolation, Log, Metadata and Now are needed.
type Config struct {
	Networks networks
	Ledger   ledger
	Resets   resets
	Kernel   kernel
	Hardware hardware
	Cluster  cluster
	Devices  Devices
	// Claimed finds claims that are missing in the ledger; nil finds none.
	Claimed Claimed
	// Metadata writes the metadata files of claims that have one of the records, before the containers
	// of the pod start; nil writes none.
	Metadata func(ofClaims []journal.Record) error
	// Definitions keeps the network attachment definitions that were parsed; nil keeps none.
	Definitions *config.Definitions
	// NodeName is the name of the node in its cluster, of which the names of the claims' devices have
	// parts.
	NodeName string
	// ConfDir is the folder of the runtime's network configurations, DeviceInfo the folder for
	// device-info files.
	ConfDir, DeviceInfo string
	// Isolation says which networks of other namespaces pods may use.
	Isolation netannotation.Isolation
	// EveryPod has the networks that pods get without asking for them.
	EveryPod netannotation.EveryPod
	// IPAMTypes are the IPAM plugins that networks of the cluster may name.
	IPAMTypes ipam.Types
	Log       *slog.Logger     // nil discards
	Now       func() time.Time // nil stands for time.Now
}

// The folders of a Config on a node, unless flags name others.
const (
	DefaultConfDir    = "/etc/cni/net.d"
	DefaultDeviceInfo = "/var/run/k8s.cni.cncf.io/devinfo"
)

// Handler answers the shim. Its methods may be called concurrently.
type Handler struct {
	Config
	sandboxes keylock.Locks[string] // by container ID
}

// New makes a Handler.
func New(c Config) *Handler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Handler{Config: c}
}

// Serve is an rpc.DialogHandler: an api.CNIRequest in, an api.CNIResponse out. An
// invocation that fails is a response, too; the error is for params that no shim
// sends.
func (h *Handler) Serve(ctx context.Context, params json.RawMessage, ask cni.Ask) (any, error) {
	var r api.CNIRequest
	if err := exactjson.Decode(params, &r); err != nil {
		return nil, fmt.Errorf("CNI request: %w: %w", vf.ErrInvalid, err)
	}
	c := newCall(r, ask)
	out, err := h.runCommand(ctx, c)
	if err != nil {
		if c.config.PodNetworks {
			h.Log.Warn("pod networks", "command", r.Command, "pod", c.podName(), "err", err)
		}
		return cni.Failure(c.cniVersion(), err), nil
	}
	return api.CNIResponse{Stdout: out}, nil
}

func (h *Handler) runCommand(ctx context.Context, c call) ([]byte, error) {
	if !c.config.PodNetworks {
		return h.Networks.Run(ctx, cni.NewCall(c.CNIRequest, c.args), c.runPlugin)
	}
	switch c.Command {
	case "ADD":
		return h.addPod(ctx, c)
	case "DEL":
		return nil, h.delPod(ctx, c)
	case "CHECK":
		return nil, h.checkPod(ctx, c)
	case "GC":
		return nil, h.collectGarbage(ctx, c)
	case "STATUS":
		return nil, h.checkStatus(ctx, c)
	}
	return h.Networks.Run(ctx, cni.NewCall(c.CNIRequest, c.args), c.runPlugin) // Run reports the unknown command
}

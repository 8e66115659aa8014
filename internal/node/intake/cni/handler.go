package cni

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// engine is attach.Engine.
type engine interface {
	Attach(context.Context, attach.Request) (journal.Record, error)
	AttachBond(context.Context, attach.Request) (attach.Bonded, error)
	Check(context.Context, vf.Owner, attach.Request) error
	Ready(context.Context, attach.Request) error
	// HasRDMA reports whether one of the VFs has an RDMA device.
	HasRDMA(...journal.Record) bool
}

// resets is the part of reset.Resetter that ends attachments.
type resets interface {
	Detach(context.Context, vf.Owner) error
	Collect(ctx context.Context, network string, valid []vf.Owner) error
}

// leases is the part of hold.VFs that knows new leases and remembers the calls of IPAM plugins.
type leases interface {
	YoungOwners(network string) ([]vf.Owner, error)
	Delegations() (held, owed []journal.Delegation, err error)
	Undone(journal.Delegation) error
}

// Parts are the parts of a node that serve attachments.
type Parts struct {
	Engine engine
	Resets resets
	VFs    leases
}

// Handler answers the shim.
type Handler struct {
	// Cluster finds the network attachment definition of a request, and takes the events of
	// its pod; nil where culvertd is not connected to a cluster.
	Cluster cluster
	// Pools has the AddressPools that networks name; nil where culvertd is not connected to
	// a cluster.
	Pools pools
	// Definitions keeps the network attachment definitions that were parsed; nil keeps none.
	Definitions *config.Definitions
	Log         *slog.Logger
	// ServesWhereabouts reports whether Culvert gives out the addresses of networks with ipam
	// of type whereabouts; else the plugin of that name does. Nil stands for true.
	ServesWhereabouts func(context.Context) (bool, error)
	// IPAMTypes are the IPAM plugins of other projects that are executed.
	IPAMTypes  ipam.Types
	node       Parts
	resolvDirs []string // where resolvConf may be
	now        func() time.Time

	paying sync.Mutex // held by the call that runs owed DELs; guards debts
	debts  debts
}

// New makes a handler over the parts of a node.
func New(p Parts) *Handler {
	return &Handler{Log: slog.New(slog.DiscardHandler), node: p, resolvDirs: resolvDirs(), now: time.Now}
}

// Serve is an rpc.DialogHandler: an api.CNIRequest in, an api.CNIResponse out. An
// invocation that fails is a response, too; the error is for params that no
// shim sends.
func (h *Handler) Serve(ctx context.Context, params json.RawMessage, ask Ask) (any, error) {
	var r api.CNIRequest
	if err := exactjson.Decode(params, &r); err != nil {
		return nil, fmt.Errorf("CNI request: %w: %w", vf.ErrInvalid, err)
	}
	stdout, err := h.Run(ctx, NewCall(r, ParseArguments(r.Args)), ask)
	if err != nil {
		return Failure(api.CNIVersionOf(r.Config), err), nil
	}
	return api.CNIResponse{Stdout: stdout}, nil
}

// Run carries out an invocation and returns what goes to standard output. Failure
// makes an answer of its error. ask has the shim run the IPAM plugins of other projects.
func (h *Handler) Run(ctx context.Context, call Call, ask Ask) ([]byte, error) {
	switch call.Command {
	case cmdAdd:
		out, err := h.addNetwork(ctx, call, ask)
		if err == nil {
			h.reportIgnored(ctx, call)
		}
		return out, err
	case cmdDel:
		return nil, h.delNetwork(ctx, call, ask)
	case cmdCheck:
		return nil, h.checkNetwork(ctx, call, ask)
	case cmdGC:
		return nil, h.collectGarbage(ctx, call, ask)
	case cmdStatus:
		return nil, h.checkStatus(ctx, call, ask)
	case cmdVersion:
		return json.Marshal(api.CNIVersion{CNIVersion: api.CNIVersionOf(call.Config), SupportedVersions: api.CNIVersions()})
	}
	return nil, fmt.Errorf("%w CNI_COMMAND %s: want ADD, DEL, CHECK, GC, STATUS or VERSION", errEnvironment, excerpt.Quote(call.Command))
}

func (h *Handler) addNetwork(ctx context.Context, call Call, ask Ask) ([]byte, error) {
	c, req, err := requestOf(call)
	if err != nil {
		return nil, err
	}
	if err := h.ownSection(ctx, &c); err != nil {
		return nil, err
	}
	if err := h.checkIPAMType(c); err != nil {
		return nil, err
	}
	if err := h.choosePool(ctx, call, &c, &req); err != nil {
		return nil, err
	}
	if c.DNS, err = findDNS(c, h.resolvDirs); err != nil {
		return nil, err
	}
	if err := h.askPower(ctx, call, &req); err != nil {
		return nil, err
	}
	if i := findInterface(c.Prev, call.IfName, call.Netns); i >= 0 {
		return nil, fmt.Errorf("CNI_IFNAME %s: %w: a plugin before this one in network %s made an interface of that name; attach network %s by itself",
			call.IfName, vf.ErrInvalid, c.Name, c.Name)
	}
	if c.IPAM.IsDelegated() {
		h.delegateIPAM(call, &c, &req, ask)
	}
	if h.Cluster != nil {
		req.Report = func(reason, text string) { h.emitEvents(context.WithoutCancel(ctx), call, reason, text) }
	}
	out, err := h.attachAs(ctx, &c, req, call)
	if err != nil && req.Late != nil {
		h.undoFailed(ctx, call, ask, *req.Delegation, err)
	}
	return out, err
}

// attachAs attaches a VF or a bond and returns the result. An IPAM plugin of another project adds
// its DNS settings to c meanwhile.
func (h *Handler) attachAs(ctx context.Context, c *config.Config, req attach.Request, call Call) ([]byte, error) {
	if req.Bond != nil {
		bonded, err := h.node.Engine.AttachBond(ctx, req)
		if err != nil {
			return nil, err
		}
		h.reportGuard(ctx, call, req, bonded.Members...)
		return formatBond(*c, bonded, call.IfName, call.Netns)
	}
	rec, err := h.node.Engine.Attach(ctx, req)
	if err != nil {
		return nil, err
	}
	h.reportGuard(ctx, call, req, rec)
	return formatResult(*c, rec, call.Netns)
}

// askPower fills in the power of the containers of a pod whose network has a guard. It stays
// unknown outside a cluster.
func (h *Handler) askPower(ctx context.Context, call Call, req *attach.Request) error {
	if req.Spec.Guard == "" || call.args.Pod == "" || h.Cluster == nil {
		return nil
	}
	pod, err := h.podOf(ctx, call)
	req.Power = pod.Power
	return err
}

// reportGuard emits an event of the pod if the guard does not fully hold on the VFs of the
// attachment. The attach does not depend on the event.
func (h *Handler) reportGuard(ctx context.Context, call Call, req attach.Request, vfs ...journal.Record) {
	if req.Spec.Guard == "" || call.args.Pod == "" || h.Cluster == nil {
		return
	}
	degree, reason := vf.GuardDegree(req.Power, h.node.Engine.HasRDMA(vfs...))
	if reason == "" {
		return
	}
	if pod, err := h.podOf(ctx, call); err == nil {
		h.Cluster.PodEvent(pod, journal.Warning, reasons.GuardNotEnforced, fmt.Sprintf("network %s: %s", cmp.Or(call.Definition, req.Network), vf.DescribeGuard(vf.GuardName(req.Spec.Guard, req.Spec.GuardAllow), degree, reason)))
	}
}

// podOf returns the pod of a call.
func (h *Handler) podOf(ctx context.Context, call Call) (api.Pod, error) {
	return h.Cluster.Pod(ctx, call.args.Namespace, call.args.Pod, call.args.UID)
}

// reportIgnored makes an event of the warnings of a call.
func (h *Handler) reportIgnored(ctx context.Context, call Call) {
	warnings := call.warnings()
	if len(warnings) == 0 {
		return
	}
	network := cmp.Or(call.Definition, call.config.Name)
	h.Log.Warn("network configuration", "net", network, "owner", call.args.ownerOf(call.ContainerID, call.IfName), "warnings", warnings)
	h.emitEvents(ctx, call, reasons.NetworkSettingIgnored, "network "+network+": "+strings.Join(warnings, "; "))
}

// eventBound is how long emitEvents looks for the pod.
const eventBound = 5 * time.Second

// emitEvents makes a warning event of each text, about the pod of a request. It makes none where
// the pod is not known.
func (h *Handler) emitEvents(ctx context.Context, call Call, reason string, texts ...string) {
	if len(texts) == 0 || h.Cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventBound)
	defer cancel()
	pod, err := h.podOf(ctx, call)
	if err != nil {
		return
	}
	for _, text := range texts {
		h.Cluster.PodEvent(pod, journal.Warning, reason, text)
	}
}

// delNetwork needs only the attachment's name (I8), and neither the netns nor a configuration that
// is still valid.
func (h *Handler) delNetwork(ctx context.Context, call Call, ask Ask) error {
	if err := checkAttachment(call.CNIRequest); err != nil {
		return err
	}
	a := call.args
	if a.Err != nil {
		a = Arguments{}
	}
	undone, undoErr := h.undoDelegation(ctx, call, ask)
	err := h.node.Resets.Detach(ctx, a.ownerOf(call.ContainerID, call.IfName))
	if errors.Is(err, vf.ErrNotFound) {
		err = nil
	}
	if !undone {
		h.releaseUnrecorded(ctx, call, ask)
	}
	if err == nil && undoErr == nil {
		h.payOwed(ctx, ask)
	}
	return errors.Join(err, undoErr)
}

func (h *Handler) checkNetwork(ctx context.Context, call Call, ask Ask) error {
	c, req, err := requestOf(call)
	if err != nil {
		return err
	}
	switch {
	case slices.Index(api.CNIVersions(), c.Version) < slices.Index(api.CNIVersions(), "0.4.0"):
		return fmt.Errorf("cniVersion %q: %w for CHECK; want 0.4.0 or later", c.Version, config.ErrVersion)
	case c.DisableCheck:
		return nil
	case c.Prev == nil:
		return fmt.Errorf("prevResult: %w: CHECK wants the result of the ADD", vf.ErrInvalid)
	}
	expected, err := expectedRequest(c, req)
	if err != nil {
		return err
	}
	if err := h.passOn(ctx, call, c, ask); err != nil {
		return err
	}
	err = h.node.Engine.Check(ctx, req.Owner, expected)
	switch {
	case errors.Is(err, vf.ErrNotFound):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case err == nil, errors.Is(err, vf.ErrNotReady), errors.Is(err, vf.ErrTimeout), ctx.Err() != nil:
		return err
	}
	return fmt.Errorf("%w: %w", errDiffers, err)
}

// checkStatus serves STATUS. It also fails for a configuration with which no ADD would work, and
// while every VF that the network could use is held.
func (h *Handler) checkStatus(ctx context.Context, call Call, ask Ask) error {
	c := call.config
	if call.wrong != nil {
		return call.wrong
	}
	err := h.node.Engine.Ready(ctx, attach.Request{Network: c.Name, VF: c.VF, Pool: c.Pool, Segment: c.Segment})
	if err == nil && c.Version == api.CNINewest { // earlier plugins have no STATUS
		err = h.passOn(ctx, call, c, ask)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// requestOf returns the attach.Request of an ADD or a CHECK, with the configuration of its network. The
// lease keeps their configuration, so it is bounded. The configuration of GC may be longer, since it
// has the list of valid attachments.
func requestOf(call Call) (config.Config, attach.Request, error) {
	if err := netconf.CheckSize(len(call.Config)); err != nil {
		return config.Config{}, attach.Request{}, err
	}
	if err := Valid(call.CNIRequest); err != nil {
		return config.Config{}, attach.Request{}, err
	}
	if call.wrong != nil {
		return call.config, attach.Request{}, call.wrong
	}
	if call.args.Err != nil {
		return call.config, attach.Request{}, call.args.Err
	}
	req, err := buildRequest(call)
	return call.config, req, err
}

func buildRequest(call Call) (attach.Request, error) {
	c, a := call.config, call.args
	spec := c.Spec
	spec.Interface = call.IfName
	var err error
	if spec.MAC, err = call.wantedMAC(); err != nil {
		return attach.Request{}, err
	}
	req := attach.Request{
		Owner: a.ownerOf(call.ContainerID, call.IfName), PodUID: a.UID, Network: c.Name,
		VF: c.VF, Pool: c.Pool, Segment: c.Segment, Bond: c.Bond, VFs: c.VFs, Netns: call.Netns,
		Spec: spec, LowersMTU: c.Lenient,
	}
	if call.Command == cmdAdd {
		if req.Raw, err = c.Kept(call.Config); err != nil {
			return req, err
		}
	}
	if err := checkBondName(call.IfName, c.Bond); err != nil {
		return req, err
	}
	if err := fillRequested(c, a, &req); err != nil || call.Command != cmdAdd {
		return req, err
	}
	return req, checkFixed(c, req)
}

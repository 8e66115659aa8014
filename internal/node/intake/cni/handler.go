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
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
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

// delegations is the part of hold.VFs that remembers the calls of IPAM plugins.
type delegations interface {
	Delegations() (held, owed []journal.Delegation, err error)
	Undone(journal.Delegation) error
}

// Parts are the parts of a node that serve attachments.
type Parts struct {
	Engine engine
	Resets resets
	VFs    delegations
}

// Handler answers the shim.
type Handler struct {
	// Cluster finds the network attachment definition of a request, and takes the events of
	// its pod; nil where culvertd is not connected to a cluster.
	Cluster cluster
	// Pools has the AddressPools that networks name; nil where culvertd is not connected to
	// a cluster.
	Pools pools
	Log   *slog.Logger
	// ServesWhereabouts reports whether Culvert gives out the addresses of networks with ipam
	// of type whereabouts; else the plugin of that name does. Nil stands for true.
	ServesWhereabouts func(context.Context) (bool, error)
	node              Parts
	resolvDirs        []string // where resolvConf may be

	mu       sync.Mutex         // guards lastOwed
	lastOwed journal.Delegation // the last one whose DEL payOwed tried
}

// New makes a handler over the parts of a node.
func New(p Parts) *Handler {
	return &Handler{Log: slog.New(slog.DiscardHandler), node: p, resolvDirs: resolvDirs()}
}

// Serve is an rpc.DialogHandler: an api.CNIRequest in, an api.CNIResponse out. An
// invocation that fails is a response, too; the error is for params that no
// shim sends.
func (h *Handler) Serve(ctx context.Context, params json.RawMessage, ask Ask) (any, error) {
	var r api.CNIRequest
	if err := json.Unmarshal(params, &r); err != nil {
		return nil, fmt.Errorf("CNI request: %w: %w", vf.ErrInvalid, err)
	}
	stdout, err := h.Run(ctx, r, ask)
	if err != nil {
		return Failure(api.CNIVersionOf(r.Config), err), nil
	}
	return api.CNIResponse{Stdout: stdout}, nil
}

// Run carries out an invocation and returns what goes to standard output. Failure
// makes an answer of its error. ask has the shim run the IPAM plugins of other projects.
func (h *Handler) Run(ctx context.Context, r api.CNIRequest, ask Ask) ([]byte, error) {
	r, ignored := leaveOutUndeclared(r)
	switch r.Command {
	case cmdAdd:
		out, err := h.addNetwork(ctx, r, ask)
		if err == nil {
			h.reportIgnored(ctx, r, ignored)
		}
		return out, err
	case cmdDel:
		return nil, h.delNetwork(ctx, r, ask)
	case cmdCheck:
		return nil, h.checkNetwork(ctx, r, ask)
	case cmdGC:
		return nil, h.collectGarbage(ctx, r, ask)
	case cmdStatus:
		return nil, h.checkStatus(ctx, r, ask)
	case cmdVersion:
		return json.Marshal(api.CNIVersion{CNIVersion: api.CNIVersionOf(r.Config), SupportedVersions: api.CNIVersions()})
	}
	return nil, fmt.Errorf("%w CNI_COMMAND %s: want ADD, DEL, CHECK, GC, STATUS or VERSION", errEnvironment, excerpt.Quote(r.Command))
}

func (h *Handler) addNetwork(ctx context.Context, r api.CNIRequest, ask Ask) ([]byte, error) {
	c, req, err := parseRequest(r)
	if err != nil {
		return nil, err
	}
	if err := h.ownSection(ctx, &c); err != nil {
		return nil, err
	}
	if err := h.choosePool(ctx, r, &c, &req); err != nil {
		return nil, err
	}
	if c.DNS, err = findDNS(c, h.resolvDirs); err != nil {
		return nil, err
	}
	if err := h.askPower(ctx, r, &req); err != nil {
		return nil, err
	}
	if i := findInterface(c.Prev, r.IfName, r.Netns); i >= 0 {
		return nil, fmt.Errorf("CNI_IFNAME %s: %w: a plugin before this one in network %s made an interface of that name; attach network %s by itself",
			r.IfName, vf.ErrInvalid, c.Name, c.Name)
	}
	if c.IPAM.IsDelegated() {
		h.delegateIPAM(r, &c, &req, ask)
	}
	if h.Cluster != nil {
		req.Report = func(reason, text string) { h.emitEvents(context.WithoutCancel(ctx), r, reason, text) }
	}
	out, err := h.attachAs(ctx, &c, req, r)
	if err != nil && req.Late != nil {
		h.undoFailed(ctx, r, ask, *req.Delegation, err)
	}
	return out, err
}

// attachAs attaches a VF or a bond and returns the result. An IPAM plugin of another project adds
// its DNS settings to c meanwhile.
func (h *Handler) attachAs(ctx context.Context, c *config.Config, req attach.Request, r api.CNIRequest) ([]byte, error) {
	if req.Bond != nil {
		bonded, err := h.node.Engine.AttachBond(ctx, req)
		if err != nil {
			return nil, err
		}
		h.reportGuard(ctx, r, req, bonded.Members...)
		return formatBond(*c, bonded, r.IfName, r.Netns)
	}
	rec, err := h.node.Engine.Attach(ctx, req)
	if err != nil {
		return nil, err
	}
	h.reportGuard(ctx, r, req, rec)
	return formatResult(*c, rec, r.Netns)
}

// askPower fills in the power of the containers of a pod whose network has a guard. It stays
// unknown outside a cluster.
func (h *Handler) askPower(ctx context.Context, r api.CNIRequest, req *attach.Request) error {
	a, err := parseArguments(r.Args)
	if err != nil || req.Spec.Guard == "" || a.podName == "" || h.Cluster == nil {
		return err
	}
	pod, err := h.Cluster.Pod(ctx, a.podNamespace, a.podName, a.podUID)
	req.Power = pod.Power
	return err
}

// reportGuard emits an event of the pod if the guard does not fully hold on the VFs of the
// attachment. The attach does not depend on the event.
func (h *Handler) reportGuard(ctx context.Context, r api.CNIRequest, req attach.Request, vfs ...journal.Record) {
	a, err := parseArguments(r.Args)
	if err != nil || req.Spec.Guard == "" || a.podName == "" || h.Cluster == nil {
		return
	}
	degree, reason := vf.GuardDegree(req.Power, h.node.Engine.HasRDMA(vfs...))
	if reason == "" {
		return
	}
	if pod, err := h.Cluster.Pod(ctx, a.podNamespace, a.podName, a.podUID); err == nil {
		h.Cluster.PodEvent(pod, journal.Warning, "GuardNotEnforced", fmt.Sprintf("network %s: %s", cmp.Or(r.Definition, req.Network), vf.DescribeGuard(req.Spec.Guard, degree, reason)))
	}
}

// reportIgnored makes an event of each capability that leaveOutUndeclared found missing,
// and one of the warnings of the network's configuration.
func (h *Handler) reportIgnored(ctx context.Context, r api.CNIRequest, missing []string) {
	a, err := parseArguments(r.Args)
	c, errConfig := configOf(r)
	if errors.Join(err, errConfig) != nil {
		return // the attach does not depend on the event
	}
	network := cmp.Or(r.Definition, c.Name)
	var texts []string
	for _, capability := range missing {
		texts = append(texts, netconf.DescribeIgnored(network, capability))
	}
	if len(c.Warnings) > 0 {
		texts = append(texts, "network "+network+": "+strings.Join(c.Warnings, "; "))
		h.Log.Warn("network configuration", "net", network, "owner", a.ownerOf(r.ContainerID, r.IfName), "warnings", c.Warnings)
	}
	if ignoresIPs(c) && (a.ip != "" || len(c.ArgIPs)+len(c.IPs) > 0) {
		texts = append(texts, fmt.Sprintf("network %s: addresses are asked for, and it has no ipam section, so the interface gets none: add one", network))
	}
	h.emitEvents(ctx, r, "NetworkSettingIgnored", texts...)
}

// eventBound is how long emitEvents looks for the pod.
const eventBound = 5 * time.Second

// emitEvents makes a warning event of each text, about the pod of a request. It makes none where
// the pod is not known.
func (h *Handler) emitEvents(ctx context.Context, r api.CNIRequest, reason string, texts ...string) {
	a, err := parseArguments(r.Args)
	if len(texts) == 0 || h.Cluster == nil || err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventBound)
	defer cancel()
	pod, err := h.Cluster.Pod(ctx, a.podNamespace, a.podName, a.podUID)
	if err != nil {
		return
	}
	for _, text := range texts {
		h.Cluster.PodEvent(pod, journal.Warning, reason, text)
	}
}

// delNetwork needs only the attachment's name (I8), and neither the netns nor a configuration that
// is still valid.
func (h *Handler) delNetwork(ctx context.Context, r api.CNIRequest, ask Ask) error {
	if err := checkAttachment(r); err != nil {
		return err
	}
	a, err := parseArguments(r.Args)
	if err != nil {
		a = arguments{}
	}
	undone, undoErr := h.undoDelegation(ctx, r, ask)
	err = h.node.Resets.Detach(ctx, a.ownerOf(r.ContainerID, r.IfName))
	if errors.Is(err, vf.ErrNotFound) {
		err = nil
	}
	if !undone {
		h.releaseUnrecorded(ctx, r, ask)
	}
	if err == nil && undoErr == nil {
		h.payOwed(ctx, ask)
	}
	return errors.Join(err, undoErr)
}

func (h *Handler) checkNetwork(ctx context.Context, r api.CNIRequest, ask Ask) error {
	c, req, err := parseRequest(r)
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
	if err := h.passOn(ctx, r, c, ask); err != nil {
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

func (h *Handler) collectGarbage(ctx context.Context, r api.CNIRequest, ask Ask) error {
	c, err := configOf(r)
	if err != nil {
		return err
	}
	switch {
	case c.Version != api.CNINewest:
		return fmt.Errorf("cniVersion %q: %w for GC; want 1.1.0", c.Version, config.ErrVersion)
	case c.DisableGC:
		return nil
	case c.Valid == nil:
		return fmt.Errorf("cni.dev/valid-attachments: %w: missing; without it GC would take every VF of network %s from its owner", vf.ErrInvalid, c.Name)
	}
	err = errors.Join(h.collectDelegations(ctx, c, ask), h.node.Resets.Collect(ctx, c.Name, c.Valid), h.passOn(ctx, r, c, ask))
	h.payOwed(ctx, ask)
	return err
}

// checkStatus serves STATUS. It also fails for a configuration with which no ADD would work, and
// while every VF that the network could use is held.
func (h *Handler) checkStatus(ctx context.Context, r api.CNIRequest, ask Ask) error {
	c, err := configOf(r)
	if err != nil {
		return err
	}
	err = h.node.Engine.Ready(ctx, attach.Request{Network: c.Name, VF: c.VF, Pool: c.Pool, Segment: c.Segment})
	if err == nil && c.Version == api.CNINewest { // earlier plugins have no STATUS
		err = h.passOn(ctx, r, c, ask)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// configOf reads the configuration of an invocation.
func configOf(r api.CNIRequest) (config.Config, error) {
	if !json.Valid(r.Config) {
		_, err := config.Parse(r.Config)
		return config.Config{}, fmt.Errorf("%w: %w", errUndecodable, err)
	}
	return config.Parse(r.Config)
}

// parseRequest reads everything that ADD and CHECK need. The lease keeps their configuration, so it
// is bounded. The configuration of GC may be longer, since it has the list of valid attachments.
func parseRequest(r api.CNIRequest) (config.Config, attach.Request, error) {
	if err := netconf.CheckSize(len(r.Config)); err != nil {
		return config.Config{}, attach.Request{}, err
	}
	if err := Valid(r); err != nil {
		return config.Config{}, attach.Request{}, err
	}
	c, err := configOf(r)
	if err != nil {
		return c, attach.Request{}, err
	}
	a, err := parseArguments(r.Args)
	if err != nil {
		return c, attach.Request{}, err
	}
	req, err := buildRequest(c, a, r)
	return c, req, err
}

func buildRequest(c config.Config, a arguments, r api.CNIRequest) (attach.Request, error) {
	spec := c.Spec
	spec.Interface = r.IfName
	for _, mac := range []*vf.MAC{a.mac, c.MAC} { // the later one counts
		if mac != nil {
			spec.MAC = mac
		}
	}
	req := attach.Request{
		Owner: a.ownerOf(r.ContainerID, r.IfName), PodUID: a.podUID, Network: c.Name,
		VF: c.VF, Pool: c.Pool, Segment: c.Segment, Bond: c.Bond, VFs: c.VFs, Netns: r.Netns,
		Spec: spec, Raw: r.Config,
	}
	if err := checkBondName(r.IfName, c.Bond); err != nil {
		return req, err
	}
	return req, fillRequested(c, a, &req)
}

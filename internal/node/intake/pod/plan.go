package pod

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// wish has the networks that a pod asks for, parsed and checked.
type wish struct {
	pod     api.Pod
	sandbox journal.Sandbox
	// gateways are those of the pod's default route, by the index of the network that the route
	// goes over. Without any, the default network has the route. For the networks of ownGateways,
	// the gateways come from their results.
	gateways    map[int][]netip.Addr
	ownGateways []int
	// ignored lists the requests of the pod that have no effect.
	ignored []string
	// claims are the VFs that ResourceClaims hold for the pod.
	claims *claimedVFs
}

// planAdd returns the work that an ADD requires. It touches nothing.
func (h *Handler) planAdd(ctx context.Context, c call) (wish, error) {
	w := wish{
		sandbox: journal.Sandbox{
			ID: c.ContainerID, Netns: c.Netns, Namespace: c.args.Namespace, Pod: c.args.Pod, UID: c.args.UID,
			Phase: journal.SandboxAdding, Args: c.args.Text, Path: c.Path,
		},
		gateways: map[int][]netip.Addr{},
	}
	if c.args.Pod == "" { // a container of another runtime, without Kubernetes
		return w, h.planDefault(ctx, c, &w, devices{})
	}
	var err error
	if w.pod, err = h.Cluster.Pod(ctx, c.args.Namespace, c.args.Pod, c.args.UID); err != nil {
		return w, err
	}
	elements, err := h.EveryPod.Parse(w.pod.Annotations[netannotation.Networks], c.args.Namespace)
	if err != nil {
		return w, err
	}
	if w.claims, err = (claimFinder{&h.Config, w.pod}).find(ctx); err != nil {
		return w, err
	}
	given := h.devicesOf(w.pod, w.claims)
	if err := h.planDefault(ctx, c, &w, given); err != nil {
		return w, fmt.Errorf("default network: %w", err)
	}
	var errs []error
	for i, e := range elements {
		name := e.Interface
		if name == "" {
			name = fmt.Sprintf("net%d", i+1)
		}
		n, err := h.planNetwork(ctx, &w, e, name, given)
		if err == nil {
			err = w.addNetwork(n, e)
		}
		tooLarge := w.checkSize()
		if err = cmp.Or(err, tooLarge); err != nil {
			errs = append(errs, fmt.Errorf("network %s/%s (%s): %w", e.Namespace, e.Name, name, err))
		}
		if tooLarge != nil {
			return w, errors.Join(errs...) // the next ones would only take memory
		}
	}
	return w, errors.Join(append(errs, (claimPlanner{h, &w}).planAll(ctx))...)
}

// checkSize refuses networks whose configurations are larger together than the record of
// a sandbox may be.
func (w *wish) checkSize() error {
	size := 0
	for _, n := range w.sandbox.Networks {
		for _, p := range n.Plugins {
			size += len(p.Raw)
		}
	}
	if size > journal.MaxSandbox {
		return fmt.Errorf("%w: the configurations of the networks up to it have %d bytes; want at most %d", vf.ErrInvalid, size, journal.MaxSandbox)
	}
	return nil
}

// addNetwork adds a network to the wish.
func (w *wish) addNetwork(n journal.SandboxNetwork, e netannotation.Element) error {
	for _, o := range w.sandbox.Networks {
		if o.Interface == n.Interface {
			return fmt.Errorf("interface %s: %w: network %s has that name; ask for another with @name", n.Interface, vf.ErrInvalid, o.Name)
		}
	}
	if err := w.addDefaultRoute(len(w.sandbox.Networks), e.DefaultRoute); err != nil {
		return err
	}
	w.sandbox.Networks = append(w.sandbox.Networks, n)
	return nil
}

// planDefault finds the default network: the one that the pod's annotation names, which is
// planned as any other network, or the node's.
func (h *Handler) planDefault(ctx context.Context, c call, w *wish, given devices) error {
	elements, err := netannotation.ParseDefault(w.pod.Annotations[netannotation.DefaultNetwork])
	var n journal.SandboxNetwork
	switch {
	case err != nil:
		return err
	case len(elements) == 1:
		if n, err = h.planNetwork(ctx, w, elements[0], c.IfName, given); err != nil {
			return fmt.Errorf("network %s/%s: %w", elements[0].Namespace, elements[0].Name, err)
		}
		n.Runtime = withRuntime(n.Runtime, c.config.RuntimeConfig)
		if err := w.addDefaultRoute(0, elements[0].DefaultRoute); err != nil {
			return fmt.Errorf("network %s: %w", n.Name, err)
		}
		w.ignoreName(elements[0], c.IfName)
	default:
		d, err := defaultIn(h.ConfDir)
		if err != nil {
			return fmt.Errorf("%w: %w", vf.ErrNotReady, err)
		}
		n = journal.SandboxNetwork{Name: d.Name, Interface: c.IfName, Runtime: c.config.RuntimeConfig}
		setDefinition(&n, d)
	}
	n.Default = true
	w.sandbox.Networks = append(w.sandbox.Networks, n)
	return nil
}

// ignoreName lists the interface name that an element asks for the default network as ignored,
// unless it is the runtime's.
func (w *wish) ignoreName(e netannotation.Element, name string) {
	if e.Interface != "" && e.Interface != name {
		w.ignored = append(w.ignored, fmt.Sprintf("network %s/%s: interface %s is asked for, and the default network has the name %s that the runtime gives it", e.Namespace, e.Name, e.Interface, name))
	}
}

// withRuntime adds what the runtime asks of the default network, such as port mappings, to
// what the pod's annotation asks. The annotation wins.
func withRuntime(asked, runtime map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(asked)
	for key, value := range runtime {
		if _, ok := out[key]; !ok {
			out[key] = value
		}
	}
	return out
}

func setDefinition(n *journal.SandboxNetwork, l netconf.List) {
	n.Network, n.Version, n.Plugins, n.DisableCheck, n.DisableGC = l.Name, l.Version, l.Plugins, l.DisableCheck, l.DisableGC
}

// readDefinition reads a network attachment definition that pods of a namespace may use, and
// the file on the node that it stands for when its configuration is empty. vfs is how many VFs the
// network needs; 0 stands for unknown.
func (h *Handler) readDefinition(ctx context.Context, e netannotation.Element, pod string) (l netconf.List, vfs int, nad api.NetworkDefinition, err error) {
	nad, err = h.Cluster.Network(ctx, e.Namespace, e.Name)
	// This check comes before every other error, so that a pod's author does not learn whether the
	// network exists: also while the API server does not answer, and the informer has the network.
	if !e.ForEveryPod {
		err = cmp.Or(h.Isolation.Check(pod, e.Namespace, e.Name, nad.Annotations), err)
	}
	if err != nil {
		return l, 0, nad, err
	}
	nad.Namespace, nad.Name = e.Namespace, e.Name
	d := h.Definitions.Read(nad)
	if d.Err == nil && len(d.List.Plugins) == 0 {
		l, err = namedIn(h.ConfDir, nad.Name)
		return l, 0, nad, err
	}
	return d.List, d.VFs(), nad, cmp.Or(d.Err, h.checkIPAMTypes(d))
}

// checkIPAMTypes refuses a network with a plugin whose IPAM plugin is not on the list, before
// anything of its pod is done. The administrator wrote the files on the nodes, which may name any.
func (h *Handler) checkIPAMTypes(d *config.Definition) error {
	for _, name := range d.IPAMTypes() {
		if err := h.IPAMTypes.Check(name); err != nil {
			return err
		}
	}
	return nil
}

// planNetwork turns one element of the annotation into a network.
func (h *Handler) planNetwork(ctx context.Context, w *wish, e netannotation.Element, name string, given devices) (journal.SandboxNetwork, error) {
	n := w.newNetwork(h.DeviceInfo, e.Namespace+"/"+e.Name, name)
	d, count, nad, err := h.readDefinition(ctx, e, w.pod.Namespace)
	if err != nil {
		return n, err
	}
	putCapabilities(n.Runtime, e)
	resource := nad.Annotations[netannotation.ResourceName]
	hasDevices := resource != "" || given.isOneRequest()
	if hasDevices {
		delete(n.Runtime, "deviceID")
		err = given.checkPool(resource)
	} else {
		err = given.checkDevice(ctx, e.DeviceID)
	}
	if err != nil {
		return n, err
	}
	if d.Plugins, err = withArgs(d.Plugins, e.CNIArgs); err != nil {
		return n, err
	}
	if e.MAC, err = chosenMAC(d.Plugins, e.MAC); err != nil {
		return n, err
	}
	n.Args = requestedArgs(e)
	w.ignored = append(w.ignored, slices.Concat(e.Ignored, notPassed(n, d.Plugins))...)
	if hasDevices {
		if count == 0 || len(e.CNIArgs) > 0 {
			count = config.VFsOf(d)
		}
		if err := given.give(ctx, &n, &d, resource, count, h.findPF); err != nil {
			return n, err
		}
		w.ignoreDevice(n, e.DeviceID, resource)
	}
	setDefinition(&n, d)
	return n, nil
}

// give takes the devices of a network, and puts them into its plugins.
func (d devices) give(ctx context.Context, n *journal.SandboxNetwork, l *netconf.List, resource string, count int, findPF func(vf.PCIAddr) vf.PFID) error {
	ids, err := d.takeFor(ctx, *l, resource, count, findPF)
	if err != nil {
		return err
	}
	if l.Plugins, err = withDevices(l.Plugins, ids); err != nil {
		return err
	}
	if len(ids) > 0 {
		n.Runtime["deviceID"] = netconf.String(ids[0])
	}
	return nil
}

// newNetwork returns a network of the wish without its configuration. infoDir is the folder for device-info
// files.
func (w *wish) newNetwork(infoDir, name, ifName string) journal.SandboxNetwork {
	return journal.SandboxNetwork{
		Name: name, Interface: ifName, Runtime: map[string]json.RawMessage{},
		DeviceInfo: filepath.Join(infoDir, "cni", w.sandbox.ID+"-"+ifName+"-device.json"),
	}
}

// putCapabilities puts the requests of an element under the names of the capabilities (CNI
// conventions, "well-known capabilities").
func putCapabilities(runtime map[string]json.RawMessage, e netannotation.Element) {
	put := func(key string, given bool, v any) {
		if raw, err := json.Marshal(v); given && err == nil {
			runtime[key] = raw
		}
	}
	put("mac", e.MAC != nil, e.MAC)
	put("ips", len(e.IPs) > 0, e.IPs)
	put("portMappings", len(e.PortMappings) > 0, e.PortMappings)
	put("bandwidth", e.Bandwidth != nil, e.Bandwidth)
	put("infinibandGUID", e.InfinibandGUID != "", e.InfinibandGUID)
	put("deviceID", e.DeviceID != "", e.DeviceID)
}

// requestedArgs returns the MAC address and the addresses of an element as CNI_ARGS. All plugins get
// them, also those that do not declare the capability, as Multus does it (DelegateAdd). The parser of
// the annotation lets nothing pass that could begin another argument.
func requestedArgs(e netannotation.Element) string {
	args := ""
	if e.MAC != nil {
		args = "MAC=" + e.MAC.String()
	}
	if len(e.IPs) > 0 {
		args = cni.AddArguments(args, "IP="+strings.Join(e.IPs, ","))
	}
	return args
}

// notPassed lists the requests of an element that no plugin accepts.
func notPassed(n journal.SandboxNetwork, plugins []netconf.Plugin) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(n.Runtime)) {
		if key == "mac" || key == "ips" {
			continue // requestedArgs passes them
		}
		takes := func(p netconf.Plugin) bool { return p.Takes(key) }
		if !slices.ContainsFunc(plugins, takes) {
			out = append(out, netconf.DescribeIgnored(n.Name, key))
		}
	}
	return out
}

// ignoreDevice lists the deviceID that an element asks for as ignored, unless the kubelet chose that
// device of the network's resource.
func (w *wish) ignoreDevice(n journal.SandboxNetwork, asked, resource string) {
	chosen := "none"
	_ = json.Unmarshal(n.Runtime["deviceID"], &chosen) // without a device it stays "none"
	if asked != "" && asked != chosen {
		w.ignored = append(w.ignored, fmt.Sprintf("network %s: deviceID %s is asked for, and the kubelet chose %s of %s", n.Name, excerpt.Quote(asked), excerpt.Line(chosen), resource))
	}
}

// withDevices puts the device that the kubelet chose into every plugin's configuration, in place
// of a device that it names, as Multus does. Culvert's own plugin gets all VFs of a bond.
func withDevices(plugins []netconf.Plugin, ids []string) ([]netconf.Plugin, error) {
	if len(ids) == 0 {
		return plugins, nil
	}
	out, id := slices.Clone(plugins), netconf.String(ids[0])
	all, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	for i, p := range plugins {
		keys := map[string]json.RawMessage{"deviceID": id, "pciBusID": id}
		if len(ids) > 1 && p.IsOwn() {
			keys["deviceIDs"] = all
		}
		if out[i], err = p.With(keys); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// withArgs adds an element's cni-args to args.cni of every plugin. All plugins together may be as
// large as one configuration, since a list of many plugins would multiply the args.
func withArgs(plugins []netconf.Plugin, args map[string]json.RawMessage) (out []netconf.Plugin, err error) {
	if len(args) == 0 {
		return plugins, nil
	}
	size := 0
	for _, p := range plugins {
		if p, err = p.WithArgs(args); err != nil {
			return nil, err
		}
		out, size = append(out, p), size+len(p.Raw)
		if err := netconf.CheckSize(size); err != nil {
			return nil, fmt.Errorf("with its cni-args: %w", err)
		}
	}
	return out, nil
}

// ignoreUnknown adds the key to CNI_ARGS that makes plugins ignore keys that they do not know, as
// the kubelet's runtimes do.
func ignoreUnknown(args string) string {
	if strings.Contains(args, "IgnoreUnknown") {
		return args
	}
	return strings.TrimSuffix("IgnoreUnknown=1;"+args, ";")
}

package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Definitions returns a network attachment definition, or an error that is vf.ErrNotFound.
type Definitions func(namespace, name string) (api.NetworkDefinition, error)

// Rules has what Judge needs to know: the networks that exist, which of them pods may use, and those
// that pods get without asking.
type Rules struct {
	Find      Definitions
	Isolation netannotation.Isolation
	EveryPod  netannotation.EveryPod
}

// Judge reads the annotations of a pod as an ADD does, without a node: its pod has the devices
// that its networks want. ignored describes requests of the pod that have no effect, and parts of
// a network that may be unintended. unknown has the networks that cannot be judged. The error is
// the reason why the pod does not start.
func Judge(ctx context.Context, p api.Pod, rules Rules) (ignored, unknown []string, err error) {
	cluster := judged{pod: p, find: rules.Find}
	h := New(Config{Cluster: cluster, Hardware: cluster, Devices: judgedDevices, Isolation: rules.Isolation, IPAMTypes: ipam.AnyType()})
	w := wish{pod: p, gateways: map[int][]netip.Addr{}}
	given := h.devicesOf(p, nil)
	judge := func(e netannotation.Element, name string) error {
		if e.DeviceID != "" {
			w.ignored = append(w.ignored, fmt.Sprintf("network %s/%s: deviceID %s counts where the kubelet gives the pod that VF", e.Namespace, e.Name, excerpt.Quote(e.DeviceID)))
			e.DeviceID = ""
		}
		n, err := h.planNetwork(ctx, &w, e, name, given)
		if errors.Is(err, vf.ErrNotFound) {
			unknown = append(unknown, e.Namespace+"/"+e.Name)
			return nil
		}
		if err == nil {
			err = errors.Join(w.addNetwork(n, e), h.judgePlugins(&w, n))
		}
		if err != nil {
			return fmt.Errorf("network %s/%s (%s): %w", e.Namespace, e.Name, name, err)
		}
		return nil
	}
	const runtimeName = "eth0"
	defaults, defaultErr := netannotation.ParseDefault(p.Annotations[netannotation.DefaultNetwork])
	errs := []error{defaultErr}
	for _, e := range defaults {
		errs = append(errs, judge(e, runtimeName))
		w.ignoreName(e, runtimeName)
	}
	elements, err := rules.EveryPod.Parse(p.Annotations[netannotation.Networks], p.Namespace)
	errs = append(errs, err)
	for i, e := range elements {
		errs = append(errs, judge(e, cmp.Or(e.Interface, fmt.Sprintf("net%d", i+1))))
	}
	errs = append(errs, w.checkSize())
	return w.ignored, unknown, errors.Join(errs...)
}

// judgePlugins reads the configurations of Culvert's plugins with the settings that the pod asks
// for. config.Judge judges the network itself.
func (h *Handler) judgePlugins(w *wish, n journal.SandboxNetwork) error {
	alone := n
	alone.Runtime, alone.Args = nil, ""
	for _, p := range n.Plugins {
		if !p.IsOwn() {
			continue
		}
		said, _ := h.judgeAdd(alone, p)
		warnings, err := h.judgeAdd(n, p)
		if err != nil {
			return err
		}
		for _, text := range warnings {
			if !slices.Contains(said, text) {
				w.ignored = append(w.ignored, "network "+n.Name+": "+text)
			}
		}
	}
	return nil
}

func (h *Handler) judgeAdd(n journal.SandboxNetwork, p netconf.Plugin) (warnings []string, err error) {
	config, err := chain{h: h, n: n}.composeConfig(p, nil, nil)
	if err != nil {
		return nil, err
	}
	r := api.CNIRequest{Command: "ADD", ContainerID: "judged", Netns: "/run/netns/judged", IfName: n.Interface, Config: config}
	return cni.JudgeAdd(cni.NewCall(r, cni.Arguments{}.Add(n.Args)))
}

// judged is the cluster of a pod that is judged.
type judged struct {
	pod  api.Pod
	find Definitions
}

func (j judged) Pod(context.Context, string, string, string) (api.Pod, error) { return j.pod, nil }

func (j judged) Network(_ context.Context, namespace, name string) (api.NetworkDefinition, error) {
	return j.find(namespace, name)
}

// PFs returns none: no node is known, so all VFs count as VFs of one PF.
func (judged) PFs() []vf.PF { return nil }

func (judged) Annotate(api.Pod, map[string]string) {}

func (judged) PodEvent(api.Pod, string, string, string) {}

func (judged) SetClaimDevices(api.ResourceClaim, []api.ClaimDevice) {}

// judgedDevices returns as many devices of a resource as the networks of a pod's annotation can
// need.
func judgedDevices(context.Context, string, string, string) ([]string, error) {
	out := make([]string, (netannotation.MaxElements+1)*vf.MaxLinks)
	for i := range out {
		out[i] = vf.PCIAddr{Domain: uint32(i + 1)}.String()
	}
	return out, nil
}

package verdict

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/suggest"
)

// kindGuest is the kind of a guest of KubeVirt. The spec of a guest is also in VirtualMachines,
// VirtualMachineInstanceReplicaSets and VirtualMachinePools.
const kindGuest = "VirtualMachineInstance"

// guest has the networks of a guest of KubeVirt. KubeVirt writes them into the annotation of the
// guest's pod (pkg/network/multus of KubeVirt).
type guest struct {
	interfaces, networks []map[string]any
}

// guestOf returns the guest of which an object is the spec, nil for any other object.
func guestOf(m map[string]any) *guest {
	devices := valueBelow(m, "domain", "devices")
	if devices == nil || m["networks"] == nil {
		return nil
	}
	g := &guest{interfaces: objectsIn(devices["interfaces"]), networks: objectsIn(m["networks"])}
	if !slices.ContainsFunc(g.networks, func(n map[string]any) bool { return multusName(n) != "" }) {
		return nil
	}
	return g
}

// objectsIn returns the objects of a list.
func objectsIn(list any) (out []map[string]any) {
	all, _ := list.([]any)
	for _, each := range all {
		if m, ok := each.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// multusName returns the NetworkAttachmentDefinition that a network of a guest names, empty for the
// pod's own network.
func multusName(network map[string]any) string {
	name, _ := valueBelow(network, "multus")["networkName"].(string)
	return name
}

// makeAnnotations returns the annotations that KubeVirt gives the pod of the guest.
func (g guest) makeAnnotations() map[string]any {
	out, elements := map[string]any{}, []map[string]string{}
	for _, n := range g.networks {
		namespace, name, ok := strings.Cut(multusName(n), "/")
		if !ok {
			namespace, name = "", namespace
		}
		if name == "" {
			continue
		}
		if valueBelow(n, "multus")["default"] == true {
			out[netannotation.DefaultNetwork] = multusName(n)
			continue
		}
		element := map[string]string{"name": name}
		if namespace != "" {
			element["namespace"] = namespace
		}
		if mac, _ := g.interfaceOf(n)["macAddress"].(string); mac != "" {
			element["mac"] = mac
		}
		elements = append(elements, element)
	}
	if len(elements) > 0 {
		raw, _ := json.Marshal(elements) // of texts: it cannot fail
		out[netannotation.Networks] = string(raw)
	}
	return out
}

// interfaceOf returns the interface of a network, nil where there is none.
func (g guest) interfaceOf(network map[string]any) map[string]any {
	i := slices.IndexFunc(g.interfaces, func(in map[string]any) bool { return in["name"] == network["name"] })
	if i < 0 {
		return nil
	}
	return g.interfaces[i]
}

// judgeGuest judges what KubeVirt reads of a guest's networks. Each network has an interface of its
// name (pkg/network/admitter of KubeVirt).
func (v *Verdict) judgeGuest(g guest, p api.Pod, all files) {
	interfaces, networks := namesOf(g.interfaces), namesOf(g.networks)
	for i, in := range g.interfaces {
		name := interfaces[i]
		v.misspelledKeys("interface "+excerpt.Quote(name), in, guestInterfaceKeys)
		if !slices.Contains(networks, name) {
			v.addRefusal("interface %s of the guest has no network of that name, and KubeVirt refuses it%s", excerpt.Quote(name), suggest.DidYouMean(name, networks))
		}
	}
	for i, n := range g.networks {
		name := networks[i]
		v.misspelledKeys("network "+excerpt.Quote(name), n, guestNetworkKeys)
		if !slices.Contains(interfaces, name) {
			v.addRefusal("network %s of the guest has no interface of that name, and KubeVirt refuses it%s", excerpt.Quote(name), suggest.DidYouMean(name, interfaces))
		} else if _, isSRIOV := g.interfaceOf(n)["sriov"]; isSRIOV {
			v.judgeGuestNetwork(name, multusName(n), p.Namespace, all)
		}
	}
}

// namesOf returns the names of objects, each empty where it has none.
func namesOf(all []map[string]any) (out []string) {
	for _, each := range all {
		name, _ := each["name"].(string)
		out = append(out, name)
	}
	return out
}

// judgeGuestNetwork warns of an interface with a VF whose network gives none.
func (v *Verdict) judgeGuestNetwork(name, network, namespace string, all files) {
	if network == "" {
		v.addWarning("interface %s is sriov, and its network has no key multus that names one with VFs", excerpt.Quote(name))
		return
	}
	of, short, ok := strings.Cut(network, "/")
	if !ok {
		of, short = namespace, network
	}
	n, err := all.rules.Find(of, short)
	if err != nil {
		return
	}
	if own, err := config.Own(n); err == nil && len(own) == 0 && n.Annotations[netannotation.ResourceName] == "" {
		v.addWarning("interface %s is sriov, and network %s/%s gives no VF", excerpt.Quote(name), of, short)
	}
}

// guestInterfaceKeys and guestNetworkKeys are the keys of KubeVirt's Interface and Network
// (api/core/v1/schema.go of KubeVirt).
var (
	guestInterfaceKeys = []string{
		"name", "model", "ports", "macAddress", "bootOrder", "pciAddress", "dhcpOptions", "tag", "acpiIndex", "state", "binding",
		"bridge", "slirp", "masquerade", "sriov", "macvtap", "passt", "passtBinding",
	}
	guestNetworkKeys = []string{"name", "pod", "multus"}
)

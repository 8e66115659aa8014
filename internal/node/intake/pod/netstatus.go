package pod

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// networkStatus is one element of the annotation k8s.v1.cni.cncf.io/network-status
// (Network Plumbing Working Group, "Network Custom Resource Definition De-facto
// Standard" 1.3, section 5).
type networkStatus struct {
	Name       string          `json:"name"`
	Interface  string          `json:"interface,omitempty"`
	IPs        []string        `json:"ips,omitempty"`
	MAC        string          `json:"mac,omitempty"`
	MTU        int             `json:"mtu,omitempty"`
	Default    bool            `json:"default,omitempty"`
	DNS        types.DNS       `json:"dns"`
	DeviceInfo json.RawMessage `json:"device-info,omitempty"`
	// Gateway are those of the network's default routes.
	Gateway []string `json:"gateway,omitempty"`
}

// statusOf returns the annotation of a pod whose networks are all there.
func (h *Handler) statusOf(w wish, records []journal.Record) (string, error) {
	moved := map[bool]bool{} // IPv4: whether another network has the default route
	for _, gateways := range w.gateways {
		for _, g := range gateways {
			moved[g.Is4()] = true
		}
	}
	var all []networkStatus
	for i, n := range w.sandbox.Networks {
		own, err := networkStatuses(n)
		members, wrong := h.memberStatuses(w.sandbox.ID, n, records)
		if err := errors.Join(err, wrong); err != nil {
			return "", fmt.Errorf("network %s (%s): %w", n.Name, n.Interface, err)
		}
		for j := range own {
			own[j].Gateway = keepGateways(own[j].Gateway, moved)
			for _, g := range w.gateways[i] {
				own[j].Gateway = append(own[j].Gateway, g.String())
			}
		}
		isMember := func(s networkStatus) bool {
			return slices.ContainsFunc(members, func(m networkStatus) bool { return m.Interface == s.Interface })
		}
		all = slices.Concat(all, slices.DeleteFunc(own, isMember), members)
	}
	raw, err := json.MarshalIndent(all, "", "    ")
	if err != nil {
		return "", fmt.Errorf("network-status: %w", err)
	}
	return string(raw), nil
}

// keepGateways returns the gateways of a family that no other network has taken.
func keepGateways(gateways []string, moved map[bool]bool) []string {
	var out []string
	for _, s := range gateways {
		if a, err := netip.ParseAddr(s); err == nil && !moved[a.Unmap().Is4()] {
			out = append(out, s)
		}
	}
	return out
}

// networkStatuses returns an element for each interface that a network has in the pod, as Multus does
// it (network-attachment-definition-client, CreateNetworkStatuses): by the result's interfaces with a
// sandbox. Each has the network's DNS, device and default routes. An address that names no interface
// is the last one's. A network whose result has no such interface has one element.
func networkStatuses(n journal.SandboxNetwork) ([]networkStatus, error) {
	r, err := config.DecodeResult(n.Result, n.Version)
	if err != nil {
		return nil, fmt.Errorf("result of version %s: %w: %w", n.Version, vf.ErrInvalid, err)
	}
	common := networkStatus{Name: n.Name, Interface: n.Interface, DeviceInfo: readDeviceInfo(n), DNS: r.DNS}
	for _, gateway := range defaultGateways(r) {
		common.Gateway = append(common.Gateway, gateway.String())
	}
	var out []networkStatus
	place := map[int]int{} // of the result's interfaces in out
	for i, in := range r.Interfaces {
		if in == nil || in.Sandbox == "" && in.Name != n.Interface {
			continue
		}
		s := common
		s.Interface, s.MAC, s.MTU, s.Gateway = in.Name, in.Mac, in.Mtu, slices.Clone(common.Gateway)
		place[i] = len(out)
		out = append(out, s)
	}
	if len(out) == 0 {
		out = []networkStatus{common}
	}
	first := -1 // with a gateway
	for _, ip := range r.IPs {
		if ip == nil || ip.Address.IP == nil {
			continue
		}
		to := len(out) - 1
		if ip.Interface != nil && len(place) > 0 {
			at, known := place[*ip.Interface]
			if !known {
				continue
			}
			to = at
		}
		out[to].IPs = append(out[to].IPs, ip.Address.IP.String())
		if first < 0 && ip.Gateway != nil {
			first = to
		}
	}
	out[max(first, 0)].Default = n.Default
	return out, nil
}

// memberStatuses returns an element for each VF of a bond for user space but the first, which the
// network's own element has. The pod's program finds its VFs by them: there is no interface.
func (h *Handler) memberStatuses(sandbox string, n journal.SandboxNetwork, records []journal.Record) (out []networkStatus, err error) {
	for _, r := range records {
		l := r.Lease
		if l.Owner.UID != sandbox || l.Owner.Interface != n.Interface || l.Wanted.Driver != vf.DriverVFIO || !isLaterMember(r) {
			continue
		}
		s := networkStatus{Name: n.Name, Interface: l.Wanted.Interface, MAC: l.Effective.MAC.String(), MTU: l.MTU, DeviceInfo: h.findDescription(r.PCI.String())}
		if s.DeviceInfo == nil {
			if s.DeviceInfo, err = h.encodeDeviceInfo(r); err != nil {
				return nil, err
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b networkStatus) int { return strings.Compare(a.Interface, b.Interface) })
	return out, nil
}

// inVersion returns a result as the specification's version v has it.
func inVersion(raw json.RawMessage, v string) ([]byte, error) {
	var said struct {
		CNIVersion string `json:"cniVersion"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return nil, fmt.Errorf("result: %w: %w", vf.ErrInvalid, err)
	}
	if said.CNIVersion == v {
		return raw, nil
	}
	if said.CNIVersion == "" {
		said.CNIVersion = "0.1.0"
	}
	r, err := create.Create(said.CNIVersion, raw)
	if err != nil {
		return nil, fmt.Errorf("result of version %s: %w", said.CNIVersion, err)
	}
	out, err := r.GetAsVersion(v)
	if err != nil {
		return nil, fmt.Errorf("result as version %s: %w", v, err)
	}
	var b bytes.Buffer
	if err := out.PrintTo(&b); err != nil {
		return nil, fmt.Errorf("write the result: %w", err)
	}
	return b.Bytes(), nil
}

package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// deviceInfo is the file that says which device a network of a pod has (Network
// Plumbing Working Group, "Device Information Specification" 1.1.0).
type deviceInfo struct {
	Type    string    `json:"type"`
	Version string    `json:"version"`
	PCI     pciDevice `json:"pci"`
}

type pciDevice struct {
	Address   string `json:"pci-address"`
	RDMA      string `json:"rdma-device,omitempty"`
	PFAddress string `json:"pf-pci-address,omitempty"`
}

// copyDeviceInfo copies the device plugin's description of a device, if there is one, to the
// network that another plugin serves. The specification passes it from the one to the other in this
// way.
func (h *Handler) copyDeviceInfo(n journal.SandboxNetwork) error {
	var device string
	if err := json.Unmarshal(n.Runtime["deviceID"], &device); err != nil || n.DeviceInfo == "" {
		return nil //nolint:nilerr // no device
	}
	if raw := h.findDescription(device); raw != nil {
		return writeFile(n.DeviceInfo, raw)
	}
	return nil
}

// findDescription returns the device plugin's description of a device, nil if there is none.
func (h *Handler) findDescription(device string) json.RawMessage {
	found, err := filepath.Glob(filepath.Join(h.DeviceInfo, "dp", "*-"+strings.NewReplacer("*", "", "?", "", "[", "", "\\", "").Replace(device)+"-device.json"))
	if err != nil || len(found) == 0 {
		return nil // the device plugin has written none
	}
	raw, err := readBounded(found[0])
	if err != nil || !json.Valid(raw) {
		return nil
	}
	return raw
}

// writeDeviceInfos writes the device-info file of each network that has a VF, unless there is a
// file from the device plugin. That file may have more, such as /dev/vhost-net.
func (h *Handler) writeDeviceInfos(sb journal.Sandbox, records []journal.Record) error {
	for _, n := range sb.Networks {
		for _, r := range records {
			owner := r.Lease.Owner
			if n.DeviceInfo == "" || r.Phase != vf.PhaseAttached || owner.UID != sb.ID || owner.Interface != n.Interface || isLaterMember(r) || readDeviceInfo(n) != nil {
				continue
			}
			if err := h.writeDeviceInfo(n, r); err != nil {
				return fmt.Errorf("network %s (%s): %w", n.Name, n.Interface, err)
			}
		}
	}
	return nil
}

func (h *Handler) writeDeviceInfo(n journal.SandboxNetwork, r journal.Record) error {
	raw, err := h.encodeDeviceInfo(r)
	if err != nil {
		return err
	}
	return writeFile(n.DeviceInfo, raw)
}

func (h *Handler) encodeDeviceInfo(r journal.Record) (json.RawMessage, error) {
	raw, err := json.Marshal(deviceInfo{Type: "pci", Version: "1.1.0", PCI: h.describeDevice(r)})
	if err != nil {
		return nil, fmt.Errorf("device-info: %w", err)
	}
	return raw, nil
}

// isLaterMember reports whether a VF is a member of a bond and not its first one. A file describes
// one device, which for a bond is the first VF.
func isLaterMember(r journal.Record) bool {
	l := r.Lease
	return l.Bond != nil && l.Wanted.Interface != vf.MemberName(l.Owner.Interface, 0)
}

// describeDevice describes a VF, with the names of its PF and its RDMA device if they exist.
func (h *Handler) describeDevice(r journal.Record) pciDevice {
	out := pciDevice{Address: r.PCI.String()}
	for _, pf := range h.Hardware.PFs() {
		if pf.ID != r.ID.PF {
			continue
		}
		out.PFAddress = pf.PCI.String()
		if st, ok := pf.VF(r.ID.Index); ok && st.RDMA != nil {
			out.RDMA = st.RDMA.Device
		}
	}
	return out
}

// readDeviceInfo returns the content of a network's file, nil when there is none.
func readDeviceInfo(n journal.SandboxNetwork) json.RawMessage {
	if n.DeviceInfo == "" {
		return nil
	}
	raw, err := readBounded(n.DeviceInfo)
	if err != nil || !json.Valid(raw) {
		return nil
	}
	return raw
}

func removeDeviceInfo(n journal.SandboxNetwork) error {
	if n.DeviceInfo == "" {
		return nil
	}
	if err := os.Remove(n.DeviceInfo); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("device-info: %w", err)
	}
	return nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > netconf.MaxText {
		return nil, fmt.Errorf("%s: %w: want a file of at most %d bytes", path, vf.ErrInvalid, netconf.MaxText)
	}
	return os.ReadFile(path)
}

// writeFile makes or replaces a file and makes its folder, or makes that of Multus writable.
func writeFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	err := durable.MkdirAll(dir, 0o755)
	if err == nil {
		err = durable.MakeWritable(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return durable.WriteFile(path, content, 0o644)
}

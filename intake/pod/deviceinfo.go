package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/culvert-net/culvert/durable"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/netconf"
	"github.com/culvert-net/culvert/vf"
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
	PFAddress string `json:"pf-pci-address,omitempty"`
}

// copyDeviceInfo gives a network of somebody else's what the device plugin says of
// its device, where it says anything: the specification's way from the one to the
// other.
func (h *Handler) copyDeviceInfo(n journal.SandboxNetwork) error {
	var device string
	if err := json.Unmarshal(n.Runtime["deviceID"], &device); err != nil || n.DeviceInfo == "" {
		return nil //nolint:nilerr // no device
	}
	found, err := filepath.Glob(filepath.Join(h.DeviceInfo, "dp", "*-"+strings.NewReplacer("*", "", "?", "", "[", "", "\\", "").Replace(device)+"-device.json"))
	if err != nil || len(found) == 0 {
		return nil //nolint:nilerr // the device plugin says nothing
	}
	raw, err := readBounded(found[0])
	if err != nil || !json.Valid(raw) {
		return nil //nolint:nilerr // nothing that makes sense
	}
	return write(n.DeviceInfo, raw)
}

// writeDeviceInfos writes the device-info file of each network that has a VF and for which
// the device plugin has none, which may know more: /dev/vhost-net. It reads the ledger once:
// a pod may have 64 networks, and a node 256 VFs.
func (h *Handler) writeDeviceInfos(sb journal.Sandbox) error {
	records, err := journal.ReadRecords(h.Ledger)
	if err != nil {
		return err
	}
	for _, n := range sb.Networks {
		for _, r := range records {
			owner := r.Lease.Owner
			if n.DeviceInfo == "" || r.Phase != journal.Attached || owner.UID != sb.ID || owner.Interface != n.Interface || readDeviceInfo(n) != nil {
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
	info := deviceInfo{Type: "pci", Version: "1.1.0", PCI: pciDevice{Address: r.PCI.String(), PFAddress: h.pfOf(r.ID)}}
	raw, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("device-info: %w", err)
	}
	return write(n.DeviceInfo, raw)
}

// pfOf is the PCI address of a VF's PF, empty when that is not there.
func (h *Handler) pfOf(id vf.ID) string {
	for _, pf := range h.Hardware.PFs() {
		if pf.ID == id.PF {
			return pf.PCI.String()
		}
	}
	return ""
}

// readDeviceInfo is what a network's file says, nil when there is none.
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

// write makes or replaces a file and makes its folder.
func write(path string, content []byte) error {
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return durable.WriteFile(path, content, 0o644)
}

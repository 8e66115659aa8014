package deviceplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cdi "tags.cncf.io/container-device-interface/specs-go"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/node/desired"
)

// Folders in which other programs look for the files of a device plugin.
const (
	// DefaultInfoDir has the files of the device-info specification 1.1.0
	// (k8snetworkplumbingwg/device-info-spec), where Multus reads them.
	DefaultInfoDir = "/var/run/k8s.cni.cncf.io/devinfo/dp"
	// DefaultCDIDir is where runtimes look for CDI specifications that come and go
	// (cncf-tags/container-device-interface SPEC.md).
	DefaultCDIDir = "/var/run/cdi"
)

const (
	cdiKind = "culvert.dev/vf"
	cdiFile = "culvert.dev-vf.json"
	// cdiVersion is the first with device names that begin with a digit.
	cdiVersion = "0.5.0"
)

// infoFile returns the path of the device-info of a VF of a pool.
func infoFile(pool string, d device) string {
	return strings.ReplaceAll(pool, "/", "-") + "-" + d.pci.String() + "-device.json"
}

// deviceInfo is a PCI device of the device-info specification 1.1.0.
type deviceInfo struct {
	Type    string  `json:"type"`
	Version string  `json:"version"`
	PCI     pciInfo `json:"pci"`
}

type pciInfo struct {
	Address   string `json:"pci-address"`
	VhostNet  string `json:"vhost-net,omitempty"`
	RDMA      string `json:"rdma-device,omitempty"`
	PFAddress string `json:"pf-pci-address,omitempty"`
}

func infoOf(d device) ([]byte, error) {
	i := deviceInfo{Type: "pci", Version: "1.1.0", PCI: pciInfo{Address: d.pci.String(), PFAddress: d.pf.PCI.String()}}
	if d.vhost {
		i.PCI.VhostNet = nodeVhost
	}
	if d.rdma != nil {
		i.PCI.RDMA = d.rdma.Device
	}
	return json.Marshal(i)
}

// cdiSpec returns the CDI file with the VFs of pools that say cdi; nil when there are none. A
// VF that needs no device node has no entry, since CDI allows none that is empty.
func cdiSpec(pools []desired.Pool, devices map[string][]device) ([]byte, error) {
	spec := cdi.Spec{Version: cdiVersion, Kind: cdiKind}
	for _, p := range pools {
		if !p.CDI {
			continue
		}
		for _, d := range devices[p.FullName()] {
			var edits cdi.ContainerEdits
			if d.vfio && d.group < 0 {
				continue
			}
			for _, n := range nodesOf(d) {
				edits.DeviceNodes = append(edits.DeviceNodes, &cdi.DeviceNode{Path: n, Permissions: "rw"})
			}
			if len(edits.DeviceNodes) > 0 {
				spec.Devices = append(spec.Devices, cdi.Device{Name: d.pci.String(), ContainerEdits: edits})
			}
		}
	}
	if len(spec.Devices) == 0 {
		return nil, nil
	}
	return json.Marshal(spec)
}

// Files has the files that culvertd wrote, with their content. They stay when culvertd ends,
// since a container that is started again meanwhile needs them. A list on disk names them, since
// other device plugins have files of the same form beside them.
type Files struct {
	list    string
	listed  string // the content of the list on disk
	written map[string]string
}

const listFile = ".culvert"

// TakeOver returns the files that an earlier run has written into the folders. Their content is not
// known. The list with this name is in the first folder. Each list is of one writer.
func TakeOver(list string, dirs ...string) *Files {
	f := &Files{list: filepath.Join(dirs[0], list), written: map[string]string{}}
	text, err := os.ReadFile(f.list)
	if err != nil {
		return f // there is no list, or it cannot be read: the files stay
	}
	f.listed = string(text)
	for _, path := range strings.Fields(f.listed) {
		if slices.Contains(dirs, filepath.Dir(path)) {
			f.written[path] = ""
		}
	}
	return f
}

// Keep writes the wanted files, by path, and removes all others. It replaces each file as a
// whole. A file that cannot be written does not keep the others from being written. A file is on
// the list before it is written, and until it is removed.
func (f *Files) Keep(want map[string]string) error {
	if err := f.writeList(want); err != nil {
		return err
	}
	var errs []error
	for path, content := range want {
		if f.written[path] == content {
			continue
		}
		if err := replaceFile(path, content); err != nil {
			errs = append(errs, err)
			continue
		}
		f.written[path] = content
	}
	for path := range f.written {
		if _, wanted := want[path]; wanted {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		delete(f.written, path)
	}
	return errors.Join(append(errs, f.writeList(nil))...)
}

// writeList writes the list: the files that are there, and the files of more, which will be written
// next.
func (f *Files) writeList(more map[string]string) error {
	all := maps.Clone(f.written)
	maps.Copy(all, more)
	text := strings.Join(slices.Sorted(maps.Keys(all)), "\n")
	if text == f.listed {
		return nil
	}
	if err := replaceFile(f.list, text); err != nil {
		return err
	}
	f.listed = text
	return nil
}

func replaceFile(path, content string) error {
	dir := filepath.Dir(path)
	err := durable.MkdirAll(dir, 0o755)
	if err == nil {
		err = durable.MakeWritable(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return durable.WriteFile(path, []byte(content), 0o644)
}

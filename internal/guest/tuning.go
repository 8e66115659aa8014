package guest

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Tuning has the parts of a definition that affect the guest's speed. Amounts of memory are in
// bytes.
type Tuning struct {
	Definition
	VCPUs  int
	Memory uint64
	// HugePages are the sizes of the pages that back the memory: 0 for the host's
	// default, empty for pages of the usual size.
	HugePages []uint64
	// HardLimit bounds what QEMU uses and may lock; 0: libvirt chooses.
	HardLimit uint64
	// VIOMMU says that the guest has an IOMMU of its own, and so each VF an
	// address space of its own.
	VIOMMU bool
	// Pins are the host's processors on which each vCPU runs; one without an entry
	// runs on any.
	Pins map[int][]int
	// Nodes are the host's NUMA nodes that the memory comes from; empty: any.
	Nodes  []int
	VirtIO []VirtIO
	Slots  Slots
	// Windows has what matters to a guest with Windows.
	Windows Windows
}

// VirtIO is an interface that QEMU or the host's kernel serves.
type VirtIO struct {
	Label  string // its alias, else its MAC address
	Queues int    // pairs of them; 1 when the definition says nothing, 0 when their number cannot be read
}

// Bounds on numbers in a definition, well beyond what QEMU and the kernel can do.
const (
	maxVCPUs = 1 << 13
	maxCPU   = 1 << 14 // the number of a processor or node of the host
)

// tuned has the parts of a domain that affect its speed; formatdomain.html has the elements.
type tuned struct {
	XMLName xml.Name `xml:"domain"`
	VCPU    struct {
		Count  string `xml:",chardata"`
		CPUSet string `xml:"cpuset,attr"`
	} `xml:"vcpu"`
	Memory        amount `xml:"memory"`
	MemoryBacking struct {
		HugePages *struct {
			Pages []struct {
				Size string `xml:"size,attr"`
				Unit string `xml:"unit,attr"`
			} `xml:"page"`
		} `xml:"hugepages"`
	} `xml:"memoryBacking"`
	HardLimit amount `xml:"memtune>hard_limit"`
	Pins      []struct {
		VCPU   string `xml:"vcpu,attr"`
		CPUSet string `xml:"cpuset,attr"`
	} `xml:"cputune>vcpupin"`
	NUMA struct {
		NodeSet string `xml:"nodeset,attr"`
	} `xml:"numatune>memory"`
	IOMMU      *struct{} `xml:"devices>iommu"`
	Interfaces []struct {
		Type  string `xml:"type,attr"`
		Model struct {
			Type string `xml:"type,attr"`
		} `xml:"model"`
		Driver struct {
			Queues string `xml:"queues,attr"`
		} `xml:"driver"`
		MAC struct {
			Address string `xml:"address,attr"`
		} `xml:"mac"`
		Alias struct {
			Name string `xml:"name,attr"`
		} `xml:"alias"`
	} `xml:"devices>interface"`
}

// ParseTuning reads a domain's XML, as Parse does, and the parts that affect the guest's speed. The
// error is about no device.
func ParseTuning(text []byte) (Tuning, error) {
	def, err := Parse(text)
	if err != nil {
		return Tuning{}, err
	}
	t := Tuning{Definition: def}
	err = t.readTuning(text)
	if err == nil {
		t.Slots, err = readSlots(text)
	}
	if err == nil {
		t.Windows, err = readWindows(text)
	}
	if err != nil {
		return Tuning{}, fmt.Errorf("the definition of guest %s: %w: %w", def.Name, vf.ErrInvalid, err)
	}
	return t, nil
}

func (t *Tuning) readTuning(text []byte) error {
	var d tuned
	if err := xml.NewDecoder(bytes.NewReader(text)).Decode(&d); err != nil {
		return err
	}
	var err1, err2, err3 error
	t.VIOMMU = d.IOMMU != nil
	t.VCPUs, err1 = parseNumber("<vcpu>", d.VCPU.Count, maxVCPUs)
	t.Memory, err2 = d.Memory.byteCount("<memory>")
	t.HardLimit, err3 = d.HardLimit.byteCount("<hard_limit>")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if h := d.MemoryBacking.HugePages; h != nil {
		for _, p := range h.Pages {
			size, err := amount{p.Size, p.Unit}.byteCount("<page> of <hugepages>")
			if err != nil {
				return err
			}
			t.HugePages = append(t.HugePages, size)
		}
		if len(h.Pages) == 0 {
			t.HugePages = []uint64{0}
		}
	}
	var err error
	if t.Nodes, err = parseSet(d.NUMA.NodeSet); err != nil {
		return fmt.Errorf("nodeset of <numatune>: %w", err)
	}
	t.readInterfaces(d)
	return t.readPins(d)
}

// readPins reads the processors of the vCPUs: <vcpupin> has a vCPU's own processors,
// <vcpu cpuset=...> those of all others.
func (t *Tuning) readPins(d tuned) error {
	all, err := parseSet(d.VCPU.CPUSet)
	if err != nil {
		return fmt.Errorf("cpuset of <vcpu>: %w", err)
	}
	t.Pins = map[int][]int{}
	for n := 0; n < t.VCPUs && len(all) > 0; n++ {
		t.Pins[n] = all
	}
	for _, p := range d.Pins {
		n, err := strconv.ParseUint(p.VCPU, 10, 16)
		if err != nil {
			return fmt.Errorf("vcpu %q of <vcpupin>: want a number", p.VCPU)
		}
		cpus, err := parseSet(p.CPUSet)
		if err != nil {
			return fmt.Errorf("cpuset of <vcpupin vcpu='%d'>: %w", n, err)
		}
		if int(n) < t.VCPUs && len(cpus) > 0 {
			t.Pins[int(n)] = cpus
		}
	}
	return nil
}

// readInterfaces reads the virtio interfaces. Those of other types than these have one queue
// in any case.
func (t *Tuning) readInterfaces(d tuned) {
	for _, i := range d.Interfaces {
		if !strings.HasPrefix(i.Model.Type, "virtio") || !slices.Contains([]string{"network", "bridge", "ethernet", "direct", "vhostuser", "vdpa"}, i.Type) {
			continue
		}
		v := VirtIO{Label: cmp.Or(i.Alias.Name, i.MAC.Address)}
		if n, err := parseNumber("queues", i.Driver.Queues, maxVCPUs); err == nil {
			v.Queues = n
		}
		t.VirtIO = append(t.VirtIO, v)
	}
}

// Beside is how many bytes libvirt adds to the memory that VFIO locks when it computes the limit,
// for the memory of devices and of QEMU itself (qemuDomainGetMemLockLimitBytes).
const Beside = 1 << 30

// Locks returns how much memory VFIO locks for that many devices: all of the guest's, and with
// an IOMMU in the guest all of it once for each device (libvirt 8.7 and newer count so).
func (t Tuning) Locks(devices int) uint64 {
	if !t.VIOMMU || devices < 1 {
		devices = 1
	}
	return t.Memory * uint64(devices)
}

// HostDevices returns how many devices of the definition take a slot for a PCI device of the host. An
// interface of a libvirt network may be one, and counts as a device of the guest.
func (t Tuning) HostDevices() (n int) {
	for _, u := range t.Uses {
		if u.Way != Network {
			n++
		}
	}
	return n
}

// TakesFailover returns an error if a VF cannot be the fast path of a virtio interface of this guest. QEMU
// takes only a device on a bus of PCI Express for that (docs/system/virtio-net-failover.rst). The error
// wraps vf.ErrInvalid.
func (t Tuning) TakesFailover() error {
	if t.Slots.Express {
		return nil
	}
	return fmt.Errorf("guest %s has machine %s: %w with --failover: QEMU takes a fast path only on PCI Express: change it to q35", t.Name, t.Slots.Machine, vf.ErrInvalid)
}

// TakesVF returns an error if the definition does not allow a VF as the device of that name. The
// error wraps vf.ErrInvalid.
func (t Tuning) TakesVF(device string) error {
	devices := len(t.Uses)
	if !slices.ContainsFunc(t.Uses, func(u Use) bool { return u.Alias == aliasOf(device) }) {
		devices++
	}
	if took := t.HostDevices(); devices > len(t.Uses) && took >= t.Slots.Most {
		return fmt.Errorf("<devices> of guest %s passes %d PCI devices: %w with one more: machine %s has room for %d beside the guest's own: take one out of the definition",
			t.Name, took, vf.ErrInvalid, cmp.Or(t.Slots.Machine, "q35"), t.Slots.Most)
	}
	if locked := t.Locks(devices); t.HardLimit != 0 && t.HardLimit < locked {
		return fmt.Errorf("<hard_limit> of guest %s is %d MiB: %w with %d PCI devices, for which VFIO locks %d MiB, so that QEMU would end with \"cannot allocate memory\": take it out, and libvirt chooses, or make it %d MiB",
			t.Name, t.HardLimit>>20, vf.ErrInvalid, devices, locked>>20, (locked+Beside)>>20)
	}
	return nil
}

// parseNumber reads a number from 1 to most; an empty text is 1, as in libvirt.
func parseNumber(what, s string, most int) (int, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 1, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 0 || n > uint64(most) {
		return 0, fmt.Errorf("%s %q: want a number from 1 to %d", what, s, most)
	}
	return int(n), nil
}

// amount is an amount of memory, with its unit.
type amount struct {
	Value string `xml:",chardata"`
	Unit  string `xml:"unit,attr"`
}

// memoryUnits returns the units of memory in bytes, as libvirt's documentation of <memory> has
// them.
func memoryUnits() map[string]uint64 {
	return map[string]uint64{
		"": 1 << 10, "b": 1, "bytes": 1,
		"KB": 1e3, "k": 1 << 10, "KiB": 1 << 10, "MB": 1e6, "M": 1 << 20, "MiB": 1 << 20,
		"GB": 1e9, "G": 1 << 30, "GiB": 1 << 30, "TB": 1e12, "T": 1 << 40, "TiB": 1 << 40, "PB": 1e15, "P": 1 << 50, "PiB": 1 << 50,
	}
}

// byteCount returns the amount in bytes; 0 if the element is empty.
func (a amount) byteCount(what string) (uint64, error) {
	s := strings.TrimSpace(a.Value)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	unit, known := memoryUnits()[a.Unit]
	over, total := bits.Mul64(n, unit)
	if err != nil || !known || over != 0 || total > 1<<60 {
		return 0, fmt.Errorf("%s %q, unit %q: want an amount of memory such as 4, unit GiB", what, s, a.Unit)
	}
	return total, nil
}

// parseSet reads libvirt's sets of processors and nodes, such as 0-3,^2,8. The
// numbers ascend.
func parseSet(s string) ([]int, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	set := map[int]bool{}
	for part := range strings.SplitSeq(s, ",") {
		part, not := strings.CutPrefix(strings.TrimSpace(part), "^")
		numbers, err := vf.ParseNumbers(part)
		if err != nil || numbers == nil || slices.Max(numbers) >= maxCPU || not && strings.Contains(part, "-") {
			return nil, fmt.Errorf("%q: want numbers and ranges below %d such as 0-3,^2,8", s, maxCPU)
		}
		for _, n := range numbers {
			set[n] = !not
		}
	}
	maps.DeleteFunc(set, func(_ int, in bool) bool { return !in })
	return append([]int{}, slices.Sorted(maps.Keys(set))...), nil
}

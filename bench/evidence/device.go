package evidence

import (
	"bufio"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/vf"
)

// Device has the facts about a PCI function that a program in user space is to drive.
type Device struct {
	Present bool
	Model   string // vendor and device: "8086:10ca"
	Driver  string // empty: none is bound
	PF      string // the PF's interface, or its PCI address where no interface of it is here
	VF      *int   // its index; nil: it is no VF
	MTU     int    // of the PF's interface; 0: not known
	Group   string // the number of its IOMMU group; empty: none
	// Unsafe is set if the group stands for no IOMMU (enable_unsafe_noiommu_mode of vfio).
	Unsafe bool
	CPUs   string // the processors of its NUMA node, as in cpulist; empty: not known
}

// Device reads the facts about the function with a PCI address.
func (r Reader) Device(pci string) Device {
	d := Device{Present: r.readLine(r.devicePath(pci, "vendor")) != "", CPUs: r.readLine(r.devicePath(pci, "local_cpulist"))}
	d.Model = strings.TrimPrefix(r.readLine(r.devicePath(pci, "vendor")), "0x") + ":" + strings.TrimPrefix(r.readLine(r.devicePath(pci, "device")), "0x")
	d.PF, d.VF = r.findPF(pci)
	if mtu, err := strconv.Atoi(r.readLine(r.devicePath(pci, "physfn", "net", d.PF, "mtu"))); err == nil {
		d.MTU = mtu
	}
	if driver, err := filepath.EvalSymlinks(r.pathOf(r.devicePath(pci, "driver"))); err == nil {
		d.Driver = filepath.Base(driver)
	}
	if group, err := filepath.EvalSymlinks(r.pathOf(r.devicePath(pci, "iommu_group"))); err == nil {
		d.Group = filepath.Base(group)
		d.Unsafe = r.readLine(r.devicePath(pci, "iommu_group", "name")) == "vfio-noiommu"
	}
	return d
}

// End returns the device as the end of a path.
func (d Device) End(pci string) bench.End {
	return bench.End{Interface: pci, MTU: d.MTU, Driver: d.Driver, PF: d.PF, VF: d.VF}
}

// GroupFile returns the file by which a program opens the device's IOMMU group.
func (r Reader) GroupFile(d Device) string { return r.pathOf("dev/vfio/" + d.Group) }

// FreeHugePages returns how many MiB of huge pages no program uses.
func (r Reader) FreeHugePages() (mib int) {
	const prefix = "hugepages-"
	for _, dir := range r.listFiles("sys/kernel/mm/hugepages/" + prefix + "*kB") {
		kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(dir), prefix), "kB"))
		free, wrong := strconv.Atoi(r.readLine("sys/kernel/mm/hugepages/" + filepath.Base(dir) + "/free_hugepages"))
		if err == nil && wrong == nil {
			mib += free * kib / 1024
		}
	}
	return mib
}

// HasHugetlbfs reports whether a file system of huge pages is mounted.
func (r Reader) HasHugetlbfs() bool {
	text, err := r.readText("proc/self/mounts")
	return err == nil && strings.Contains(text, " hugetlbfs ")
}

// LacksInstruction reports whether the processor names its instruction sets, and the one asked for
// is not among them (proc_cpuinfo(5), flags).
func (r Reader) LacksInstruction(name string) bool {
	text, err := r.readText("proc/cpuinfo")
	if err != nil {
		return false
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if key, flags, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "flags" {
			return !strings.Contains(flags+" ", " "+name+" ")
		}
	}
	return false
}

// portCounters are the names by which drivers count the frames on a NIC's port, of the PF and of all
// VFs: those received and those sent. A driver has the names of one row, and its counts are their
// sums: mlx5, ixgbe, i40e and ice, igb.
var portCounters = []struct{ received, sent []string }{
	{[]string{"rx_packets_phy"}, []string{"tx_packets_phy"}},
	{[]string{"rx_pkts_nic"}, []string{"tx_pkts_nic"}},
	{[]string{"port.rx_unicast", "port.rx_multicast", "port.rx_broadcast"}, []string{"port.tx_unicast", "port.tx_multicast", "port.tx_broadcast"}},
	{[]string{"rx_unicast.nic", "rx_multicast.nic", "rx_broadcast.nic"}, []string{"tx_unicast.nic", "tx_multicast.nic", "tx_broadcast.nic"}},
}

// commonCounters count the port in the statistics of a driver that counts VFs so (vf.Driver). Other
// drivers count a PF's own frames by these names.
var commonCounters = struct{ received, sent []string }{[]string{"rx_packets"}, []string{"tx_packets"}}

// PortCounters returns the frames that the port of a PF received and sent, with those of its VFs.
// known is false where the driver does not count them by a known name.
func PortCounters(pf string) (received, sent uint64, known bool) {
	a, err := newAsker()
	if err != nil {
		return 0, 0, false
	}
	defer a.close()
	stats, err := a.tool.Stats(pf)
	if err != nil {
		return 0, 0, false
	}
	return sumPort(a.describeInterface(pf).Driver, stats)
}

// sumPort finds a port's frames in a driver's statistics.
func sumPort(driver string, stats map[string]uint64) (received, sent uint64, known bool) {
	rows := portCounters
	if vf.DriverOf(driver).CountsVFs {
		rows = append(rows[:len(rows):len(rows)], commonCounters)
	}
	for _, row := range rows {
		received, isIn := sumOf(stats, row.received)
		sent, isOut := sumOf(stats, row.sent)
		if isIn && isOut {
			return received, sent, true
		}
	}
	return 0, 0, false
}

func sumOf(stats map[string]uint64, names []string) (sum uint64, all bool) {
	for _, name := range names {
		n, found := stats[name]
		if !found {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// Package survey reads the kernel's description of the host around its NICs: command line, IOMMU,
// modules, processors, interrupts, processes and their limits, file systems, sysctls. Its input is
// the root of the host's files ("/" outside of tests), and its results are values, which culvert
// doctor judges. Parsers of the kernel's files are pure and fuzzed. LoadModule, SetSysctl and
// RunProgram are the only functions that change the host.
package survey

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Root is the root of the host's files: "/" outside of tests.
type Root string

// Host is the state of the whole host. A value that does not exist is the zero value; Errs
// lists the values that could not be read.
type Host struct {
	Cmdline   []string // the kernel's arguments
	Release   string   // of the kernel, e.g. 6.12.9-amd64
	CPUVendor string   // e.g. GenuineIntel, AuthenticAMD; empty on other architectures
	CPUs      []int    // online
	Nodes     []int    // NUMA nodes online
	NodeCPUs  map[int][]int

	// HugePages has the number of huge pages that the host keeps, by their size in bytes.
	HugePages map[uint64]int

	IOMMUGroups int
	IOMMUs      []string // e.g. dmar0, ivhd0-iommu
	ACPITables  []string // DMAR and IVRS, if there

	Modules     Modules
	Processes   []Process
	IRQs        map[int]IRQ
	FileSystems []string // registered
	Swaps       []string // devices and files in use
	SwapsAtBoot []string // those of /etc/fstab
	Sysctls     map[string]string
	SELinux     string // enforcing, permissive, or empty without SELinux
	OpenStack   bool   // it is a virtual machine of OpenStack
	Programs    []string
	OpenPorts   []string // that firewalld's default zone opens, such as 10250/tcp or 30000-32767/tcp

	Errs []string
}

// Sysctls that are read.
const (
	IPForward    = "net.ipv4.ip_forward"
	BridgeCall   = "net.bridge.bridge-nf-call-iptables"
	BridgeCallV6 = "net.bridge.bridge-nf-call-ip6tables"
)

// programs are the paths of programs that Read looks for.
var programs = []string{
	"usr/bin/kubelet", "usr/local/bin/kubelet", "usr/bin/containerd", "usr/local/bin/containerd", "usr/bin/crio", "usr/local/bin/crio",
	"usr/sbin/update-grub", "usr/sbin/grubby", "usr/sbin/irqbalance", "usr/bin/apt-get", "usr/bin/dnf", "usr/bin/zypper",
	"usr/lib/systemd/system/culvertd.service", "usr/local/lib/systemd/system/culvertd.service", "etc/systemd/system/culvertd.service",
	"usr/local/bin/k3s", "run/systemd/system", "usr/bin/kubeadm", "usr/local/bin/kubeadm",
	"usr/sbin/tc", "usr/sbin/conntrack", "usr/sbin/iptables", "usr/sbin/ethtool", "usr/bin/socat",
}

// Read reads the host. It never fails: a value that does not exist is the zero value.
func Read(root Root) Host {
	r := reader{root: root}
	h := Host{
		Cmdline:     ParseCmdline(r.readText("proc/cmdline")),
		Release:     r.readLine("proc/sys/kernel/osrelease"),
		CPUVendor:   cpuVendor(r.readText("proc/cpuinfo")),
		CPUs:        r.readList("sys/devices/system/cpu/online"),
		Nodes:       r.readList("sys/devices/system/node/online"),
		NodeCPUs:    map[int][]int{},
		IOMMUGroups: len(r.listNames("sys/kernel/iommu_groups")),
		IOMMUs:      r.listNames("sys/class/iommu"),
		Swaps:       ParseSwaps(r.readText("proc/swaps")),
		FileSystems: parseFileSystems(r.readText("proc/filesystems")),
		Sysctls:     map[string]string{},
		IRQs:        ParseInterrupts(r.readText("proc/interrupts")),
		HugePages:   r.hugePages(),
		SwapsAtBoot: ParseFstabSwaps(r.readText("etc/fstab")),
		OpenStack: vf.IsOpenStack(r.readLine("sys/class/dmi/id/sys_vendor"), r.readLine("sys/class/dmi/id/product_name"),
			r.readLine("sys/class/dmi/id/chassis_asset_tag")),
		OpenPorts: r.openPorts(),
	}
	for _, n := range h.Nodes {
		h.NodeCPUs[n] = r.readList(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", n))
	}
	for _, t := range []string{"DMAR", "IVRS"} {
		if r.fileExists("sys/firmware/acpi/tables/" + t) {
			h.ACPITables = append(h.ACPITables, t)
		}
	}
	for _, key := range []string{IPForward, BridgeCall, BridgeCallV6} {
		if r.fileExists(sysctlFile(key)) {
			h.Sysctls[key] = r.readLine(sysctlFile(key))
		}
	}
	if r.fileExists("sys/fs/selinux/enforce") {
		h.SELinux = map[bool]string{true: "enforcing", false: "permissive"}[r.readLine("sys/fs/selinux/enforce") == "1"]
	}
	for _, p := range programs {
		if r.fileExists(p) {
			h.Programs = append(h.Programs, "/"+p)
		}
	}
	h.Modules = r.readModules(h.Release, h.Cmdline)
	h.Processes = r.readProcesses()
	r.readAffinities(h.IRQs)
	h.Errs = r.errs
	return h
}

// Device holds what sysfs shows of one PCI function beyond inventory.
type Device struct {
	IRQs     []int // its MSI vectors
	RxQueues int   // of its netdevice; 0 when it has none on the host
	TxQueues int
	// GroupType is the type of its IOMMU group: DMA, DMA-FQ or identity; it is empty without an
	// IOMMU.
	GroupType string
	// NoMemory: the firmware and the kernel gave its VFs no memory space, so
	// none can be made.
	NoMemory bool
	// LastBus is the bus of its last possible VF, BusEnd the last that the
	// bridge above reaches; 0 when unknown.
	LastBus, BusEnd int
}

// ReadDevice reads one PCI function.
func ReadDevice(root Root, addr vf.PCIAddr) Device {
	r := reader{root: root}
	dir := "sys/bus/pci/devices/" + addr.String()
	d := Device{GroupType: r.readLine(dir + "/iommu_group/type"), NoMemory: noMemory(r.readText(dir + "/resource"))}
	for _, name := range r.listNames(dir + "/msi_irqs") {
		if n, err := strconv.Atoi(name); err == nil {
			d.IRQs = append(d.IRQs, n)
		}
	}
	slices.Sort(d.IRQs)
	if netdevs := r.listNames(dir + "/net"); len(netdevs) > 0 {
		for _, q := range r.listNames(dir + "/net/" + netdevs[0] + "/queues") {
			switch {
			case strings.HasPrefix(q, "rx-"):
				d.RxQueues++
			case strings.HasPrefix(q, "tx-"):
				d.TxQueues++
			}
		}
	}
	total, offset, stride := r.readNumber(dir+"/sriov_totalvfs"), r.readNumber(dir+"/sriov_offset"), r.readNumber(dir+"/sriov_stride")
	if total > 0 && offset > 0 {
		rid := int(addr.Bus)<<8 | int(addr.Device)<<3 | int(addr.Function)
		d.LastBus = (rid + offset + stride*(total-1)) >> 8
		if place, err := filepath.EvalSymlinks(r.rootedPath(dir)); err == nil {
			end, err := os.ReadFile(filepath.Join(filepath.Dir(place), "subordinate_bus_number"))
			if n, convErr := strconv.Atoi(string(bytes.TrimSpace(end))); err == nil && convErr == nil {
				d.BusEnd = n
			}
		}
	}
	return d
}

// noMemory reads a function's resource file: lines of start, end and flags. The seventh is the
// ROM; the next six are the memory of the VFs (linux/pci.h, PCI_IOV_RESOURCES). Memory that no
// firmware or kernel assigned has a size and no place.
func noMemory(text []byte) bool {
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		fields := strings.Fields(line)
		if n < 8 || n > 13 || len(fields) != 3 {
			continue
		}
		start, err1 := strconv.ParseUint(fields[0], 0, 64)
		end, err2 := strconv.ParseUint(fields[1], 0, 64)
		if err1 == nil && err2 == nil && start == 0 && end > 0 {
			return true
		}
	}
	return false
}

// reader reads files below a root and collects the errors, except for files that do not exist.
type reader struct {
	root Root
	errs []string
}

func (r *reader) rootedPath(name string) string { return filepath.Join(string(r.root), name) }

// maxText bounds one file of the kernel's; /proc/interrupts of a machine with
// hundreds of processors is a few MiB.
const maxText = 16 << 20

func (r *reader) readText(name string) []byte {
	f, err := os.Open(r.rootedPath(name))
	if err == nil {
		defer f.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(f, maxText)); err == nil {
			return text
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		r.errs = append(r.errs, err.Error())
	}
	return nil
}

func (r *reader) readLine(name string) string {
	line, _, _ := strings.Cut(string(r.readText(name)), "\n")
	return strings.TrimSpace(line)
}

func (r *reader) readNumber(name string) int {
	n, err := strconv.Atoi(r.readLine(name))
	if err != nil {
		return 0
	}
	return n
}

func (r *reader) readList(name string) []int {
	list, err := vf.ParseNumbers(r.readLine(name))
	if err != nil {
		r.errs = append(r.errs, fmt.Sprintf("/%s: %v", name, err))
	}
	return list
}

func (r *reader) listNames(dir string) []string {
	entries, err := os.ReadDir(r.rootedPath(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.errs = append(r.errs, err.Error())
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// hugePages reads the pools (kernel, admin-guide/mm/hugetlbpage).
func (r *reader) hugePages() map[uint64]int {
	out := map[uint64]int{}
	for _, name := range r.listNames("sys/kernel/mm/hugepages") {
		digits := strings.TrimSuffix(strings.TrimPrefix(name, "hugepages-"), "kB")
		if kib, err := strconv.ParseUint(digits, 10, 40); err == nil {
			out[kib<<10] = r.readNumber("sys/kernel/mm/hugepages/" + name + "/nr_hugepages")
		}
	}
	return out
}

func (r *reader) fileExists(name string) bool {
	_, err := os.Stat(r.rootedPath(name))
	return err == nil
}

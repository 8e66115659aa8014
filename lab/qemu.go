package lab

import (
	"fmt"
	"strconv"
	"strings"
)

// qemu is the emulator. Its igb device, an Intel 82576 with SR-IOV, came with
// version 8; the lab is measured on 10.0.
const qemu = "qemu-system-x86_64"

// memoryLimit is the most memory, in MiB, that a machine may have: with 3 GiB the emulated
// mailbox between the PF and its VFs fails.
const memoryLimit = 2048

// A machine describes the virtual machine that QEMU runs. The zero value of a field leaves its
// device out.
type machine struct {
	Accel     string // "kvm" or "tcg"
	MemoryMiB int
	CPUs      int
	Kernel    string
	Initrd    string
	Cmdline   string
	Disk      string // a qcow2 file
	Serial    string // the file that takes the console
	QMPFD     int    // a socket that QEMU inherits for its monitor
	PFs       []port
	Mgmt      *port
	Share     string // a folder of the host that the machine can mount read-only, by the 9p tag "lab"
	Channels  []channel
	IOMMU     bool
	PCIRoots  int    // 2 puts the second PF under a root of its own
	Files     string // a file that the machine reads as the read-only disk "files"
	Memory    string // a file that backs the memory, so that it can be kept in a snapshot
	// Restore makes the machine wait for [monitor.restoreMachine]. Its memory is then a private
	// view of the file Memory, which stays as it is, and it needs no kernel.
	Restore bool
}

// A port is a NIC and its connection.
type port struct {
	ID      string // of the netdev; "pf1" and "pf2" for the PFs
	MAC     string
	Backend string // "tap,ifname=...", "hubport,hubid=..."
}

// A channel is a virtio-serial port on a socket that QEMU inherits.
type channel struct {
	Name string
	FD   int
}

// commandLine returns the command line of the machine. The n-th PF sits behind the n-th
// root port, which is PCI bus n, so that udev names it enp<n>s0; see [pciBus].
func (m machine) commandLine() []string {
	chip := "q35,sata=off,smbus=off,i8042=off"
	if m.IOMMU {
		chip += ",kernel-irqchip=split" // interrupt remapping needs it
	}
	if m.Memory != "" {
		chip += ",memory-backend=ram"
	}
	a := []string{
		"-machine", chip, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-m", strconv.Itoa(m.MemoryMiB), "-smp", strconv.Itoa(m.CPUs),
		"-device", "virtio-rng-pci,bus=pcie.0,addr=0x1e",
		"-device", "vmgenid,guid=auto", // makes a restored kernel reseed its random numbers
	}
	a = append(a, m.startArgs()...)
	a = append(a, m.accelArgs()...)
	if m.IOMMU {
		a = append(a, "-device", "intel-iommu,intremap=on,caching-mode=on")
	}
	if m.Serial != "" {
		a = append(a, "-chardev", "file,id=console,append=on,path="+escapeOption(m.Serial), "-serial", "chardev:console")
	}
	if m.QMPFD != 0 {
		a = append(a, "-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", m.QMPFD), "-mon", "chardev=monitor,mode=control")
	}
	for i, p := range m.PFs {
		n := i + 1
		root := fmt.Sprintf("bus=pcie.0,addr=0x%x", 0x1+n)
		if m.PCIRoots == 2 && n == 2 {
			a = append(a, "-device", fmt.Sprintf("pxb-pcie,id=pcie.1,bus=pcie.0,addr=0x18,bus_nr=%d", secondRoot))
			root = "bus=pcie.1,addr=0x0"
		}
		a = append(a,
			"-device", fmt.Sprintf("pcie-root-port,id=rp%d,chassis=%d,slot=%d,%s", n, n, n, root),
			"-netdev", p.netdevOption(),
			"-device", fmt.Sprintf("igb,id=dev-%s,bus=rp%d,netdev=%s,mac=%s", p.ID, n, p.ID, p.MAC))
	}
	if m.Mgmt != nil {
		a = append(a, "-netdev", m.Mgmt.netdevOption(),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=%s,mac=%s,bus=pcie.0,addr=0x1d,romfile=", m.Mgmt.ID, m.Mgmt.MAC))
	}
	if m.Disk != "" {
		a = append(a, "-drive", "if=none,id=root,format=qcow2,discard=unmap,file="+escapeOption(m.Disk),
			"-device", "virtio-blk-pci,drive=root,bus=pcie.0,addr=0x1c")
	}
	if m.Files != "" {
		a = append(a, "-drive", "if=none,id=files,format=raw,readonly=on,file="+escapeOption(m.Files),
			"-device", "virtio-blk-pci,drive=files,bus=pcie.0,addr=0x19")
	}
	if m.Share != "" {
		a = append(a, "-fsdev", "local,id=share,security_model=none,readonly=on,path="+escapeOption(m.Share),
			"-device", "virtio-9p-pci,fsdev=share,mount_tag=lab,bus=pcie.0,addr=0x1a")
	}
	return append(a, m.channelArgs()...)
}

// startArgs returns the arguments for the memory, and for the kernel or the snapshot that the
// machine starts from.
func (m machine) startArgs() []string {
	var a []string
	if m.Memory != "" {
		backing := "share=on"
		if m.Restore {
			backing = "share=off,readonly=on,rom=off"
		}
		a = append(a, "-object", fmt.Sprintf("memory-backend-file,id=ram,size=%dM,%s,mem-path=%s", m.MemoryMiB, backing, escapeOption(m.Memory)))
	}
	if m.Restore {
		return append(a, "-incoming", "defer")
	}
	return append(a, "-kernel", m.Kernel, "-initrd", m.Initrd, "-append", m.Cmdline)
}

func (m machine) accelArgs() []string {
	if m.Accel == "kvm" {
		return []string{"-accel", "kvm", "-cpu", "host"}
	}
	return []string{"-accel", "tcg,thread=multi,tb-size=1024", "-cpu", emulatedCPU}
}

// emulatedCPU is a CPU without fast string operations. With them the kernel copies and clears
// pages by REP MOVSB and REP STOSB, and emulation does those byte by byte. Without them a node
// spends a seventh less processor time on starting programs and copying files.
const emulatedCPU = "max,erms=off,fsrm=off"

func (m machine) channelArgs() []string {
	if len(m.Channels) == 0 {
		return nil
	}
	a := []string{"-device", "virtio-serial-pci,bus=pcie.0,addr=0x1b"}
	for _, c := range m.Channels {
		a = append(a, "-chardev", fmt.Sprintf("socket,id=%s,fd=%d", c.Name, c.FD),
			"-device", fmt.Sprintf("virtserialport,chardev=%s,name=%s", c.Name, c.Name))
	}
	return a
}

// secondRoot is the bus number of the second PCIe root.
const secondRoot = 64

// pciBus returns the number of the bus that the n-th PF of a machine is on.
func pciBus(n, roots int) int {
	if roots == 2 && n == 2 {
		return secondRoot + 1 // behind its root port
	}
	return n
}

func (p port) netdevOption() string {
	kind, options, _ := strings.Cut(p.Backend, ",")
	return kind + ",id=" + p.ID + "," + options
}

// escapeOption makes a path safe inside a QEMU option, where a comma ends a value.
func escapeOption(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// macAddr returns the stable address of a node's NIC: nic 0 is the management
// interface, 1 and 2 are the PFs.
func macAddr(node, nic int) string { return fmt.Sprintf("52:54:00:c1:%02x:%02x", node, nic) }

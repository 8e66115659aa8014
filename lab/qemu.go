package lab

import (
	"fmt"
	"strconv"
	"strings"
)

// qemu is the emulator. Its igb device, an Intel 82576 with SR-IOV, came with
// version 8; the lab is measured on 10.0.
const qemu = "qemu-system-x86_64"

// memoryLimit is the most memory, in MiB, that a machine may have: with 3 GiB
// the mailbox between the PF and its VFs dies in the emulation.
const memoryLimit = 2048

// A machine is what QEMU is told. The zero value of a field leaves its device out.
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
	// Restore makes the machine wait for [monitor.restore]. Its memory is then a private
	// view of the file Memory, which stays as it is, and it needs no kernel.
	Restore bool
}

// A port is a NIC and what it is plugged into.
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

// args is the command line of the machine. The n-th PF sits behind the n-th
// root port, which is PCI bus n, so that udev names it enp<n>s0; see [pciBus].
func (m machine) args() []string {
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
		"-device", "vmgenid,guid=auto", // makes a restored kernel seed its random numbers anew
	}
	a = append(a, m.startArgs()...)
	a = append(a, m.accelArgs()...)
	if m.IOMMU {
		a = append(a, "-device", "intel-iommu,intremap=on,caching-mode=on")
	}
	if m.Serial != "" {
		a = append(a, "-chardev", "file,id=console,append=on,path="+escape(m.Serial), "-serial", "chardev:console")
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
			"-netdev", p.netdev(),
			"-device", fmt.Sprintf("igb,id=dev-%s,bus=rp%d,netdev=%s,mac=%s", p.ID, n, p.ID, p.MAC))
	}
	if m.Mgmt != nil {
		a = append(a, "-netdev", m.Mgmt.netdev(),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=%s,mac=%s,bus=pcie.0,addr=0x1d,romfile=", m.Mgmt.ID, m.Mgmt.MAC))
	}
	if m.Disk != "" {
		a = append(a, "-drive", "if=none,id=root,format=qcow2,discard=unmap,file="+escape(m.Disk),
			"-device", "virtio-blk-pci,drive=root,bus=pcie.0,addr=0x1c")
	}
	if m.Files != "" {
		a = append(a, "-drive", "if=none,id=files,format=raw,readonly=on,file="+escape(m.Files),
			"-device", "virtio-blk-pci,drive=files,bus=pcie.0,addr=0x19")
	}
	if m.Share != "" {
		a = append(a, "-fsdev", "local,id=share,security_model=none,readonly=on,path="+escape(m.Share),
			"-device", "virtio-9p-pci,fsdev=share,mount_tag=lab,bus=pcie.0,addr=0x1a")
	}
	return append(a, m.channelArgs()...)
}

// startArgs say where the memory is and what the machine starts with.
func (m machine) startArgs() []string {
	var a []string
	if m.Memory != "" {
		backing := "share=on"
		if m.Restore {
			backing = "share=off,readonly=on,rom=off"
		}
		a = append(a, "-object", fmt.Sprintf("memory-backend-file,id=ram,size=%dM,%s,mem-path=%s", m.MemoryMiB, backing, escape(m.Memory)))
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
	return []string{"-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max"}
}

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

// secondRoot is the number of the bus that the second PCIe root is.
const secondRoot = 64

// pciBus returns the number of the bus that the n-th PF of a machine is on.
func pciBus(n, roots int) int {
	if roots == 2 && n == 2 {
		return secondRoot + 1 // behind its root port
	}
	return n
}

func (p port) netdev() string {
	kind, options, _ := strings.Cut(p.Backend, ",")
	return kind + ",id=" + p.ID + "," + options
}

// escape makes a path safe inside a QEMU option, where a comma ends a value.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// macAddr is the stable address of a node's NIC: nic 0 is the management
// interface, 1 and 2 are the PFs.
func macAddr(node, nic int) string { return fmt.Sprintf("52:54:00:c1:%02x:%02x", node, nic) }

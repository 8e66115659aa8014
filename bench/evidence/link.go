package evidence

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// link is an interface of this network namespace.
type link struct {
	bench.Interface
	addresses []netip.Addr
}

// netLinks lists the interfaces of this network namespace except the loopback interface.
func (r Reader) netLinks() ([]link, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	asked, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer asked.close()
	var links []link
	shapes := readShapes()
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		l := link{Interface: asked.describeInterface(i.Name)}
		l.Name, l.MTU = i.Name, i.MTU
		r.fromPCI(&l.Interface)
		r.countQueues(&l.Interface)
		l.Steering = r.readSteering(l.Name)
		shape := shapes[i.Index]
		l.Qdisc, l.QdiscMbps, l.FlowMbps = shape.text, shape.mbps, shape.mbpsOfFlow
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
				l.addresses = append(l.addresses, p.Addr())
			}
		}
		links = append(links, l)
	}
	r.forgetMadeUp(links)
	return links, nil
}

// VLANDriver is the driver of a VLAN's interface on a NIC, as ethtool gives it (net/8021q/vlan_dev.c).
const VLANDriver = "802.1Q VLAN Support"

// forgetMadeUp removes speeds that are not those of hardware, such as the 10000 Mb/s that veth
// makes up. The speed of a bond is the kernel's sum of its members that send
// (bond_ethtool_get_link_ksettings), and that of a VLAN is the speed of the interface below it.
func (r Reader) forgetMadeUp(links []link) {
	var hardware func(name string) bool
	hardware = func(name string) bool {
		i := slices.IndexFunc(links, func(l link) bool { return l.Name == name })
		if i < 0 || links[i].PCI != "" {
			return i >= 0
		}
		under := r.interfacesUnder(name)
		return len(under) > 0 && slices.Contains([]string{"bonding", VLANDriver}, links[i].Driver) && !slices.ContainsFunc(under, func(u string) bool { return !hardware(u) })
	}
	for i := range links {
		if !hardware(links[i].Name) {
			links[i].SpeedMbps = 0
		}
	}
}

// devicePath returns the path of a file of an interface's PCI function. sysfs shows it to all
// network namespaces, unlike those of /sys/class/net.
func (r Reader) devicePath(pci string, file ...string) string {
	return "sys/bus/pci/devices/" + strings.Join(append([]string{pci}, file...), "/")
}

// fromPCI adds the properties of an interface's PCI function. An interface without one has no NUMA
// node.
func (r Reader) fromPCI(i *bench.Interface) {
	i.NUMA = -1
	if i.PCI == "" || r.readLine(r.devicePath(i.PCI, "vendor")) == "" {
		i.PCI = ""
		return
	}
	i.Bus = r.readBus(i.PCI)
	if n, err := strconv.Atoi(r.readLine(r.devicePath(i.PCI, "numa_node"))); err == nil {
		i.NUMA = n
	}
	for _, file := range r.listFiles(r.devicePath(i.PCI, "msi_irqs", "[0-9]*")) {
		n, err := strconv.Atoi(filepath.Base(file))
		if err == nil {
			i.IRQs = append(i.IRQs, bench.IRQ{Number: n, CPUs: r.readLine(fmt.Sprintf("proc/irq/%d/smp_affinity_list", n)), Comes: r.readLine(fmt.Sprintf("proc/irq/%d/effective_affinity_list", n))})
		}
	}
}

// countQueues counts an interface's queues if its driver does not report them.
func (r Reader) countQueues(i *bench.Interface) {
	if i.RxQueues == 0 {
		i.RxQueues = len(r.listFiles("sys/class/net/" + i.Name + "/queues/rx-*"))
	}
	if i.TxQueues == 0 {
		i.TxQueues = len(r.listFiles("sys/class/net/" + i.Name + "/queues/tx-*"))
	}
}

// Ends lists where traffic can start or stop in this network namespace: each global
// address of each interface, and each interface that has none, without an address.
func (r Reader) Ends() ([]bench.End, error) {
	links, err := r.netLinks()
	if err != nil {
		return nil, err
	}
	var ends []bench.End
	for _, l := range links {
		end := bench.End{Interface: l.Name, MTU: l.MTU, Driver: l.Driver}
		end.PF, end.VF = r.findPF(l.PCI)
		end.Uplink = strings.Join(r.interfacesUnder(l.Name), "+")
		if len(l.addresses) == 0 {
			ends = append(ends, end)
		}
		for _, a := range l.addresses {
			end.Address = a
			ends = append(ends, end)
		}
	}
	return ends, nil
}

// interfacesUnder returns the interfaces that carry an interface's frames: a bond's members, the
// interface below a tunnel or a VLAN, and those below them in turn (the lower_ links of
// Documentation/ABI/testing/sysfs-class-net). A bridge has none: a frame takes one of its ports.
func (r Reader) interfacesUnder(name string) []string {
	dir := "sys/class/net/" + name
	if len(r.listFiles(dir+"/bridge")) > 0 {
		return nil
	}
	var all []string
	for _, link := range r.listFiles(dir + "/lower_*") {
		lower := strings.TrimPrefix(filepath.Base(link), "lower_")
		for _, u := range append([]string{lower}, r.interfacesUnder(lower)...) {
			if !slices.Contains(all, u) {
				all = append(all, u)
			}
		}
	}
	return all
}

// findPF returns the PF of a VF and the VF's index: the PF's name, or in a network
// namespace where it is not seen its PCI address. For an interface that is no VF it returns nothing.
func (r Reader) findPF(pci string) (pf string, index *int) {
	pf, index = r.findParent(pci)
	if names := r.listFiles(r.devicePath(pf, "net", "*")); pf != "" && len(names) > 0 {
		pf = filepath.Base(names[0])
	}
	return pf, index
}

// findParent returns the PCI address of a VF's PF and the VF's index.
func (r Reader) findParent(pci string) (pf string, index *int) {
	if pci == "" {
		return "", nil
	}
	target, err := filepath.EvalSymlinks(r.pathOf(r.devicePath(pci, "physfn")))
	if err != nil {
		return "", nil
	}
	for _, file := range r.listFiles(r.devicePath(pci, "physfn", "virtfn[0-9]*")) {
		vf, err := filepath.EvalSymlinks(file)
		n, bad := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), "virtfn"))
		if err == nil && bad == nil && filepath.Base(vf) == pci {
			index = &n
		}
	}
	return filepath.Base(target), index
}

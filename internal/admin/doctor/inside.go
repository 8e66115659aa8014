package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// InsideScript is a script for a POSIX shell of a Linux guest. It prints what ParseInside reads: a word,
// a name and KEY=VALUE pairs a line. It needs no more than busybox, and no root.
const InsideScript = `echo "kernel $(uname -s) release=$(uname -r)"
echo "cpus online list=$(cat /sys/devices/system/cpu/online 2>/dev/null)"
echo "nodes online list=$(cat /sys/devices/system/node/online 2>/dev/null)"
for c in /proc/[0-9]*/comm; do
	n=; read -r n 2>/dev/null <"$c"
	case $n in irqbalance|numad) echo "process $n";; esac
done
for i in /sys/class/net/*; do
	[ -e "$i/device" ] || continue
	n=${i##*/}; d=$(readlink "$i/device/driver"); p=$(readlink -f "$i/device")
	[ -d "$p/msi_irqs" ] || p=${p%/*}
	set -- "$i"/queues/rx-*; rx=$#
	echo "interface $n driver=${d##*/} mac=$(cat "$i/address") mtu=$(cat "$i/mtu") rx=$rx state=$(cat "$i/operstate" 2>/dev/null)"
	for q in "$p"/msi_irqs/*; do
		q=${q##*/}
		for a in /proc/irq/"$q"/*/; do
			[ -d "$a" ] && echo "irq $n cpus=$(cat /proc/irq/"$q"/effective_affinity_list 2>/dev/null)" && break
		done
	done
done
`

// Inside is what a guest sees of itself.
type Inside struct {
	Kernel, Release string // as uname has them
	CPUs, Nodes     []int  // online
	Processes       []string
	Interfaces      []InsideInterface
	// Err is the reason why the guest did not answer.
	Err string
}

// InsideInterface is an interface of a guest that is a device: a VF, or one of virtio.
type InsideInterface struct {
	Name, Driver, State string
	MAC                 vf.MAC
	MTU, RxQueues       int
	IRQs                [][]int // the processors of each interrupt that is in use
}

// mostInside bounds the interfaces of a guest that are read.
const mostInside = 512

// ParseInside reads the output of InsideScript. It passes over lines that it does not know, such as a
// greeting of the guest.
func ParseInside(text string) Inside {
	var in Inside
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		name, values := excerpt.Line(words[1]), map[string]string{}
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			values[key] = excerpt.Line(value)
		}
		switch words[0] {
		case "kernel":
			in.Kernel, in.Release = name, values["release"]
		case "cpus":
			in.CPUs, _ = vf.ParseNumbers(values["list"])
		case "nodes":
			in.Nodes, _ = vf.ParseNumbers(values["list"])
		case "process":
			in.Processes = append(in.Processes, name)
		case "interface":
			if len(in.Interfaces) < mostInside {
				in.Interfaces = append(in.Interfaces, parseInterface(name, values))
			}
		case "irq":
			if n := len(in.Interfaces); n > 0 && in.Interfaces[n-1].Name == name {
				cpus, _ := vf.ParseNumbers(values["cpus"])
				in.Interfaces[n-1].IRQs = append(in.Interfaces[n-1].IRQs, cpus)
			}
		}
	}
	if in.Kernel == "" {
		in.Err = "the answer is not that of a Linux guest: " + excerpt.Quote(text)
	}
	return in
}

func parseInterface(name string, values map[string]string) InsideInterface {
	number := func(key string) int {
		n, err := strconv.Atoi(values[key])
		if err != nil {
			return 0 // not known
		}
		return n
	}
	i := InsideInterface{Name: name, Driver: values["driver"], State: values["state"], MTU: number("mtu"), RxQueues: number("rx")}
	if mac, err := vf.ParseMAC(values["mac"]); err == nil {
		i.MAC = mac
	}
	return i
}

// inside is the check's name, as the report has it.
const inside = "inside"

// lookInside judges what the guest sees of itself, or says how to look.
func (g *guestExam) lookInside(in *Inside) {
	if in == nil {
		if g.VCPUs > 1 && len(g.vfs) > 0 && !g.Windows.Is {
			g.exam.addFinding(finding{check: inside, severity: api.SeverityNote, object: g.object, why: "without irqbalance in the guest one of its vCPUs may take the packets of all queues",
				mend: []string{"add --by COMMAND, which opens a shell in the guest: --by 'ssh root@" + g.Name + " sh', or --by agent"}},
				"queues, interrupts and drivers inside it are not seen from the host")
		}
		return
	}
	if in.Err != "" {
		g.exam.addFinding(finding{check: inside, severity: api.SeverityWarning, object: g.object, why: "the checks inside the guest were not made",
			mend: []string{"try the command of --by alone: it must open a POSIX shell of a Linux guest"}}, "%s", in.Err)
		return
	}
	g.exam.addOK(inside, g.object, "%s %s, %s online of %d", in.Kernel, in.Release, screen.Plural(len(in.CPUs), "processor"), g.VCPUs)
	for _, v := range g.listVFs() {
		g.checkInsideVF(*in, v)
	}
	for _, i := range in.Interfaces {
		g.checkInsideQueues(*in, i)
	}
	g.checkInsideSpread(*in)
	g.checkNumad(*in)
}

// guestVF is a VF of the guest on this host.
type guestVF struct {
	vf.State
	pf vf.PF
}

// listVFs returns the guest's VFs among those of this host.
func (g *guestExam) listVFs() (out []guestVF) {
	for _, pf := range g.exam.PFs {
		for _, v := range pf.VFs {
			if slices.Contains(g.vfs, v.PCI) {
				out = append(out, guestVF{v, pf})
			}
		}
	}
	return out
}

// checkInsideVF looks for the VF's interface in the guest, by the MAC address that the PF holds. Of two
// interfaces with that address, one has a VF's driver, and the other one is its virtio partner.
func (g *guestExam) checkInsideVF(in Inside, v guestVF) {
	drivers := vf.DriverOf(v.pf.Driver).VFDrivers
	object := fmt.Sprintf("%s, VF %s", g.object, v.PCI)
	driver := "the VF's driver"
	if len(drivers) > 0 {
		driver = drivers[0]
	}
	at := slices.IndexFunc(in.Interfaces, func(i InsideInterface) bool {
		return i.MAC == v.Admin.MAC && !v.Admin.MAC.IsZero() && (slices.Contains(drivers, i.Driver) || len(drivers) == 0 && i.Driver != "virtio_net")
	})
	if at < 0 {
		g.exam.addFinding(finding{check: inside, severity: api.SeverityWarning, object: object, why: "without its driver the guest has a PCI device and no interface; with another address, the PF drops its packets",
			mend: []string{"in the guest: lspci -k    # has the VF a driver?", "in the guest: modprobe " + driver, "in the guest: ip link    # is " + v.Admin.MAC.String() + " there?"}},
			"no interface in the guest has driver %s and its MAC address %s", driver, cmp.Or(v.Admin.MAC.String(), "(none)"))
		return
	}
	i := in.Interfaces[at]
	switch {
	case i.MTU > v.pf.MTU && v.pf.MTU > 0:
		g.exam.addFinding(finding{check: inside, severity: api.SeverityWarning, object: object, why: "the NIC drops frames that are larger than the PF's MTU",
			mend: []string{fmt.Sprintf("in the guest: ip link set %s mtu %d    # or mtu: %d for the PF in host.yaml", i.Name, v.pf.MTU, i.MTU)}},
			"it is %s, with an MTU of %d, and that of %s is %d", i.Name, i.MTU, pfName(v.pf), v.pf.MTU)
	case i.State == "down":
		g.exam.addFinding(finding{check: inside, severity: api.SeverityNote, object: object, why: "it takes no packets",
			mend: []string{"in the guest: ip link set " + i.Name + " up"}}, "it is %s, driver %s, and down", i.Name, i.Driver)
	default:
		g.exam.addOK(inside, object, "it is %s, driver %s, MTU %d", i.Name, i.Driver, i.MTU)
	}
}

// checkInsideQueues compares the receive queues of an interface with the processors.
func (g *guestExam) checkInsideQueues(in Inside, i InsideInterface) {
	object := g.object + ", " + i.Name
	switch {
	case i.RxQueues == 0:
	case i.RxQueues >= min(len(in.CPUs), goodQueues):
		g.exam.addOK(inside, object, "%s for %s", screen.Plural(i.RxQueues, "receive queue"), screen.Plural(len(in.CPUs), "processor"))
	case i.RxQueues == vf.MostQueuesOfVF(i.Driver):
		g.exam.addNote(inside, object, "%s, and driver %s has no more: spread the load over several VFs", screen.Plural(i.RxQueues, "receive queue"), i.Driver)
	default:
		g.exam.addFinding(finding{check: inside, severity: api.SeverityNote, object: object, why: "processors without a queue take none of its packets",
			mend: []string{fmt.Sprintf("in the guest: ethtool -l %s    # then: ethtool -L %[1]s combined %d", i.Name, min(len(in.CPUs), goodQueues))}},
			"it has %s, and the guest %s", screen.Plural(i.RxQueues, "receive queue"), screen.Plural(len(in.CPUs), "processor"))
	}
}

// checkInsideSpread checks to which processors of the guest the interrupts of its interfaces go (P18).
func (g *guestExam) checkInsideSpread(in Inside) {
	balanced := slices.Contains(in.Processes, "irqbalance")
	cpus, irqs := map[int]bool{}, 0
	for _, i := range in.Interfaces {
		for _, on := range i.IRQs {
			if len(on) > 0 {
				cpus[on[0]] = true
				irqs++
			}
		}
	}
	object := g.object + ", interrupts"
	switch {
	case len(in.CPUs) <= 1:
		g.exam.addOK(inside, object, "the guest has one processor")
	case irqs > 1 && len(cpus) == 1:
		f := finding{check: inside, severity: api.SeverityWarning, object: object, why: "that processor takes the packets of all queues, and is full at a fraction of the link",
			mend: []string{"in the guest: install irqbalance, then systemctl enable --now irqbalance"}}
		if balanced {
			f.mend = []string{"in the guest: journalctl -u irqbalance    # a ban, or a policy of one processor"}
		}
		g.exam.addFinding(f, "all %d interrupts of its interfaces go to one processor of %d", irqs, len(in.CPUs))
	case balanced:
		g.exam.addOK(inside, object, "irqbalance runs; %s on %s", screen.Plural(irqs, "interrupt"), screen.Plural(len(cpus), "processor"))
	default:
		g.exam.addFinding(finding{check: inside, severity: api.SeverityNote, object: object, why: "interrupts stay where the drivers put them",
			mend: []string{"in the guest: install irqbalance, then systemctl enable --now irqbalance"}},
			"irqbalance does not run; %s on %s", screen.Plural(irqs, "interrupt"), screen.Plural(len(cpus), "processor"))
	}
}

// checkNumad looks for the program that moves processes to the NUMA node of their memory.
func (g *guestExam) checkNumad(in Inside) {
	object, runs := g.object+", NUMA", slices.Contains(in.Processes, "numad")
	switch {
	case len(in.Nodes) <= 1 && runs:
		g.exam.addNote(inside, object, "numad runs, and the guest has one NUMA node: numad has nothing to move")
	case len(in.Nodes) <= 1:
		g.exam.addOK(inside, object, "the guest has one NUMA node")
	case runs:
		g.exam.addOK(inside, object, "numad runs, for %d NUMA nodes", len(in.Nodes))
	default:
		g.exam.addFinding(finding{check: inside, severity: api.SeverityNote, object: object, why: "a process on another node than its memory and its VF sends each packet between the processors",
			mend: []string{"in the guest: install numad, then systemctl enable --now numad; or pin the process by numactl"}},
			"the guest has %d NUMA nodes, and numad does not run", len(in.Nodes))
	}
}

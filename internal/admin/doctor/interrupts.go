package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// checkInterrupts checks the spreading of interrupts, without which one processor takes
// every packet (P18).
func checkInterrupts(e *examination) {
	if len(e.PFs) == 0 {
		return
	}
	_, balanced := findRunning(e.Host, "irqbalance")
	for _, pf := range e.PFs {
		if pf.Name != "" {
			e.checkSpread(pf, balanced)
			e.checkQueues(pf)
		}
	}
	switch {
	case balanced:
		e.addOK("interrupts", host, "irqbalance runs")
	case len(e.Host.CPUs) > 1:
		e.addNote("interrupts", host, "irqbalance does not run: interrupts stay where the drivers put them")
	}
}

// checkSpread checks to which processors the interrupts of a PF and its VFs go.
func (e *examination) checkSpread(pf vf.PF, balanced bool) {
	irqs := e.Devices[pf.PCI].IRQs
	for _, v := range pf.VFs {
		irqs = append(slices.Clone(irqs), e.Devices[v.PCI].IRQs...)
	}
	cpus := map[int]int{}
	known := 0
	for _, n := range irqs {
		irq, ok := e.Host.IRQs[n]
		if !ok || len(irq.CPUs) == 0 {
			continue // without a handler: no driver has opened it
		}
		known++
		cpus[irq.CPUs[0]]++
	}
	switch {
	case known == 0:
		e.addNote("interrupts", pfName(pf), "no interrupt of its own is in use (it is down, or has no MSI)")
	case len(e.Host.CPUs) == 1:
		e.addOK("interrupts", pfName(pf), "%s, and the machine has one processor", screen.Plural(known, "interrupt"))
	case len(cpus) > 1 || known == 1:
		e.addOK("interrupts", pfName(pf), "%s of it and its VFs, on %s", screen.Plural(known, "interrupt"), screen.Plural(len(cpus), "processor"))
	default:
		f := finding{check: "interrupts", severity: api.SeverityWarning, object: pfName(pf), why: "that processor takes every packet, and is full at a fraction of the link",
			mend: []string{installCommand(e.Host, "irqbalance"), "systemctl enable --now irqbalance"}}
		if balanced {
			f.mend = []string{"journalctl -u irqbalance    # a ban, or a policy of one processor"}
		}
		for cpu := range cpus {
			e.addFinding(f, "all %d interrupts of it and its VFs go to processor %d of %d", known, cpu, len(e.Host.CPUs))
		}
	}
}

// checkQueues reports PFs with fewer queues than their node has processors, and VFs that have
// one queue.
func (e *examination) checkQueues(pf vf.PF) {
	d := e.Devices[pf.PCI]
	near := len(e.Host.NodeCPUs[max(pf.NUMA, 0)])
	if near == 0 {
		near = len(e.Host.CPUs)
	}
	if d.RxQueues == 1 && near > 1 {
		e.addFinding(finding{check: "queues", severity: api.SeverityNote, object: pfName(pf), why: "one processor takes all its packets",
			mend: []string{"ethtool -l " + pf.Name + "    # then: ethtool -L " + pf.Name + fmt.Sprintf(" combined %d", near)}}, "it has one receive queue")
	} else if d.RxQueues > 0 {
		e.addOK("queues", pfName(pf), "%d receive and %s", d.RxQueues, screen.Plural(d.TxQueues, "transmit queue"))
	}
	single := 0
	drivers := []string{}
	for _, v := range pf.VFs {
		if e.Devices[v.PCI].RxQueues == 1 {
			single++
			if !slices.Contains(drivers, v.Driver) {
				drivers = append(drivers, v.Driver)
			}
		}
	}
	if single > 0 {
		e.addFinding(finding{check: "queues", severity: api.SeverityNote, object: pfName(pf), why: "one flow or many, a VF's packets are taken by one processor",
			mend: []string{"spread the load over several VFs, where the driver has no more (igbvf)"}}, "one receive queue each: %s on the host (%s)", screen.Plural(single, "VF"), strings.Join(drivers, ", "))
	}
}

package deviceplugin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// host is the state of the host at one moment.
type host struct {
	spec desired.Spec
	pfs  []vf.PF
	// unread are the PFs that cannot be read, each with the VFs of its last reading that pfs does
	// not have.
	unread []vf.PF
	// lately has the PFs that have been unreadable for less than unreadGrace. They are in pfs as
	// they were at an earlier reading.
	lately  map[vf.PCIAddr]earlier
	records []journal.Record
	// newer reports whether pfs were listed after a record entered its present state. Otherwise pfs
	// show where the VF was, not where it is.
	newer func(r journal.Record, listed time.Time) bool
	// listed is when pfs were listed.
	listed time.Time
	// isDark, isDoubtful and hostUse are those of Config.
	isDark     func(journal.Record) bool
	isDoubtful func(vf.PF, []journal.Record) bool
	hostUse    func(journal.Record) string
	// given has the pod of each VF, as the kubelet last reported it.
	given map[vf.PCIAddr]string
}

// device is a VF as the kubelet sees it. Its ID there is its PCI address.
type device struct {
	pci   vf.PCIAddr
	pf    vf.PF
	numa  int      // -1: unknown or none
	group int      // of the IOMMU; -1: none
	rdma  *vf.RDMA // nil: none
	vhost bool
	// isRDMA is whether it is given out with the nodes of its RDMA device.
	isRDMA   bool
	released time.Time // when its last owner gave it back
	vfio     bool      // it is given out as a device for user space, by device nodes
	// unfit is the reason why no pod should get the device; it is empty if the device is healthy.
	unfit string
	// doubtful is whether its PF is (Config.IsDoubtful): it is given only if there is no other.
	doubtful bool
	// free is whether a pod can get it now. A VF that its pod has is healthy and
	// not free.
	free bool
	// freeApartFromLink is free as if the PF had a link: a claim can still get it.
	freeApartFromLink bool
	// soon is whether a VF that is not free is being made free at the moment.
	soon bool
}

// devicesByPool returns the VFs of each pool, by the pool's full name, in the order of the bus
// within a PF. ours reports whether the owner of a lease is the pod to which the kubelet gave the
// VF.
func (h host) devicesByPool(ours func(journal.Record) bool) map[string][]device {
	records := make(map[vf.ID]journal.Record, len(h.records))
	for _, r := range h.records {
		records[r.ID] = r
	}
	out, mixed := map[string][]device{}, h.mixedPools()
	for _, pf := range h.pfs {
		before, lately := h.lately[pf.PCI]
		if !lately {
			before.listed = h.listed
		}
		doubtful := lately || h.isDoubtful != nil && h.isDoubtful(pf, h.records)
		for _, st := range pf.VFs {
			pool, in := h.spec.PoolOf(pf, st.ID.Index, st)
			if !in {
				continue
			}
			d := newDevice(pool, pf, st)
			d.doubtful = doubtful
			rec, known := records[st.ID]
			d.released = rec.Released
			d.judgeRecord(rec, known, ours, h.given[st.PCI])
			if !known && vf.IsUIO(st.Driver) && h.given[st.PCI] == "" { // culvertd does not take it over
				d.unfit, d.soon = describeUIO(st.Driver), false
			}
			if d.unfit == "" {
				h.judgeHealth(&d, sight{pool: pool, st: st, rec: rec, before: before, lately: lately, mixed: mixed[pool.FullName()]})
			}
			d.free = d.free && d.unfit == ""
			out[pool.FullName()] = append(out[pool.FullName()], d)
		}
	}
	for _, pf := range h.unread {
		for _, st := range pf.VFs {
			if pool, in := h.spec.PoolOf(pf, st.ID.Index, st); in {
				d := device{pci: st.PCI, pf: pf, numa: st.NUMA, group: st.IOMMUGroup, vfio: pool.KindOf(st) == desired.VFIO, unfit: describeUnread(pf)}
				out[pool.FullName()] = append(out[pool.FullName()], d)
			}
		}
	}
	return out
}

// sight is what host has seen of a VF.
type sight struct {
	pool   desired.Pool
	st     vf.State
	rec    journal.Record
	before earlier
	lately bool   // the PF is shown as it was before
	mixed  string // why the pool gives out no VF
}

// judgeHealth sets why no pod should get a VF that the ledger lets pods have. It prefers the problem of the
// PF's link as the reason. A claim can have a VF in spite of that.
func (h host) judgeHealth(d *device, s sight) {
	problem, soon := h.findProblem(*d, s)
	d.freeApartFromLink = d.free && problem == ""
	d.unfit = d.pf.LinkProblem()
	if d.unfit == "" {
		d.unfit, d.soon = problem, d.soon || soon
	}
}

// findProblem returns a problem of a VF apart from its PF's link; soon is whether it is being mended.
func (h host) findProblem(d device, s sight) (problem string, soon bool) {
	if problem = h.describeDark(s.rec); problem != "" {
		return problem, false
	}
	// A pod that uses its VF without Culvert may have moved the interface or bound another driver.
	unused := d.free && h.given[s.st.PCI] == ""
	if unused {
		problem = cmp.Or(h.describeHostUse(s.rec), s.mixed)
	}
	if problem == "" && s.lately && d.vfio && !s.before.lists(s.st.PCI) { // its device nodes work without an ADD
		problem = describeUnread(d.pf)
	}
	if problem == "" && (unused || s.rec.Phase != vf.PhaseFree) && h.newer(s.rec, s.before.listed) {
		problem = findDriverProblem(s.pool, s.st, s.rec.Phase)
		soon = problem != ""
	}
	return problem, soon
}

// describeDark returns the problem of a VF without carrier; "" for others.
func (h host) describeDark(rec journal.Record) string {
	if h.isDark != nil && h.isDark(rec) {
		return "its interface is up and has no carrier, although its PF has a link"
	}
	return ""
}

// newDevice returns a VF of a pool, without its health.
func newDevice(pool desired.Pool, pf vf.PF, st vf.State) device {
	selector, _ := pool.SelectorOf(pf, st.ID.Index, st)
	return device{
		pci: st.PCI, pf: pf, numa: st.NUMA, group: st.IOMMUGroup, rdma: st.RDMA,
		vhost: selector.NeedVhostNet, isRDMA: selector.IsRDMA, vfio: pool.KindOf(st) == desired.VFIO,
	}
}

// describeHostUse returns why the kubelet gets no VF that the host uses; "" if it is not used.
func (h host) describeHostUse(rec journal.Record) string {
	if h.hostUse == nil {
		return ""
	}
	use := h.hostUse(rec)
	if use == "" {
		return ""
	}
	return "it is used outside Culvert: " + use
}

func describeUnread(pf vf.PF) string {
	return fmt.Sprintf("PF %s cannot be read: %s", pf.Label(), pf.Err)
}

// wholePF is a PF as it was when it could last be read. listed is the time of that reading. unread
// is the time since which the PF cannot be read, or zero.
type wholePF struct {
	vf.PF
	listed, unread time.Time
}

// earlier is about a PF that stands in a list as it was at an earlier reading.
type earlier struct {
	listed time.Time
	now    []vf.State // the VFs that could be read in spite of the error
}

func (e earlier) lists(a vf.PCIAddr) bool {
	return slices.ContainsFunc(e.now, func(st vf.State) bool { return st.PCI == a })
}

// unreadGrace is how long the netdevices of a PF that cannot be read keep the health of the last
// reading. If the kubelet sees no healthy VF at the moment when it admits a pod, the pod fails for
// good. If it gives one to the pod, the pod's ADD is refused, and the runtime tries again.
const unreadGrace = 10 * time.Second

// mixedPools returns the pools over two named segments, each with the reason why no pod gets a VF
// of it.
func (h host) mixedPools() map[string]string {
	out := map[string]string{}
	for _, pool := range h.spec.Pools {
		if why := h.spec.MixedSegments(pool.FullName(), h.pfs); why != "" {
			out[pool.FullName()] = "its pool gives out no VF: " + why
		}
	}
	return out
}

// findUnread returns the PFs that cannot be read, with the VFs of their last readings. It finds
// these readings in whole, and adds the new ones. A VF that is not on the kubelet's list is no
// device of the node any more, although its PF may soon be readable again. A PF that cannot be read
// for less than unreadGrace is not among unread: findUnread puts it into pfs as it was before.
func findUnread(pfs []vf.PF, listed time.Time, whole map[vf.PCIAddr]wholePF, now time.Time) (unread []vf.PF, lately map[vf.PCIAddr]earlier) {
	for a := range whole {
		if !slices.ContainsFunc(pfs, func(pf vf.PF) bool { return pf.PCI == a }) {
			delete(whole, a) // it has gone
		}
	}
	lately = map[vf.PCIAddr]earlier{}
	for i, pf := range pfs {
		was, known := whole[pf.PCI]
		switch {
		case pf.Err == "":
			whole[pf.PCI] = wholePF{PF: pf, listed: listed}
			continue
		case !known:
			continue
		case was.unread.IsZero():
			was.unread = now
			whole[pf.PCI] = was
		}
		was.Err = pf.Err
		if now.Sub(was.unread) < unreadGrace {
			pfs[i], lately[pf.PCI] = was.PF, earlier{was.listed, pf.VFs}
			continue
		}
		was.VFs = slices.DeleteFunc(slices.Clone(was.VFs), func(old vf.State) bool {
			return slices.ContainsFunc(pf.VFs, func(st vf.State) bool { return st.PCI == old.PCI })
		})
		unread = append(unread, was.PF)
	}
	return unread, lately
}

// judgeRecord sets the health of a device by its record in the ledger. given is the pod to which
// the kubelet gave the VF. A VF that an earlier device plugin served is in no ledger while its pod
// runs.
func (d *device) judgeRecord(rec journal.Record, known bool, ours func(journal.Record) bool, given string) {
	switch {
	case !known && given != "":
	case !known || rec.Phase == vf.PhaseMaking:
		d.unfit, d.soon = "it is being made", true
	case rec.Phase == vf.PhaseFree:
		d.free = true
	case rec.Phase == vf.PhaseQuarantined:
		d.unfit = fmt.Sprintf("it is in quarantine (%s): see culvert vf show %s", rec.Reason, d.pci)
	case rec.Phase == vf.PhaseDamaged:
		d.unfit = fmt.Sprintf("its record in the ledger is damaged (%s): culvert ledger check says more", rec.Reason)
	case rec.Claim != nil:
		d.unfit = "held by " + rec.Claim.String()
	case ours(rec):
		d.soon = rec.Phase == vf.PhaseReleasing
	default:
		d.unfit = "held by " + rec.Holder()
		d.soon = rec.Phase == vf.PhaseReleasing
	}
}

func describeUIO(driver string) string {
	return fmt.Sprintf("driver %s is bound to it, whose /dev/uio Culvert gives to no pod: bind %s or its netdevice driver", driver, vf.DriverVFIO)
}

// findDriverProblem returns why a VF's driver keeps the VF from being given out. A VF that is being
// given or taken back may have any driver or none. A VF that a pod has may have any driver, since
// the pod may change it.
func findDriverProblem(pool desired.Pool, st vf.State, phase vf.Phase) string {
	vfio, wanted := st.Driver == vf.DriverVFIO, pool.KindOf(st)
	switch {
	case phase != vf.PhaseFree && phase != vf.PhaseAttached:
		return ""
	case st.Driver == "":
		return "no driver is bound to it"
	case phase != vf.PhaseFree:
		return ""
	case vf.IsUIO(st.Driver):
		return describeUIO(st.Driver)
	case wanted == desired.VFIO && !vfio:
		return fmt.Sprintf("driver %s is bound to it, not %s", st.Driver, vf.DriverVFIO)
	case vfio && wanted == desired.VFIO && st.IOMMUGroup < 0:
		return "it has no IOMMU group: is the IOMMU on? culvert doctor says more"
	case wanted != desired.VFIO && vfio:
		return fmt.Sprintf("%s is bound to it, not a netdevice driver", st.Driver)
	case wanted != desired.VFIO && st.Link == nil:
		return "it has no netdevice on the host"
	}
	return ""
}

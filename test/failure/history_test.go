package failure

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// I1-I6, I8: random histories keep every promise after each step. They combine
// attaches, detaches, crashes, power cuts, changes of host.yaml, failing kernels, reads
// that hang, lost DELs, clusters that do not answer, full disks and changes by other
// programs. At the end every owner gives back what it has, and the machine is as new.
//
//	go test ./test/failure -run Histories
//
// Package rapid makes a history that fails as short as it can, and prints the history
// with the seed that repeats it (-rapid.seed).
func TestHistories(t *testing.T) {
	for name, profile := range profiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fastDir(t)
			rapid.Check(t, func(t *rapid.T) {
				w := made(t, profile, dir)
				w.joinCluster()
				h := &history{world: w, t: t, strangers: strangers{}}
				defer func() { w.close() }()
				t.Repeat(h.actions())
				h.end()
			})
		})
	}
}

// history is a world in which random events happen.
type history struct {
	*world
	t        *rapid.T
	unplug   []vf.PCIAddr // PFs that are unplugged
	cableOut bool
	strangers
}

func (h *history) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":                  func(*rapid.T) { h.holds() },
		"ADD":               func(t *rapid.T) { h.attach(t) },
		"ADD again":         func(t *rapid.T) { h.attach(t) },
		"DEL":               func(t *rapid.T) { h.detach(t) },
		"Prepare":           func(t *rapid.T) { h.prepares(t) },
		"ADD by claim":      func(t *rapid.T) { h.attachesByClaim(t) },
		"Unprepare":         func(t *rapid.T) { _ = h.unprepare(h.pod(t)) },
		"GC":                func(t *rapid.T) { h.collect(t) },
		"pass":              func(*rapid.T) { h.pass() },
		"killed":            func(t *rapid.T) { h.killed(t) },
		"restart":           func(*rapid.T) { h.again() },
		"reboot":            func(*rapid.T) { h.powerCut() },
		"host.yaml":         func(t *rapid.T) { h.want(rapid.IntRange(0, vfsPerPF).Draw(t, "VFs")); h.pass() },
		"somebody meddles":  func(t *rapid.T) { h.meddles(t) },
		"a stranger comes":  func(t *rapid.T) { h.strangerComes(t) },
		"a stranger goes":   func(t *rapid.T) { h.strangerGoes(t) },
		"owner tunes":       func(t *rapid.T) { h.ownerTunes(t) },
		"sriov_numvfs":      func(t *rapid.T) { h.byHand(t) },
		"a VF is unplugged": func(t *rapid.T) { h.removeVF(t) },
		"a PF is unplugged": func(t *rapid.T) { h.removePF(t) },
		"a PF comes back":   func(*rapid.T) { h.returnPFs() },
		"cable":             func(t *rapid.T) { h.cable(t) },
		"netns":             func(t *rapid.T) { h.netns(t) },
		"another link speed": func(t *rapid.T) {
			h.speed(rapid.SampledFrom([]int{h.profile.SpeedMbps, 1000}).Draw(t, "Mb/s"))
		},
		"time": func(t *rapid.T) {
			h.skew += time.Duration(rapid.IntRange(-3600, 3600).Draw(t, "seconds")) * time.Second
		},
		"kernel fails": func(t *rapid.T) { h.breakKernel(t) },
		"kernel works": func(*rapid.T) { h.healKernel() },
		"reads hang":   func(t *rapid.T) { h.hangReads(t) },
		"reads return": func(*rapid.T) { h.reads.comeBack() },
		"DEL is lost":  func(t *rapid.T) { h.vanish(h.pod(t)) },
		"cluster":      func(t *rapid.T) { h.members.away = rapid.Bool().Draw(t, "away") },
		"minutes":      func(t *rapid.T) { h.minutes(rapid.IntRange(1, 7).Draw(t, "minutes")) },
		"disk full": func(t *rapid.T) {
			h.disk.fill(rapid.IntRange(1, 4).Draw(t, "from"), rapid.IntRange(1, 6).Draw(t, "commits"))
		},
	}
}

// holds checks the facts that must be true at any time.
func (h *history) holds() {
	h.sound()
	h.clean()
	h.kept()
}

func (h *history) pod(t *rapid.T) string { return rapid.SampledFrom(pods).Draw(t, "pod") }

func (h *history) attach(t *rapid.T) {
	a := attachment{pod: h.pod(t), pool: rapid.SampledFrom([]string{"net", "net", "user"}).Draw(t, "pool"), plain: rapid.Bool().Draw(t, "plain")}
	if rapid.IntRange(0, 3).Draw(t, "named") == 0 {
		if all := h.vfs(); len(all) > 0 {
			a.vf = rapid.SampledFrom(all).Draw(t, "VF").PCI
		}
	}
	a.bond = a.pool == "net" && rapid.IntRange(0, 2).Draw(t, "bond") == 0
	before := h.expect[a.pod]
	delete(h.members.gone, a.pod) // a pod of that name is there again
	if err := h.add(a); err == nil && before == present {
		h.t.Errorf("I1: %s has a VF and got another one", a.pod)
	}
}

func (h *history) detach(t *rapid.T) { _ = h.del(attachment{pod: h.pod(t), pool: "net"}) }

func (h *history) collect(t *rapid.T) {
	valid := rapid.SliceOfDistinct(rapid.SampledFrom(pods), rapid.ID).Draw(t, "valid")
	_ = h.gc(attachment{pod: "gc", pool: rapid.SampledFrom([]string{"net", "user"}).Draw(t, "pool")}, valid...)
}

// killed kills culvertd in the middle of some work, and starts it again.
func (h *history) killed(t *rapid.T) {
	h.gate.killAfter(rapid.IntRange(1, 60).Draw(t, "moment"))
	work := rapid.SampledFrom([]string{"ADD", "DEL", "GC", "pass", "host.yaml", "Prepare", "ADD by claim", "Unprepare"}).Draw(t, "at")
	h.actions()[work](t)
	h.node.VFs.Wait()
	h.gate.spare()
	h.again()
}

func (h *history) again() {
	h.restart()
	h.start()
	h.pass()
}

func (h *history) powerCut() {
	h.strangersLeave()
	h.reboot()
	h.cableOut = false
	h.fault.DropHangs()
	clear(h.dirty)
	h.start()
	h.pass()
}

// meddling has changes to a VF outside Culvert, each with the setting that the driver
// must support.
var meddling = map[string]struct {
	needs  vf.Setting
	change func(*vf.State)
}{
	"vlan":     {vf.SetVLAN, func(st *vf.State) { st.Admin.VLAN.ID = 66 }},
	"trust":    {vf.SetTrust, func(st *vf.State) { st.Admin.Trust = vf.Yes }},
	"spoofchk": {vf.SetSpoofChk, func(st *vf.State) { st.Admin.SpoofChk = vf.No }},
	"rate":     {vf.SetMaxTxRate, func(st *vf.State) { st.Admin.MaxTxRate = 50 }},
	"mac":      {vf.SetMAC, func(st *vf.State) { st.Admin.MAC = vf.MAC{2, 9, 9, 9, 9, 9} }},
	"unbind":   {"", func(st *vf.State) { st.Driver, st.Link = "", nil }},
	"up":       {"", func(st *vf.State) { onLink(st, func(l *vf.Link) { l.Up = true }) }},
	"mtu":      {"", func(st *vf.State) { onLink(st, func(l *vf.Link) { l.MTU = 1300 }) }},
	"rename":   {"", func(st *vf.State) { onLink(st, func(l *vf.Link) { l.Name += "z" }) }},
	"promisc":  {"", func(st *vf.State) { onLink(st, func(l *vf.Link) { l.Promisc = true }) }},
	"home": {"", func(st *vf.State) {
		onLink(st, func(l *vf.Link) { l.Netns, l.Up, l.Addrs, l.Routes = "", false, nil, nil })
	}},
}

func onLink(st *vf.State, change func(*vf.Link)) {
	if st.Link != nil {
		change(st.Link)
	}
}

func (h *history) meddles(t *rapid.T) {
	all := slices.DeleteFunc(h.vfs(), func(v vf.State) bool { _, used := h.strangers[v.PCI]; return used })
	if len(all) == 0 {
		return
	}
	v := rapid.SampledFrom(all).Draw(t, "VF")
	what := meddling[rapid.SampledFrom(slices.Sorted(maps.Keys(meddling))).Draw(t, "what")]
	if what.needs != "" && !h.able(what.needs) {
		return
	}
	h.touched(v.PCI)
	h.meddle(v.PCI, what.change)
	if rapid.Bool().Draw(t, "seen") {
		h.pass()
	}
}

// ownerTunes has the owner of a VF change an attribute of its netdevice, which it may.
func (h *history) ownerTunes(t *rapid.T) {
	all := slices.DeleteFunc(h.vfs(), func(v vf.State) bool { _, used := h.strangers[v.PCI]; return used || h.whereIs(v) == "" })
	if len(all) == 0 {
		return
	}
	v := rapid.SampledFrom(all).Draw(t, "VF")
	name := rapid.SampledFrom(fake.AttributeNames()).Draw(t, "attribute")
	if err := h.k.SetAttribute(v.PCI, name, "eth0"); !errors.Is(err, fs.ErrExist) { // the kernel refuses a name that a netdevice has
		must(h.world, err)
	}
}

// touched notes that a VF was changed outside Culvert, so that its owner may not have
// it as promised.
func (h *history) touched(pci vf.PCIAddr) {
	h.dirty[pci] = true
	for _, r := range h.records() {
		if pod := r.Lease.Owner.UID; r.PCI == pci && r.Phase == vf.PhaseAttached {
			h.expect[pod] = either
		}
		if r.PCI == pci && r.Claim != nil {
			h.claims[podOf(r.Claim.UID)] = either
		}
	}
}

func (h *history) pfs() []vf.PCIAddr {
	var all []vf.PCIAddr
	pfs, err := h.k.PFs(h.t.Context())
	must(h.world, err)
	for _, pf := range pfs {
		all = append(all, pf.PCI)
	}
	return all
}

func (h *history) byHand(t *rapid.T) {
	pfs := h.pfs()
	if len(pfs) == 0 {
		return
	}
	h.strangersLeave()
	pf := rapid.SampledFrom(pfs).Draw(t, "PF")
	h.touchedAll(pf)
	must(h.world, h.k.WriteNumVFs(pf, rapid.IntRange(0, vfsPerPF).Draw(t, "VFs")))
	h.touchedAll(pf)
}

func (h *history) touchedAll(pf vf.PCIAddr) {
	for _, v := range h.vfs() {
		if h.pfOf(v.ID) == pf {
			h.touched(v.PCI)
		}
	}
}

func (h *history) removeVF(t *rapid.T) {
	all := h.vfs()
	if len(all) == 0 {
		return
	}
	v := rapid.SampledFrom(all).Draw(t, "VF")
	h.strangerLeaves(v.PCI)
	h.touched(v.PCI)
	must(h.world, h.k.RemoveVF(v.PCI))
	if rapid.Bool().Draw(t, "returns") {
		must(h.world, h.k.ReturnVF(v.PCI))
	}
}

func (h *history) removePF(t *rapid.T) {
	pfs := h.pfs()
	if len(pfs) == 0 {
		return
	}
	h.strangersLeave()
	pf := rapid.SampledFrom(pfs).Draw(t, "PF")
	h.touchedAll(pf)
	must(h.world, h.k.RemovePF(pf))
	h.unplug = append(h.unplug, pf)
}

func (h *history) returnPFs() {
	for _, pf := range h.unplug {
		must(h.world, h.k.AddPF(pf, pf))
	}
	h.unplug = nil
}

func (h *history) cable(t *rapid.T) {
	h.cableOut = rapid.Bool().Draw(t, "out")
	for _, pf := range h.pfs() {
		h.k.Cable(pf, !h.cableOut)
	}
}

// speed sets the link speed of all PFs, as another switch at the other end would. Some
// drivers then drop all rates.
func (h *history) speed(mbps int) {
	if vf.DriverOf(h.profile.Driver).DropsRates {
		for _, v := range h.vfs() {
			h.touched(v.PCI)
		}
	}
	for _, pf := range h.pfs() {
		if err := h.k.SetLinkSpeed(pf, mbps); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *history) netns(t *rapid.T) {
	pod := h.pod(t)
	if rapid.Bool().Draw(t, "dies") {
		h.k.DelNetns(netnsOf(pod))
		if h.expect[pod] == present {
			h.expect[pod] = either
		}
		return
	}
	h.k.AddNetns(netnsOf(pod))
}

func (h *history) breakKernel(t *rapid.T) {
	all := faults()
	f := all[rapid.IntRange(0, len(all)-1).Draw(t, "fault")]
	t.Logf("fault: %s", f.name)
	h.arm(f, rapid.IntRange(1, 12).Draw(t, "step"), rapid.Bool().Draw(t, "always"))
}

// hangReads makes reads hang from now on: those of a VF, of a PF with all of its VFs,
// or of the open files of processes.
func (h *history) hangReads(t *rapid.T) {
	objects := []vf.PCIAddr{openFiles}
	for _, v := range h.vfs() {
		objects = append(objects, v.PCI)
	}
	pfs := h.pfs()
	hung := rapid.SampledFrom(append(objects, pfs...)).Draw(t, "object")
	h.reads.hang(hung)
	for _, v := range h.vfs() {
		if slices.Contains(pfs, hung) && h.pfOf(v.ID) == hung {
			h.reads.hang(v.PCI)
		}
	}
}

// healKernel makes the kernel work again, and the steps in which it hung take effect.
func (h *history) healKernel() {
	h.fault.Fail(nil)
	for _, s := range h.fault.Hung() {
		for _, v := range h.vfs() {
			if h.concerns(s, v) {
				h.touched(v.PCI)
			}
		}
	}
	_ = h.fault.EndHangs(h.t.Context())
}

// concerns reports whether a late step may have changed a VF: any step counts that
// names the VF or its PF.
func (h *history) concerns(s step.Step, v vf.State) bool {
	text := fmt.Sprint(s)
	return strings.Contains(text, v.PCI.String()) || strings.Contains(text, h.pfOf(v.ID).String())
}

// letGo sets the interfaces of VFs down that Culvert has not taken over yet. culvertd
// does not take over a VF that another program uses.
func (h *history) letGo() {
	ours := map[vf.ID]bool{}
	for _, r := range h.records() {
		ours[r.ID] = r.Phase != vf.PhaseMaking
	}
	for _, v := range h.vfs() {
		if !ours[v.ID] {
			must(h.world, h.k.Meddle(v.PCI, func(st *vf.State) { onLink(st, func(l *vf.Link) { l.Up = false }) }))
		}
	}
}

// end repairs everything, ends all owners, and checks that the machine is as new.
func (h *history) end() {
	_ = h.disk.wasFull()
	h.strangersLeave()
	h.healKernel()
	h.reads.comeBack()
	h.members.away = false
	h.returnPFs()
	for _, pf := range h.pfs() {
		h.k.Cable(pf, true)
	}
	h.speed(h.profile.SpeedMbps)
	for _, pod := range pods {
		h.k.AddNetns(netnsOf(pod))
	}
	h.letGo()
	h.want(vfsPerPF)
	h.pass()
	h.lostAreOver()
	for _, pod := range pods {
		if err := h.del(attachment{pod: pod, pool: "net"}); err != nil {
			h.t.Errorf("DEL of %s: %v", pod, err)
		}
	}
	for range 3 {
		h.rest()
	}
	h.k.DropEmptyBonds() // bonds of pods whose PFs were all unplugged; a later bond takes the place of such a bond
	h.asNew()
	for _, pod := range pods {
		if err := h.add(attachment{pod: pod, pool: "net"}); err != nil {
			h.t.Errorf("ADD of %s when all is well: %v", pod, err)
		}
	}
	h.asNew()
}

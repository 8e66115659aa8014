package demo

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo/node"
)

var vmFiles = files{json: "demo-vm.json", text: "report-vm.txt"}

// GuestResult is demo-vm.json.
type GuestResult struct {
	Guests               int       `json:"guests"` // that ran, each with a VF by VFIO
	Ping                 bool      `json:"ping"`   // every end reached every other
	Refused              string    `json:"refused"`
	Leaked               int       `json:"leaked"` // VFs that are not as they were
	LedgerMatchesLibvirt bool      `json:"ledger_matches_libvirt"`
	Pings                []Reach   `json:"pings"`
	BootSeconds          []float64 `json:"boot_s"` // of each guest, from virsh start until it took commands
	VFsCreated           int       `json:"vfs_created"`
	Accel                string    `json:"accel"` // of the nodes: tcg or kvm
	WhyNotKVM            string    `json:"why_not_kvm,omitempty"`
	Problems             []string  `json:"problems,omitempty"`
}

// Reach is the outcome of one end's pings to another.
type Reach struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Received int     `json:"received"` // of pingsEach
	MS       float64 `json:"ms"`       // average round trip
}

// pingsEach go from one end to another.
const pingsEach = 3

const (
	guestPool = "culvert.dev/guests"
	podPool   = "culvert.dev/pods"
	vmVLAN    = 100
)

// vms is a run of the demo with guests.
type vms struct {
	*demo
	found  GuestResult
	guests []node.Guest // of the first nodes, one each
	start  time.Time    // of the guests
	ends   []guestEnd
}

// guestEnd is a guest or a container that talks over its VF.
type guestEnd struct {
	name string
	ip   netip.Addr
	exec func(ctx context.Context, command string) ([]byte, error)
}

// RunGuests shows a guest of libvirt and a container on each of two nodes, all with a VF on one
// VLAN, from one ledger. However it ends, it leaves nothing behind but its report and the
// caches, or the lab if Keep is set.
func RunGuests(ctx context.Context, o Options) (err error) {
	d, err := beginDemo(o, vmFiles)
	if err != nil {
		return err
	}
	defer d.Steps.Close()
	if o.Guests == 0 {
		d.Guests = nodeCount
	}
	if d.Guests < 1 || d.Guests > nodeCount {
		return fmt.Errorf("%d nodes with a guest: use 1 to %d", o.Guests, nodeCount)
	}
	l, err := d.bringUp(ctx, func(ctx context.Context, lo lab.Options) (*lab.Lab, error) { return UpGuests(ctx, lo, o.Source) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.leaveLab(ctx, l)) }()
	if err := d.noteNodes(l); err != nil {
		return err
	}
	v := &vms{demo: d}
	if err := v.playStory(ctx); err != nil {
		d.lastWords(ctx)
		return err
	}
	r := d.result
	v.found.Leaked, v.found.VFsCreated, v.found.Accel, v.found.WhyNotKVM = r.Leaked, r.VFsCreated, r.Accel, r.WhyNotKVM
	v.found.Problems = d.problems
	return d.writeReport(v.found)
}

// playStory gives VFs to guests and containers, refuses one too many, uses them, and takes
// them back.
func (v *vms) playStory(ctx context.Context) error {
	if err := v.countVFs(ctx, nodeCount*7); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{
		v.startGuests, v.startContainers, v.showOwners, v.useUp, v.awaitGuests, v.reachAll, v.askLibvirt, v.killAll, v.compareVFs,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// vmAddress returns the address of the guest, or of the container, of a node.
func vmAddress(n node.Node, guest bool) netip.Prefix {
	last := byte(20 + n.Number)
	if guest {
		last = byte(10 + n.Number)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, 0, last}), 24)
}

func (v *vms) startGuests(ctx context.Context) error {
	v.Step("%d guests, one on a node: culvert vm xml --pool guests --vlan %d --max-tx-rate 1000, virsh define, virsh start", v.Guests, vmVLAN)
	v.ends = make([]guestEnd, v.Guests+nodeCount)
	v.guests = make([]node.Guest, v.Guests)
	v.start = time.Now()
	return v.eachGuest(func(i int) error {
		n := v.nodes[i]
		name, address := fmt.Sprintf("guest%d", n.Number), vmAddress(n, true)
		g, err := n.DefineGuest(ctx, name, address)
		if err != nil {
			return err
		}
		if err := g.GiveVF(ctx, "--pool", guestPool, "--vlan", fmt.Sprint(vmVLAN), "--max-tx-rate", "1000"); err != nil {
			return err
		}
		v.guests[i] = g
		v.ends[i] = guestEnd{name: name, ip: address.Addr(), exec: g.Exec}
		return g.Start(ctx)
	})
}

// eachGuest does something for all guests at once.
func (v *vms) eachGuest(do func(i int) error) error {
	var g errgroup.Group
	for i := range v.guests {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// vmContainers is the containers' network, by CNI.
const vmContainers = `{
  "cniVersion": "1.0.0", "name": "vlan%[1]d", "type": "culvert", "pool": %[2]q, "vlan": %[1]d,
  "ipam": {"type": "static", "addresses": [{"address": %[3]q}]}
}
`

func (v *vms) startContainers(ctx context.Context) error {
	v.Step("and a container beside it, with a VF by CNI on the same VLAN, while the guests boot")
	return eachNode(ctx, v.nodes, func(ctx context.Context, i int, n node.Node) error {
		if err := n.Prepare(ctx); err != nil {
			return err
		}
		name, address := fmt.Sprintf("pod%d", n.Number), vmAddress(n, false)
		config := fmt.Sprintf(vmContainers, vmVLAN, podPool, address)
		if err := n.WriteFile(ctx, vfDir+"/10-vm.conf", []byte(config)); err != nil {
			return err
		}
		if err := n.AddNetns(ctx, name); err != nil {
			return err
		}
		if _, err := attachInterface(ctx, n, v.attachmentOf(n)); err != nil {
			return err
		}
		c, err := n.Start(ctx, name, "sleep", "infinity")
		v.ends[v.Guests+i] = guestEnd{name: name, ip: address.Addr(), exec: func(ctx context.Context, command string) ([]byte, error) {
			return c.Exec(ctx, "sh", "-c", command)
		}}
		return err
	})
}

// attachmentOf returns the attachment of a node's container.
func (v *vms) attachmentOf(n node.Node) node.Attachment {
	name := fmt.Sprintf("pod%d", n.Number)
	return node.Attachment{
		Network: fmt.Sprintf("vlan%d", vmVLAN), Dir: vfDir, Netns: name, Interface: "net1",
		Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + name,
	}
}

func (v *vms) showOwners(ctx context.Context) error {
	v.Step("who has which VF?")
	for i, n := range v.nodes {
		out, err := n.Run(ctx, "culvert", "vf", "list")
		if err != nil {
			return err
		}
		v.quoteOutput(n, "culvert vf list", out)
		owners := []string{fmt.Sprintf("default/pod%d", n.Number)}
		if i < v.Guests {
			owners = append(owners, v.guests[i].Name)
		}
		for _, want := range owners {
			if !strings.Contains(string(out), want) {
				v.noteProblem("culvert vf list on %s does not name %s", n.Name, want)
			}
		}
	}
	return nil
}

// useUp gives a second guest the last VF of the pool of guests, and checks that a third guest is
// refused.
func (v *vms) useUp(ctx context.Context) error {
	n := v.nodes[0]
	v.Step("%s has two VFs for guests: a second guest gets the other one, a third one is refused", n.Name)
	var said *node.ExitError
	for _, name := range []string{"second", "third"} {
		g, err := n.DefineGuest(ctx, name, netip.MustParsePrefix("10.77.0.99/24"))
		if err != nil {
			return err
		}
		err = g.GiveVF(ctx, "--pool", guestPool)
		if refused := errors.As(err, &said); refused != (name == "third") {
			if err != nil {
				return err
			}
			v.noteProblem("a third guest got a VF of two")
		}
	}
	if said != nil {
		v.found.Refused = strings.TrimPrefix(strings.TrimSpace(said.Stderr), "culvert: ")
		v.quoteOutput(n, "culvert vm xml --pool guests third.xml", []byte(v.found.Refused))
	}
	for _, owner := range []string{"vm guest1", "vm second"} {
		if !strings.Contains(v.found.Refused, owner) {
			v.noteProblem("the refusal does not name %s", owner)
		}
	}
	_, err := n.Script(ctx, "remove both", `culvert vm detach second && virsh --quiet undefine second && virsh --quiet undefine third`)
	return err
}

func (v *vms) awaitGuests(ctx context.Context) error {
	v.Step("waiting for the guests, whose processors are emulated by emulated ones")
	took := make([]float64, v.Guests)
	err := v.eachGuest(func(i int) error {
		_, err := v.guests[i].Await(ctx)
		took[i] = time.Since(v.start).Seconds()
		return err
	})
	v.found.BootSeconds, v.found.Guests = took, len(took)
	return err
}

// reachAll pings from each guest and container to all others.
func (v *vms) reachAll(ctx context.Context) error {
	v.Step("ping over VLAN %d: guests and containers, on one node and from node to node", vmVLAN)
	v.found.Ping = true
	for _, from := range v.ends {
		for _, to := range v.ends {
			if from.name == to.name {
				continue
			}
			r, err := from.pingFrom(ctx, to)
			if err != nil {
				return err
			}
			v.found.Pings = append(v.found.Pings, r)
			fmt.Fprint(v.Steps, "         "+r.String()+"\n")
			if r.Received == 0 {
				v.found.Ping = false
				v.noteProblem("%s does not reach %s", r.From, r.To)
			}
		}
	}
	return nil
}

func (e guestEnd) pingFrom(ctx context.Context, to guestEnd) (Reach, error) {
	out, err := e.exec(ctx, fmt.Sprintf("ping -c %d -W 60 %s || true", pingsEach, to.ip))
	if err != nil {
		return Reach{}, err
	}
	got, err := bench.ParsePing([]byte(strings.ReplaceAll(string(out), "\r", "")))
	return Reach{From: e.name, To: to.name, Received: got.Received, MS: got.Avg}, err
}

func (r Reach) String() string {
	return fmt.Sprintf("%-7s -> %-7s  %d of %d came back, %.1f ms on average", r.From, r.To, r.Received, pingsEach, r.MS)
}

// askLibvirt compares which guest runs with which VF: by libvirt, and by the ledger.
func (v *vms) askLibvirt(ctx context.Context) error {
	v.Step("comparing libvirt's running guests with the ledger")
	v.found.LedgerMatchesLibvirt = true
	for i, n := range v.nodes {
		libvirt, err := passedVFs(ctx, n)
		if err != nil {
			return err
		}
		out, err := n.Run(ctx, "culvert", "vm", "list", "-o", "json")
		if err != nil {
			return err
		}
		var held []api.VF
		if err := json.Unmarshal(out, &held); err != nil {
			return fmt.Errorf("read what culvert vm list printed: %w", err)
		}
		var ledger []string
		for _, h := range held {
			ledger = append(ledger, h.Owner.Name+" "+h.PCI.String())
		}
		slices.Sort(ledger)
		fmt.Fprintf(v.Steps, "         %s: %s\n", n.Name, strings.Join(libvirt, ", "))
		if (len(libvirt) > 0) != (i < v.Guests) || !slices.Equal(libvirt, ledger) {
			v.found.LedgerMatchesLibvirt = false
			v.noteProblem("%s: libvirt says %q, the ledger %q", n.Name, libvirt, ledger)
		}
	}
	return nil
}

// passedVFs returns the guests that run on a node with the PCI functions that they
// have, in order: "name address".
func passedVFs(ctx context.Context, n node.Node) ([]string, error) {
	text, err := n.Script(ctx, "list guests", `virsh list --name | while read -r name; do [ -z "$name" ] || virsh dumpxml "$name"; done`)
	if err != nil {
		return nil, err
	}
	return parsePassed(text)
}

// passed is an <address> as libvirt writes it, in hexadecimal digits.
type passed struct {
	Domain   string `xml:"domain,attr"`
	Bus      string `xml:"bus,attr"`
	Slot     string `xml:"slot,attr"`
	Function string `xml:"function,attr"`
}

func (p passed) pciAddr() (vf.PCIAddr, error) {
	return vf.ParsePCIAddr(strings.NewReplacer("0x", "").Replace(p.Domain + ":" + p.Bus + ":" + p.Slot + "." + p.Function))
}

// parsePassed reads the definitions of guests that run, one after the other.
func parsePassed(text []byte) (out []string, err error) {
	var all struct {
		Domains []struct {
			Name     string   `xml:"name"`
			Hostdevs []passed `xml:"devices>hostdev>source>address"`
			NICs     []passed `xml:"devices>interface>source>address"`
		} `xml:"domain"`
	}
	if err := xml.Unmarshal(fmt.Appendf(nil, "<all>%s</all>", text), &all); err != nil {
		return nil, fmt.Errorf("read libvirt's definitions: %w", err)
	}
	for _, d := range all.Domains {
		for _, a := range append(d.Hostdevs, d.NICs...) {
			pci, err := a.pciAddr()
			if err != nil {
				return nil, fmt.Errorf("read libvirt's definition of %s: %w", d.Name, err)
			}
			out = append(out, d.Name+" "+pci.String())
		}
	}
	slices.Sort(out)
	return out, nil
}

// killAll kills the guests' QEMU with signal 9, and deletes the containers.
func (v *vms) killAll(ctx context.Context) error {
	v.Step("killing the guests' QEMU with signal 9, and deleting the containers: the VFs come back by themselves")
	return eachNode(ctx, v.nodes, func(ctx context.Context, i int, n node.Node) error {
		name := fmt.Sprintf("pod%d", n.Number)
		var g errgroup.Group
		if i < v.Guests {
			g.Go(func() error {
				if err := v.guests[i].Kill(ctx); err != nil {
					return err
				}
				return v.guests[i].Ended(ctx)
			})
		}
		g.Go(func() error {
			if err := (node.Container{Node: n, Name: name}).Delete(ctx); err != nil {
				return err
			}
			_, err := n.CNI(ctx, "del", v.attachmentOf(n))
			return errors.Join(err, n.DelNetns(ctx, name))
		})
		return g.Wait()
	})
}

// formatText returns the report for people, in at most 100 columns.
func (r GuestResult) formatText(screen.Look) string {
	var b strings.Builder
	fmt.Fprintf(&b, "guests  %d with a VF by VFIO, beside a container with a VF on each of %d nodes\n", r.Guests, nodeCount)
	for _, p := range r.Pings {
		fmt.Fprintf(&b, "ping    %s\n", p)
	}
	for i, s := range r.BootSeconds {
		fmt.Fprintf(&b, "boot    guest%d took commands %.0f s after virsh start\n", i+1, s)
	}
	fmt.Fprintf(&b, "refused\n%s", indentAll(r.Refused))
	same := "the same of who has what"
	if !r.LedgerMatchesLibvirt {
		same = "NOT the same of who has what"
	}
	fmt.Fprintf(&b, "ledger  libvirt and Culvert say %s\n", same)
	fmt.Fprintf(&b, "VFs     %d made, %d at their baseline after QEMU was killed, %d leaked\n", r.VFsCreated, r.VFsCreated-r.Leaked, r.Leaked)
	b.WriteString(describeMachines(r.Accel, r.WhyNotKVM))
	return b.String()
}

// formatPage returns no page, since the run has no measurement.
func (GuestResult) formatPage(string) (page, measurements []byte, err error) { return nil, nil, nil }

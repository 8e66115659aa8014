package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/guest/libvirt"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// P10: one device of a definition by hand has the name that Culvert gives to another one, after that
// one's VF. The lease of the second device would end that of the first, and the guest would start
// with a VF that anybody can get.
func TestP10DevicesOfOneName(t *testing.T) {
	h, e := handler(t)
	refused, err := report(t, h.Start, domain(hostdev(0, "0000-01-10-1"), hostdev(1, "")))
	if want := "VF 0000:01:10.0 and VF 0000:01:10.1 as one device, 0000-01-10-1"; err != nil || !strings.Contains(refused, want) {
		t.Errorf("refused with %q, %v; want %q", refused, err, want)
	}
	if len(e.asked) > 0 {
		t.Errorf("the engine was asked: %v", e.asked)
	}
}

// P10: a definition has one VF as two devices. The guest has one lease for it.
func TestP10OneVFAsTwoDevices(t *testing.T) {
	h, e := handler(t)
	refused, err := report(t, h.Start, domain(hostdev(0, "a"), hostdev(0, "b")))
	if want := "VF 0000:01:10.0 as two devices, a and b"; err != nil || !strings.Contains(refused, want) {
		t.Errorf("refused with %q, %v; want %q", refused, err, want)
	}
	if len(e.asked) > 0 {
		t.Errorf("the engine was asked: %v", e.asked)
	}
}

// nvmeDisk returns a disk that is the PCI function of VF n: libvirt takes the function's driver away,
// as for a <hostdev>.
func nvmeDisk(n int) string {
	return fmt.Sprintf(`<disk type='nvme' device='disk'><driver name='qemu' type='raw'/><source type='pci' managed='yes' namespace='1'>
<address domain='0x0000' bus='0x01' slot='0x10' function='0x%x'/></source><target dev='vda' bus='virtio'/></disk>`, n)
}

// P10: a disk of type nvme names a VF.
func TestP10DiskThatIsAVF(t *testing.T) {
	for name, held := range map[string][]string{"a pod's": {"v0 attached pod net1"}, "a free one": nil} {
		h, e := handler(t, held...)
		refused, err := report(t, h.Start, domain(nvmeDisk(0)))
		if err != nil || !strings.Contains(refused, "VF 0000:01:10.0") {
			t.Errorf("%s: refused with %q, %v", name, refused, err)
		}
		if len(e.asked) > 0 {
			t.Errorf("%s: the engine was asked: %v", name, e.asked)
		}
	}
	h, _ := handler(t)
	if refused, err := report(t, h.Start, domain(nvmeDisk(7))); err != nil || refused != "" {
		t.Errorf("a disk of the host was refused: %q, %v", refused, err)
	}
}

// I1: a guest gets the PF of VFs of the ledger as a device, as a disk or from a network. libvirt would
// take the PF from its driver, and all VFs would be gone.
func TestI1GuestGetsNoPFOfOurVFs(t *testing.T) {
	const at = "<address domain='0' bus='1' slot='0' function='0'/>"
	device := domain("<hostdev mode='subsystem' type='pci' managed='yes'><source>" + at + "</source></hostdev>")
	for name, tc := range map[string]struct {
		xml string
		of  func(*Handler) rpc.Handler
	}{
		"a device":                       {device, func(h *Handler) rpc.Handler { return h.Start }},
		"a disk":                         {domain("<disk type='nvme'><source type='pci' managed='yes'>" + at + "</source></disk>"), func(h *Handler) rpc.Handler { return h.Start }},
		"of a definition without a name": {strings.Replace(device, "db1", "", 1), func(h *Handler) rpc.Handler { return h.Start }},
		"of a network":                   {strings.Replace(port(0, ""), "slot='0x10'", "slot='0'", 1), func(h *Handler) rpc.Handler { return h.PortCreated }},
	} {
		h, e := handler(t, "v0 attached pod net1")
		refused, err := report(t, tc.of(h), tc.xml)
		if err != nil || refused == "" || name != "of a definition without a name" && !strings.Contains(refused, "PF enp1s0f0 (0000:01:00.0)") {
			t.Errorf("%s: refused with %q, %v", name, refused, err)
		}
		if len(e.asked) > 0 {
			t.Errorf("%s: the engine was asked: %v", name, e.asked)
		}
	}
}

// P15: libvirt takes a VF of the guest from a network, whose VLAN or MAC address is not that of the
// lease. libvirt would set it on the VF.
func TestP15PortDiffersFromTheLease(t *testing.T) {
	mac := vf.MAC{2, 0xaa, 0, 0, 0, 9}
	for name, tc := range map[string]struct {
		inside  string
		refused string
	}{
		"as leased":     {"<mac address='02:aa:00:00:00:09'/><vlan><tag id='42'/></vlan>", ""},
		"another VLAN":  {"<mac address='02:aa:00:00:00:09'/><vlan><tag id='200'/></vlan>", "VLAN 200, and the guest got it with VLAN 42"},
		"no VLAN":       {"<mac address='02:aa:00:00:00:09'/>", "VLAN 0, and the guest got it with VLAN 42"},
		"another's MAC": {"<mac address='02:aa:00:00:00:07'/><vlan><tag id='42'/></vlan>", "MAC address 02:aa:00:00:00:07, and the guest got it with 02:aa:00:00:00:09"},
	} {
		h, e := handler(t, "v0 attached "+uuid1+" net1")
		err := e.ledger.Update(func(tx *journal.Tx) error {
			rec, err := tx.Record(idOf(place(0)))
			rec.Lease.Effective = vf.Admin{MAC: mac, VLAN: vf.VLAN{ID: 42, Proto: vf.Dot1Q}}
			return errors.Join(err, tx.Put(rec))
		})
		if err != nil {
			t.Fatal(err)
		}
		refused, err := report(t, h.PortCreated, port(0, tc.inside))
		if err != nil || tc.refused == "" && refused != "" || !strings.Contains(refused, tc.refused) {
			t.Errorf("%s: refused with %q, %v; want %q", name, refused, err, tc.refused)
		}
	}
}

// countingEngine counts the questions how full a pool is. Each may wait for the kubelet.
type countingEngine struct {
	*fakeEngine
	rooms int
}

func (e *countingEngine) Room(ctx context.Context, a vf.PCIAddr) string {
	e.rooms++
	return e.fakeEngine.Room(ctx, a)
}

// P10: libvirt's hook lets a guest start that has no answer after 30 s. A definition of the largest
// size, with a pod's VF in thousands of devices, is refused long before.
func TestP10LargestDefinitionIsAnswered(t *testing.T) {
	h, e := handler(t, "v0 attached pod net1")
	counting := &countingEngine{fakeEngine: e}
	h.node.Engine = counting
	fill := func(bytes int, line string) string {
		var b strings.Builder
		for i := 0; b.Len() < bytes; i++ {
			fmt.Fprintf(&b, line, i)
		}
		return b.String()
	}
	// spend returns the processor time of the least of two answers to a definition with so many bytes.
	spend := func(bytes int) time.Duration {
		entries := fill(bytes/2, "<c:vf device='a%d'/>")
		devices := fill(bytes/2, "<interface type='network'><source network='culvert-0000-01-10-0'/><alias name='ua-culvert-b%d'/></interface>")
		text := "<domain><name>db1</name><uuid>" + uuid1 + "</uuid><metadata><c:guest xmlns:c='https://culvert.dev/guest'>" +
			entries + "</c:guest></metadata><devices>" + devices + "</devices></domain>"
		var least time.Duration
		for range 2 {
			counting.rooms = 0
			begin := processorTime(t)
			refused, err := report(t, h.Start, text)
			if took := processorTime(t) - begin; least == 0 || took < least {
				least = took
			}
			if err != nil || !strings.Contains(refused, "held by pod default/a") {
				t.Errorf("refused with %.300q, %v", refused, err)
			}
			if counting.rooms > 1 {
				t.Errorf("the engine was asked %d times how full the pool of one VF is", counting.rooms)
			}
		}
		return least
	}
	const largest, part = 500 << 10, 8
	// Work that grows with the square of the length would grow by 64.
	if all, some := spend(largest), spend(largest/part); all > 3*part*some {
		t.Errorf("the answer takes %s, and to a definition of an eighth %s", all, some)
	}
}

// processorTime returns the processor time of this process.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// refusingLibvirt is a libvirt that cannot describe one guest: its definition has become longer than
// an answer may be. "db" has that guest's UUID.
type refusingLibvirt struct{ libvirtFake }

func (l *refusingLibvirt) XML(ctx context.Context, guest string, which libvirt.Which) (string, error) {
	if guest == uuidOf(2) {
		return "", fmt.Errorf("definition of guest db: %w", libvirt.ErrRefused)
	}
	return l.libvirtFake.XML(ctx, guest, which)
}

// P12: libvirt refuses to describe one guest. culvertd compares the others, and ends no lease of that
// one.
func TestP12OneGuestCannotBeDescribed(t *testing.T) {
	f := &Follower{pace: pace{answer: time.Minute}, log: slog.New(slog.DiscardHandler)}
	all, err := f.listGuests(t.Context(), &refusingLibvirt{})
	var got []string
	for _, g := range all {
		got = append(got, fmt.Sprint(g.Name, " ", g.Unread))
	}
	if diff := cmp.Diff([]string{"web false", "db true", "passing false", "odd true"}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// manyLibvirt has guests with long definitions, of one VF each.
type manyLibvirt struct {
	libvirtFake
	guests  int
	setting string // of the metadata
}

func (l *manyLibvirt) Guests(context.Context) (out []libvirt.Guest, err error) {
	for n := range l.guests {
		out = append(out, libvirt.Guest{UUID: fmt.Sprintf("11111111-f6a4-8304-79aa-%012x", n), Name: fmt.Sprint("g", n), State: libvirt.Running, Persistent: true})
	}
	return out, nil
}

func (l *manyLibvirt) XML(_ context.Context, guest string, _ libvirt.Which) (string, error) {
	return "<domain><name>g</name><uuid>" + guest + "</uuid><description>" + strings.Repeat("x", 250<<10) + "</description>" +
		"<metadata><c:guest xmlns:c='https://culvert.dev/guest'><c:vf device='net1' " + l.setting + "/></c:guest></metadata><devices>" +
		hostdev(1, "net1") + "</devices></domain>", nil
}

// TestLongDefinitionsAreNotKept: a comparison keeps of each definition what concerns Culvert, and not
// its text, which its author chooses.
func TestLongDefinitionsAreNotKept(t *testing.T) {
	for _, setting := range []string{"trust='on'", "mac='" + strings.Repeat("x", 250<<10) + "'", "pool='" + strings.Repeat("x", 250<<10) + "'"} {
		f := &Follower{pace: pace{answer: time.Minute}, log: slog.New(slog.DiscardHandler)}
		l := &manyLibvirt{guests: 16, setting: setting}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		all, err := f.listGuests(t.Context(), l)
		if err != nil || len(all) != l.guests {
			t.Fatal(len(all), err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 2<<20 {
			t.Errorf("%.10s: it keeps %d KiB of %d guests", setting, kept>>10, l.guests)
		}
		for _, g := range all {
			if wants, err := g.Live.Wants(); len(wants) != 1 && err == nil {
				t.Fatal(wants, err)
			}
		}
	}
}

// A guest that runs gets metadata with a mistake of 400 KB, by virsh metadata --live. The problem goes
// into culvert status and into the ledger's events, which people and culvertd must be able to read.
func TestProblemOfARunningGuestIsBounded(t *testing.T) {
	h, e := handler(t, "v0 attached "+uuid1+" net1 opened")
	c := NewComparer(Parts{Engine: e, Resets: e, VFs: e, Upkeep: watchingEngine{e}}, h.ledger, time.Now)
	text := strings.Replace(domain(hostdev(0, "net1")), "<devices>", "<metadata><c:guest xmlns:c='https://culvert.dev/guest'><c:vf device='"+
		strings.Repeat("&quot;", 60<<10)+"'/></c:guest></metadata><devices>", 1)
	problems, err := c.Compare(t.Context(), func(context.Context) ([]Seen, error) {
		return []Seen{{UUID: uuid1, Name: "db1", Running: true, Live: parseText(t, text), Next: parseText(t, text)}}, nil
	})
	if err != nil || len(problems) == 0 {
		t.Fatal(problems, err)
	}
	for _, p := range problems {
		if len(p.Reason) > 2<<10 {
			t.Errorf("a problem of %d bytes", len(p.Reason))
		}
	}
}

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

const (
	uuid1 = "11111111-f6a4-8304-79aa-97f2502e193f"
	uuid2 = "22222222-f6a4-8304-79aa-97f2502e193f"
)

// fakeEngine changes the ledger as an engine does, and records the calls.
type fakeEngine struct {
	ledger *journal.Ledger
	asked  []string
	// fails is the VF that cannot be made ready, inUse the VF that a process has open.
	fails, inUse vf.PCIAddr
	request      attach.Request // the last one
	unread       string         // why the host cannot read sparePF
}

func (e *fakeEngine) Attach(_ context.Context, req attach.Request) (journal.Record, error) {
	e.asked, e.request = append(e.asked, fmt.Sprintf("attach %s as %s", short(req.VF), req.Owner.Interface)), req
	if req.VF == e.fails {
		return journal.Record{}, fmt.Errorf("VF %s: no luck", req.VF)
	}
	rec := journal.Record{ID: idOf(req.VF), PCI: req.VF, Phase: vf.PhaseAttached, Lease: journal.Lease{Owner: req.Owner, Wanted: req.Spec, Pool: "x/a"}}
	return rec, e.ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) })
}

func (e *fakeEngine) End(_ context.Context, rec journal.Record) error {
	e.asked = append(e.asked, "end "+short(rec.PCI))
	rec.Phase, rec.Lease = vf.PhaseFree, journal.Lease{}
	return e.ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) })
}

func (e *fakeEngine) InUse(_ context.Context, rec journal.Record) error {
	if rec.PCI == e.inUse {
		return fmt.Errorf("VF %s: %w open by qemu (process 4711)", rec.PCI, vf.ErrHeld)
	}
	return nil
}

func (e *fakeEngine) Room(context.Context, vf.PCIAddr) string { return "pool x/a: all are held" }

// PFs returns the PF of the ledger's VFs, at 0000:01:00.0, and one that has none.
func (e *fakeEngine) PFs() []vf.PF {
	return []vf.PF{
		{PCI: vf.PCIAddr{Bus: 1}, Name: "enp1s0f0", Driver: "ixgbe", ID: idOf(place(0)).PF, VFs: []vf.State{{PCI: place(0), Vendor: "8086", Device: "1565"}}},
		{PCI: sparePF, Name: "enp2s0f0", Driver: "igb", ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 2}}, Err: e.unread},
	}
}

// sparePF is a PF of which Culvert made no VFs.
var sparePF = vf.PCIAddr{Bus: 2}

// place is VF n of the only PF.
func place(n int) vf.PCIAddr { return vf.PCIAddr{Bus: 1, Device: 0x10, Function: uint8(n)} }

func idOf(a vf.PCIAddr) vf.ID {
	return vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Index: int(a.Function)}
}

func short(a vf.PCIAddr) string { return fmt.Sprintf("v%d", a.Function) }

func emptyLedger(t testing.TB) *journal.Ledger {
	t.Helper()
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// handler has a ledger of four VFs, v0 to v3, that are free but for those of held, whose
// lines are "v1 attached UUID net1 opened".
func handler(t testing.TB, held ...string) (*Handler, *fakeEngine) {
	t.Helper()
	l := emptyLedger(t)
	err := l.Update(func(tx *journal.Tx) error {
		for n := range 4 {
			if err := tx.Put(recordOf(t, n, held)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &fakeEngine{ledger: l}
	return New(Parts{Engine: e, Resets: e, VFs: e}, l), e
}

func recordOf(t testing.TB, n int, held []string) journal.Record {
	t.Helper()
	rec := journal.Record{ID: idOf(place(n)), PCI: place(n), Phase: vf.PhaseFree, Generation: 1}
	for _, line := range held {
		f := strings.Fields(line)
		if f[0] != short(place(n)) {
			continue
		}
		rec.Phase = vf.Phase(f[1])
		if rec.Phase == vf.PhaseQuarantined {
			rec.Reason = "it does not go"
			continue
		}
		rec.Lease.Owner = vf.Owner{Kind: vf.OwnerGuest, UID: f[2], Name: "db1", Interface: f[3]}
		if f[2] == "pod" {
			rec.Lease.Owner = vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: f[3]}
		}
		rec.Lease.Opened = slices.Contains(f, "opened")
		rec.Lease.Pool = "x/a"
	}
	return rec
}

// hostdev returns a device of a definition. An empty name stands for a device without Culvert's
// alias, as a person writes it.
func hostdev(n int, name string) string {
	alias := ""
	if name != "" {
		alias = "<alias name='ua-culvert-" + name + "'/>"
	}
	return fmt.Sprintf("<hostdev mode='subsystem' type='pci' managed='no'><source><address domain='0' bus='1' slot='0x10' function='%d'/></source>%s</hostdev>", n, alias)
}

func domain(devices ...string) string {
	return "<domain><name>db1</name><uuid>" + uuid1 + "</uuid><devices><emulator>qemu</emulator>" + strings.Join(devices, "") + "</devices></domain>"
}

// domainOf is domain with other elements before the devices.
func domainOf(elements string, devices ...string) string {
	return strings.Replace(domain(devices...), "<devices>", elements+"<devices>", 1)
}

func port(n int, inside string) string {
	return fmt.Sprintf(`<hookData><network><name>theirs</name></network><networkport><owner><name>db1</name><uuid>%s</uuid></owner>%s
<plug type='hostdev-pci' managed='no'><address domain='0' bus='1' slot='0x10' function='%d'/></plug></networkport></hookData>`, uuid1, inside, n)
}

// report calls a method with the XML that a hook gets from libvirt.
func report(t *testing.T, method rpc.Handler, xml string) (refused string, err error) {
	t.Helper()
	params, err := json.Marshal(api.GuestReport{XML: []byte(xml)})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := method(t.Context(), params)
	said, _ := answer.(api.GuestAnswer)
	return said.Refused, err
}

// P10: a guest that is about to start gets its VFs or is refused, by the state of the ledger.
func TestP10Start(t *testing.T) {
	for name, tc := range map[string]struct {
		held    []string
		devices []string
		fails   vf.PCIAddr
		asked   []string
		refused []string // words of it
	}{
		"free VFs":                   {devices: []string{hostdev(0, "net1"), hostdev(1, "")}, asked: []string{"attach v0 as net1", "attach v1 as 0000-01-10-1"}},
		"its own, reserved":          {held: []string{"v0 attached " + uuid1 + " net1"}, devices: []string{hostdev(0, "net1")}},
		"its own, of an earlier run": {held: []string{"v0 attached " + uuid1 + " net1 opened"}, devices: []string{hostdev(0, "net1")}, asked: []string{"end v0", "attach v0 as net1"}},
		"its device is elsewhere":    {held: []string{"v1 attached " + uuid1 + " net1"}, devices: []string{hostdev(0, "net1")}, asked: []string{"end v1", "attach v0 as net1"}},
		"under another name":         {held: []string{"v0 attached " + uuid1 + " net9"}, devices: []string{hostdev(0, "net1")}, asked: []string{"end v0", "attach v0 as net1"}},
		"another stays reserved":     {held: []string{"v1 attached " + uuid1 + " net2"}, devices: []string{hostdev(0, "net1")}, asked: []string{"attach v0 as net1"}},
		"somebody else's device":     {devices: []string{hostdev(7, "")}},
		"a pod's": {held: []string{"v0 attached pod net1"}, devices: []string{hostdev(0, "net1"), hostdev(1, "net2")},
			refused: []string{"guest db1 cannot have VF 0000:01:10.0, which is attached: held by pod default/a: take it out of the definition", "(pool x/a: all are held)"}},
		"another guest's":            {held: []string{"v0 attached " + uuid2 + " net1"}, devices: []string{hostdev(0, "net1")}, refused: []string{"held by vm db1"}},
		"one that is just given":     {held: []string{"v0 configuring pod net1"}, devices: []string{hostdev(0, "net1")}, refused: []string{"which is configuring: held by pod default/a"}},
		"quarantined":                {held: []string{"v0 quarantined"}, devices: []string{hostdev(0, "net1")}, refused: []string{"which is quarantined (it does not go)"}},
		"two of them":                {held: []string{"v0 quarantined", "v1 attached pod net1"}, devices: []string{hostdev(0, "a"), hostdev(1, "b")}, refused: []string{"VF 0000:01:10.0, which is quarantined", "; VF 0000:01:10.1, which is attached"}},
		"gone":                       {devices: []string{hostdev(7, "net1")}, refused: []string{"VF 0000:01:10.7, which is none of this host's that Culvert made"}},
		"the second cannot be given": {devices: []string{hostdev(0, "a"), hostdev(1, "b")}, fails: place(1), asked: []string{"attach v0 as a", "attach v1 as b", "end v0"}, refused: []string{"guest db1 cannot start: VF 0000:01:10.1: no luck"}},
		"and it had the first": {held: []string{"v0 attached " + uuid1 + " a"}, devices: []string{hostdev(0, "a"), hostdev(1, "b")}, fails: place(1),
			asked: []string{"attach v1 as b"}, refused: []string{"no luck"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := handler(t, tc.held...)
			e.fails = tc.fails
			refused, err := report(t, h.Start, domain(tc.devices...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.asked, e.asked); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, w := range tc.refused {
				if !strings.Contains(refused, w) {
					t.Errorf("%q is not in %s", w, refused)
				}
			}
			if len(tc.refused) == 0 && refused != "" {
				t.Errorf("refused: %s", refused)
			}
			again, err := report(t, h.Start, domain(tc.devices...)) // as if the hook were installed twice
			if err != nil || (again == "") != (refused == "") {
				t.Errorf("told again: %s, %v", again, err)
			}
		})
	}
}

// P12, I8: an end takes back the devices in the definition of the run, and no VF that the guest was
// given since. The same end reported twice does no more.
func TestP12Stop(t *testing.T) {
	for name, tc := range map[string]struct {
		held, devices, asked []string
	}{
		"what it names":          {[]string{"v0 attached " + uuid1 + " net1", "v1 attached " + uuid1 + " net2"}, []string{hostdev(0, "net1")}, []string{"end v0"}},
		"under any name":         {[]string{"v0 attached " + uuid1 + " net1"}, []string{hostdev(0, "")}, []string{"end v0"}},
		"nobody else's":          {[]string{"v0 attached " + uuid2 + " net1", "v1 attached pod net1"}, []string{hostdev(0, "net1"), hostdev(1, "net2")}, nil},
		"nothing is left":        {nil, []string{hostdev(0, "net1")}, nil},
		"a quarantined one":      {[]string{"v0 quarantined"}, []string{hostdev(0, "net1")}, nil},
		"a guest without a VF":   {[]string{"v0 attached " + uuid1 + " net1"}, nil, nil},
		"while it is given back": {[]string{"v0 releasing " + uuid1 + " net1"}, []string{hostdev(0, "net1")}, []string{"end v0"}}, // the engine waits for that
	} {
		t.Run(name, func(t *testing.T) {
			h, e := handler(t, tc.held...)
			for range 2 {
				if refused, err := report(t, h.Stop, domain(tc.devices...)); err != nil || refused != "" {
					t.Error(refused, err)
				}
			}
			if diff := cmp.Diff(tc.asked, e.asked); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// P11, P15: a VF that libvirt takes from a network defined outside Culvert becomes a lease with the
// settings of its port. All other settings stay those of the PF.
func TestP11Port(t *testing.T) {
	mac := vf.MAC{2, 0xaa, 0, 0, 0, 9}
	for name, tc := range map[string]struct {
		held    []string
		port    string
		want    vf.Spec
		asked   []string
		refused string
	}{
		"free":            {port: port(0, "<mac address='02:aa:00:00:00:09'/><vlan><tag id='42'/></vlan>"), want: vf.Spec{MAC: &mac, VLAN: &vf.VLAN{ID: 42, Proto: vf.Dot1Q}}, asked: []string{"attach v0 as 0000-01-10-0"}},
		"without a VLAN":  {port: port(0, "<mac address='02:aa:00:00:00:09'/>"), want: vf.Spec{MAC: &mac}, asked: []string{"attach v0 as 0000-01-10-0"}},
		"had already":     {held: []string{"v0 attached " + uuid1 + " net1"}, port: port(0, "")},
		"not of Culvert":  {port: port(7, "")},
		"somebody else's": {held: []string{"v0 attached pod net1"}, port: port(0, ""), refused: "held by pod default/a: take it out of the network, too (pool x/a: all are held)"},
		"of a bridge":     {port: "<hookData><networkport><plug type='bridge'/></networkport></hookData>"},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := handler(t, tc.held...)
			refused, err := report(t, h.PortCreated, tc.port)
			if err != nil || !strings.Contains(refused, tc.refused) || tc.refused == "" && refused != "" {
				t.Error(refused, err)
			}
			if diff := cmp.Diff(tc.asked, e.asked); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, e.request.Spec); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	h, e := handler(t, "v0 attached "+uuid1+" net1", "v1 attached "+uuid1+" net2")
	for range 2 {
		if _, err := report(t, h.PortDeleted, port(1, "")); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"end v1"}, e.asked); diff != "" {
		t.Errorf("put back: -want +got:\n%s", diff)
	}
}

// The Handler refuses a report that libvirt would never send, and changes nothing.
func TestReportsAreReadStrictly(t *testing.T) {
	h, e := handler(t)
	for name, method := range map[string]rpc.Handler{"start": h.Start, "stop": h.Stop, "created": h.PortCreated, "deleted": h.PortDeleted} {
		for _, xml := range []string{"", "no XML", "<domain>", "<domain><devices>" + hostdev(0, "") + "</devices></domain>", "<hookData><networkport><plug type='hostdev-pci'/></networkport></hookData>"} {
			if refused, err := report(t, method, xml); err == nil && refused == "" {
				t.Errorf("%s took %q", name, xml)
			}
		}
		if _, err := method(t.Context(), []byte("{")); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(e.asked) > 0 {
		t.Error(e.asked)
	}
}

// withDevice returns a definition with a device that culvert vm xml makes.
func withDevice(t *testing.T, h *Handler, text, device, apart string) string {
	t.Helper()
	params, err := json.Marshal(api.GuestXMLRequest{Definition: text, Device: device, Way: "hostdev", Apart: apart})
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.XML(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return out.(api.GuestXML).Definition //nolint:forcetypeassert // as XML returns it
}

// The definition remembers from which device the VF has to be apart, also when the request for the
// same device is repeated without that.
func TestXMLRemembersApart(t *testing.T) {
	h, _ := handler(t, "v0 attached "+uuid1+" net1a", "v1 attached "+uuid1+" net1b")
	text := domain()
	for _, apart := range []string{"net1a", ""} {
		text = withDevice(t, h, text, "net1b", apart)
		d := parseText(t, text)
		if w, has, err := d.Of("net1b"); w.Apart != "net1a" || !has || err != nil {
			t.Errorf("asked with %q: %v, apart from %q in:\n%s", apart, err, w.Apart, text)
		}
	}
}

// A start asks for the pool of each device and for its apartness, as the definition remembers them. So
// a guest gets no VF of another pool or PF after PCI addresses have moved.
func TestStartAsksForPoolAndApartness(t *testing.T) {
	h, _ := handler(t, "v0 attached "+uuid1+" net1a", "v1 attached "+uuid1+" net1b")
	text := domain()
	text = withDevice(t, h, text, "net1b", "net1a") // the later one first
	text = withDevice(t, h, text, "net1a", "")
	h, e := handler(t)
	if refused, err := report(t, h.Start, text); err != nil || refused != "" {
		t.Fatal(refused, err)
	}
	if diff := cmp.Diff([]string{"attach v0 as net1a", "attach v1 as net1b"}, e.asked); diff != "" {
		t.Error(diff)
	}
	if e.request.Pool != "x/a" || e.request.Apart != "net1a" {
		t.Errorf("asked for pool %q, apart from %q", e.request.Pool, e.request.Apart)
	}
}

func TestOrderPairs(t *testing.T) {
	for _, tt := range []struct{ asked, want string }{
		{"a b c", "a b c"},
		{"b/a a", "a b/a"},
		{"c/b b/a a d", "a b/a c/b d"},
		{"a/b b/a", "a b/a"}, // the later one keeps the wish
		{"a/x b", "a b"},     // there is no x
		{"a/a", "a"},
	} {
		var requests []attach.Request
		for _, word := range strings.Fields(tt.asked) {
			name, apart, _ := strings.Cut(word, "/")
			requests = append(requests, attach.Request{Owner: vf.Owner{Interface: name}, Apart: apart})
		}
		var got []string
		for _, r := range orderPairs(requests) {
			got = append(got, strings.TrimSuffix(r.Owner.Interface+"/"+r.Apart, "/"))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %s, want %s", tt.asked, got, tt.want)
		}
	}
}

// The answer for a Windows guest says what it needs there. Another guest gets no notes.
func TestXMLNotesForWindows(t *testing.T) {
	for os, want := range map[string][]string{
		"windows": {"VF 0000:01:10.0 (PCI ID 8086:1565) needs its vendor's driver in Windows", "VIOPROT", "ven_8086&dev_1565", "Hyper-V", "clock"},
		"linux":   nil, "": nil,
	} {
		h, _ := handler(t, "v0 attached "+uuid1+" net1")
		params, err := json.Marshal(api.GuestXMLRequest{
			Definition: domain("<interface type='bridge'><model type='virtio'/><teaming type='persistent'/><alias name='ua-net0'/></interface>"),
			Device:     "net1", Way: "hostdev", OS: os, Failover: "ua-net0",
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := h.XML(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		notes := out.(api.GuestXML).Notes //nolint:forcetypeassert // as XML returns it
		if len(want) == 0 && len(notes) > 0 {
			t.Errorf("%q: %q", os, notes)
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(notes, "\n"), w) {
				t.Errorf("%q is not in %q", w, notes)
			}
		}
	}
}

func TestXMLRefuses(t *testing.T) {
	mtu := 9000
	for name, tc := range map[string]struct {
		change func(*api.GuestXMLRequest)
		says   string
	}{
		"no definition":  {func(r *api.GuestXMLRequest) { r.Definition = "" }, "want what virsh dumpxml prints"},
		"way":            {func(r *api.GuestXMLRequest) { r.Way = "bridge" }, `"bridge"`},
		"MTU":            {func(r *api.GuestXMLRequest) { r.Spec.MTU = &mtu }, "is set in the guest"},
		"name":           {func(r *api.GuestXMLRequest) { r.Device = "net 1" }, `"net 1"`},
		"other settings": {func(r *api.GuestXMLRequest) { r.Device = "net9"; r.Pool = "b" }, "with another pool or other settings: held: culvert vm detach db1 net9 first"},
		"system":         {func(r *api.GuestXMLRequest) { r.OS = "windwos" }, `os "windwos": invalid: want windows or linux`},
		"fast path on PCI": {func(r *api.GuestXMLRequest) {
			r.Definition, r.Failover = domainOf("<os><type machine='pc-i440fx-9.2'>hvm</type></os>"), "ua-net0"
		}, "guest db1 has machine pc-i440fx-9.2: invalid with --failover"},
		"room": {func(r *api.GuestXMLRequest) {
			r.Definition = domainOf("<os><type machine='q35'>hvm</type></os>", strings.Split(strings.Repeat(hostdev(3, "")+"|", 240)+hostdev(3, ""), "|")...)
		}, "machine q35 has room for 240 beside the guest's own"},
		"priority": {func(r *api.GuestXMLRequest) { r.Spec.VLAN = &vf.VLAN{ID: 5, QoS: 3} }, "vlanQoS 3: invalid as interface"},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := handler(t, "v3 attached "+uuid1+" net9")
			req := api.GuestXMLRequest{Definition: domain(), Device: "net1", Way: "interface", Pool: "a"}
			tc.change(&req)
			params, err := json.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.XML(t.Context(), params); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q", err, tc.says)
			}
			if len(e.asked) > 0 {
				t.Error(e.asked)
			}
		})
	}
}

func TestDetach(t *testing.T) {
	for name, tc := range map[string]struct {
		req   api.GuestDetachRequest
		inUse vf.PCIAddr
		asked []string
		says  string
	}{
		"one device":      {req: api.GuestDetachRequest{Guest: uuid1, Device: "net2"}, asked: []string{"end v1"}},
		"by UUID":         {req: api.GuestDetachRequest{Guest: uuid1}, asked: []string{"end v0", "end v1"}},
		"two of one name": {req: api.GuestDetachRequest{Guest: "db1"}, says: "there is more than one of that name"},
		"nobody":          {req: api.GuestDetachRequest{Guest: "db9"}, says: `VF of guest "db9" as any device: not found`},
		"it runs":         {req: api.GuestDetachRequest{Guest: uuid1}, inUse: place(1), says: "open by qemu (process 4711): shut guest db1 down"},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := handler(t, "v0 attached "+uuid1+" net1", "v1 attached "+uuid1+" net2", "v2 attached "+uuid2+" net1")
			e.inUse = tc.inUse
			params, err := json.Marshal(tc.req)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := h.Detach(t.Context(), params)
			if tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) || tc.says == "" && err != nil {
				t.Errorf("%v, want %q", err, tc.says)
			}
			if diff := cmp.Diff(tc.asked, e.asked); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if done, ok := answer.(api.GuestDetached); ok && (len(done.VFs) != len(tc.asked) || done.VFs[0].Phase != string(vf.PhaseFree)) {
				t.Errorf("%+v", done)
			}
		})
	}
}

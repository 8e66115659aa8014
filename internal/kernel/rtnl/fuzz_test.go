package rtnl

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// longestRefusal bounds the text of an error, which repeats at most one attribute of 64 KiB of an
// answer.
const longestRefusal = 1<<16 + 200

// takeDatagram cuts a datagram of the kernel into bodies that lie within it and do not overlap. A
// refusal becomes a KernelError with an errno.
func FuzzAnswer(f *testing.F) {
	f.Add(message(unix.NLMSG_ERROR, 0, 1, appendWords(0xffffffea, 0, 0, 0, 0)), uint16(0))
	f.Add(message(unix.NLMSG_ERROR, 0, 1, AppendString(appendWords(0xffffffea, 0, 0, 0, 0), nlmsgerrMsg, "no")), uint16(unix.NLM_F_ACK))
	f.Add(message(unix.NLMSG_ERROR, 0, 1, nil), uint16(unix.NLM_F_ACK))
	f.Add(message(16, unix.NLM_F_MULTI, 1, appendWords(1)), uint16(unix.NLM_F_DUMP))
	f.Add(append(message(16, unix.NLM_F_MULTI|unix.NLM_F_DUMP_INTR, 1, appendWords(1)), message(unix.NLMSG_DONE, unix.NLM_F_MULTI, 1, appendWords(0))...), uint16(unix.NLM_F_DUMP))
	f.Fuzz(func(t *testing.T, b []byte, flags uint16) {
		var a answer
		err := a.takeDatagram(b, 1, 5, Request{Flags: flags})
		total := 0
		for _, body := range a.bodies {
			total += len(body) + unix.SizeofNlMsghdr
		}
		if total > len(b) {
			t.Errorf("bodies of %d bytes with their headers, out of %d", total, len(b))
		}
		var refusal *KernelError
		if errors.As(err, &refusal) && (refusal.Errno == 0 || !a.done) {
			t.Errorf("refused with errno %d, done %v", refusal.Errno, a.done)
		}
		if err != nil && len(err.Error()) > longestRefusal {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

// A route that ParseRoute accepts can be written, and reads again as the same route.
func FuzzParseRoute(f *testing.F) {
	for _, r := range []vf.Route{
		{Dst: netip.MustParsePrefix("10.20.0.0/16"), Gateway: netip.MustParseAddr("10.56.0.1"), MTU: 9, Priority: 5},
		{Dst: netip.MustParsePrefix("::/0"), Gateway: netip.MustParseAddr("fd00::1")},
		{Dst: netip.MustParsePrefix("0.0.0.0/0")},
		{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.56.0.1"), OnLink: true, Table: 1000, AdvMSS: 1300, Scope: 200},
	} {
		f.Add(Route{Index: 7, Route: r}.encodeRoute())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok, err := ParseRoute(b)
		if !ok {
			return
		}
		if err != nil || !r.Dst.IsValid() {
			t.Fatalf("%+v, %v", r, err)
		}
		r.Automatic = false
		r.Dst = r.Dst.Masked()
		again, ok, err := ParseRoute(r.encodeRoute())
		if again != r || !ok || err != nil {
			t.Errorf("%+v reads again as %+v, %v, %v", r, again, ok, err)
		}
	})
}

// An address that ParseAddr accepts can be written, and reads again as the same address.
func FuzzParseAddr(f *testing.F) {
	f.Add(Addr{Index: 7, Prefix: netip.MustParsePrefix("fd00::10/64")}.encodeAddr())
	f.Add(Addr{Index: 7, Prefix: netip.MustParsePrefix("10.56.0.10/24")}.encodeAddr())
	f.Add(Addr{Index: 7, Prefix: netip.MustParsePrefix("10.56.0.10/32"), Proto: ProtoCulvert}.encodeAddr())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAddr(b)
		if err != nil || !a.Prefix.IsValid() {
			return
		}
		if a.Prefix.Addr().Is4() {
			a.Flags = 0 // encodeAddr writes those of IPv6 alone
		}
		again, err := ParseAddr(a.encodeAddr())
		if again != a || err != nil {
			t.Errorf("%+v reads again as %+v, %v", a, again, err)
		}
	})
}

// A link that ParseLink accepts has as many VFs as its message says, and its texts are parts of the
// message.
func FuzzParseLink(f *testing.F) {
	f.Add(igb3VFs(f))
	f.Add(linkHeader(1, 1, 1))
	f.Add(AppendString(AppendUint32(linkHeader(2, unix.IFF_UP, 0), unix.IFLA_NUM_VF, 2), iflaParentDev, "0000:01:00.0"))
	watched := bondOf(vf.Bond{Mode: vf.BondActiveBackup, ARPInterval: 50, ARPTargets: []netip.Addr{netip.MustParseAddr("10.1.0.1")}})
	f.Add(appendLinkInfo(AppendString(AppendUint32(linkHeader(3, 0, 0), unix.IFLA_MASTER, 9), unix.IFLA_IFALIAS, "culvert c1"), watched.encodeData()))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLink(b)
		if err != nil {
			return
		}
		if l.VFs != nil && len(l.VFs) < l.NumVFs {
			t.Errorf("%d of %d VFs and no error", len(l.VFs), l.NumVFs)
		}
		for _, text := range []string{l.Name, l.Parent, l.PortName, l.Alias} {
			if !bytes.Contains(b, []byte(text)) || bytes.IndexByte([]byte(text), 0) >= 0 {
				t.Errorf("%q is not of the message", text)
			}
		}
		if l.Bond != nil && len(l.Bond.ARPTargets) > vf.MaxARPTargets {
			t.Errorf("a bond with %d targets", len(l.Bond.ARPTargets))
		}
		if l.Carrier && !l.Up {
			t.Error("carrier on a link that is down")
		}
	})
}

// A PF's settings for a VF, written and read again, are the same.
func FuzzParseVFInfoList(f *testing.F) {
	attrs, err := Attrs(igb3VFs(f)[unix.SizeofIfInfomsg:])
	if err != nil {
		f.Fatal(err)
	}
	for _, a := range attrs {
		if a.Type == unix.IFLA_VFINFO_LIST {
			f.Add(a.Value)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		vfs, err := ParseVFInfoList(b)
		if (err == nil) != (vfs != nil) {
			t.Errorf("%v, %v", vfs, err)
		}
		for i, a := range vfs {
			if i < 0 || i > 0xffff || a.LinkState > vf.LinkDisable {
				t.Errorf("vf %d: %+v", i, a)
			}
			again, err := ParseVFInfoList(AppendNested(nil, iflaVFInfo, settingsOf(i, a)))
			if len(again) != 1 || again[i] != a || err != nil {
				t.Errorf("vf %d %+v reads again as %+v, %v", i, a, again, err)
			}
		}
	})
}

// settingsOf writes each setting of a VF that has a value.
func settingsOf(index int, a vf.Admin) []byte {
	settings := []VFSetting{VFMAC(index, a.MAC), VFLinkState(index, a.LinkState), VFRate(index, a.MinTxRate, a.MaxTxRate), VFVLAN(index, a.VLAN)}
	for _, s := range vf.Switches() {
		on := *a.Switch(s)
		setting := VFSwitch(index, s, on == vf.Yes)
		if on == vf.Unknown {
			setting.value = appendWords(uint32(index), absent)
		}
		settings = append(settings, setting)
	}
	var b []byte
	for _, s := range settings {
		b = AppendAttr(b, s.typ, s.value)
	}
	return b
}

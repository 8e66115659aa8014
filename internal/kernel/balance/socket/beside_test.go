package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// standIn does what Cilium's socket load balancer does at connect4, in place of Cilium, which has
// not been run here: it counts its calls, puts a backend in the place of a Service of its own, and
// refuses a Service that has no backends for it (bpf/bpf_sock.c of Cilium: -EHOSTUNREACH). Each
// Service of Culvert is such a Service, since its Kubernetes EndpointSlice is empty.
type standIn struct {
	program *ebpf.Program
	calls   *ebpf.Map
}

const (
	standInService = "10.96.0.9"
	standInBackend = "172.16.91.9"
	culvertService = "10.96.0.1"
)

func newStandIn(t *testing.T) standIn {
	t.Helper()
	calls, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = calls.Close() })
	ip := func(text string) int64 {
		a := netip.MustParseAddr(text).As4()
		return int64(binary.NativeEndian.Uint32(a[:]))
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "stand_in", Type: ebpf.CGroupSockAddr, AttachType: ebpf.AttachCGroupInet4Connect, License: "Apache-2.0", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, calls.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4), asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Imm(asm.R1, 1), asm.StoreXAdd(asm.R0, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.R6, ctxIP4, asm.Word),
		asm.LoadImm(asm.R2, ip(standInService), asm.DWord), asm.JNE.Reg(asm.R1, asm.R2, "others"),
		asm.LoadImm(asm.R2, ip(standInBackend), asm.DWord), asm.StoreMem(asm.R6, ctxIP4, asm.R2, asm.Word),
		asm.Ja.Label("pass"),
		asm.LoadImm(asm.R2, ip(culvertService), asm.DWord).WithSymbol("others"), asm.JNE.Reg(asm.R1, asm.R2, "pass"),
		asm.Mov.Imm(asm.R1, -int32(unix.EHOSTUNREACH)), asm.FnSetRetval.Call(),
		asm.Mov.Imm(asm.R0, 0), asm.Return(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("pass"), asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return standIn{p, calls}
}

// attach attaches it to a cgroup until the test ends: by bpf_link, or with BPF_F_ALLOW_MULTI as
// programs without bpf_link do.
func (s standIn) attach(t *testing.T, cgroup string, byLink bool) {
	t.Helper()
	dir, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	const allowMulti = 2 // BPF_F_ALLOW_MULTI (linux/bpf.h)
	raw := link.RawAttachProgramOptions{Target: int(dir.Fd()), Program: s.program, Attach: ebpf.AttachCGroupInet4Connect, Flags: allowMulti}
	if !byLink {
		if err := link.RawAttachProgram(raw); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			raw.Flags = 0
			if err := link.RawDetachProgram(link.RawDetachProgramOptions(raw)); err != nil {
				t.Error(err)
			}
		})
		return
	}
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: raw.Target, Program: s.program, Attach: raw.Attach})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// count returns how often it has run.
func (s standIn) count(t *testing.T) (n uint32) {
	t.Helper()
	if err := s.calls.Lookup(uint32(0), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBesideOthers: a program of another project, attached before or after Culvert's, sees each
// connection and balances its own Services, in pods with and without a VF. Culvert's Services work
// although that program refuses them, if Culvert's programs come first. They do if the kernel can
// order links, or else if they were attached first. A restart of culvertd does not change this.
func TestBesideOthers(t *testing.T) {
	for _, byLink := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("by bpf_link %t, before Culvert %t", byLink, first), func(t *testing.T) { tryBeside(t, byLink, first) })
		}
	}
}

func tryBeside(t *testing.T, byLink, first bool) {
	w := newWorld(t)
	other := newStandIn(t)
	p, plain := w.pod("client", tenant, "172.16.91.1/32", standInBackend+"/32"), w.pod("plain", 0, standInBackend+"/32")
	w.serve(p, "172.16.91.1:80")
	w.serve(p, standInBackend+":80")
	w.serve(plain, standInBackend+":80")
	table := tableOf(p, frontend(balance.TCP, culvertService+":80"), ruleTo("172.16.91.1:80"))
	if first {
		other.attach(t, w.cgroup, byLink)
	}
	w.apply(w.open(), table)
	if !first {
		other.attach(t, w.cgroup, byLink)
	}
	for _, when := range []string{"attached", "after a restart"} {
		before := other.count(t)
		for _, from := range []balance.Pod{p, plain} {
			if who, _, err := w.call(from, standInService+":80"); err != nil || who != standInBackend+":80" {
				t.Errorf("%s: from %s the other's Service is answered by %q, %v", when, from.ID, who, err)
			}
		}
		who, _, err := w.call(p, culvertService+":80")
		if first && !canComeFirst(t, w) {
			if !errors.Is(err, unix.EHOSTUNREACH) {
				t.Errorf("%s: Culvert's Service: %q, %v; the other's refusal is expected", when, who, err)
			}
		} else if err != nil || who != "172.16.91.1:80" {
			t.Errorf("%s: Culvert's Service is answered by %q, %v", when, who, err)
		}
		if _, _, err := w.call(plain, culvertService+":80"); !errors.Is(err, unix.EHOSTUNREACH) {
			t.Errorf("%s: a pod without a VF at Culvert's Service: %v; want what the other says", when, err)
		}
		if ran := other.count(t) - before; ran != 4 {
			t.Errorf("%s: the other ran %d times for 4 connections", when, ran)
		}
		w.apply(w.open(), table)
	}
}

// canComeFirst reports whether the kernel can put a link before the existing ones.
func canComeFirst(t *testing.T, w *world) bool {
	t.Helper()
	dir, err := os.Open(w.cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: int(dir.Fd()), Program: newStandIn(t).program, Attach: ebpf.AttachCGroupInet4Connect, Flags: flagBefore})
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}

// TestBefore: a Balancer names the programs of other projects that the kernel runs before its own, and
// no others.
func TestBefore(t *testing.T) {
	w, _, table := newServed(t)
	b := w.open()
	rewriter := newRewriter(t, "192.0.2.1", "192.0.2.2")
	attach := func(flags uint32) {
		l, err := link.AttachRawLink(link.RawLinkOptions{Target: openCgroup(t, w.cgroup), Program: rewriter, Attach: ebpf.AttachCGroupInet4Connect, Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	orders := canComeFirst(t, w)
	if !orders { // Culvert cannot come before it either
		attach(0)
	}
	w.apply(b, table)
	if orders {
		if got := b.Before(); len(got) > 0 {
			t.Errorf("alone: %q", got)
		}
		attach(flagBefore)
	}
	newStandIn(t).attach(t, w.cgroup, true) // after Culvert's
	id, _ := idOf(rewriter)
	want := []string{fmt.Sprintf(`"rewriter" (eBPF program %d) at connect4`, id)}
	if diff := cmp.Diff(want, b.Before()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

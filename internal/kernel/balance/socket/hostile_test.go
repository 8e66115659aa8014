package socket

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// Attach flags of linux/bpf.h.
const (
	alone, allowOverride, allowMulti = 0, 1, 2
)

// newRewriter returns a program of another project that puts an address in the place of another at
// connect4.
func newRewriter(t *testing.T, from, to string) *ebpf.Program {
	t.Helper()
	ip := func(text string) int64 {
		a := netip.MustParseAddr(text).As4()
		return int64(binary.NativeEndian.Uint32(a[:]))
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "rewriter", Type: ebpf.CGroupSockAddr, AttachType: ebpf.AttachCGroupInet4Connect, License: "Apache-2.0", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, ctxIP4, asm.Word), asm.LoadImm(asm.R3, ip(from), asm.DWord), asm.JNE.Reg(asm.R2, asm.R3, "pass"),
		asm.LoadImm(asm.R2, ip(to), asm.DWord), asm.StoreMem(asm.R1, ctxIP4, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("pass"), asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// openCgroup opens a cgroup until the test ends.
func openCgroup(t *testing.T, path string) int {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return int(dir.Fd())
}

// attachRaw attaches a program at connect4 without bpf_link, until detach is called or the test ends.
func attachRaw(t *testing.T, p *ebpf.Program, cgroup string, flags uint32) (detach func()) {
	t.Helper()
	raw := link.RawAttachProgramOptions{Target: openCgroup(t, cgroup), Program: p, Attach: ebpf.AttachCGroupInet4Connect, Flags: flags}
	if err := link.RawAttachProgram(raw); err != nil {
		t.Fatal(err)
	}
	attached := true
	detach = func() {
		if raw.Flags = 0; attached {
			attached = false
			if err := link.RawDetachProgram(link.RawDetachProgramOptions(raw)); err != nil {
				t.Errorf("a program of another project is not there any more: %v", err)
			}
		}
	}
	t.Cleanup(detach)
	return detach
}

// sever detaches the program of a pinned link, as "bpftool link detach" does. Its pin stays.
func sever(t *testing.T, path string) {
	t.Helper()
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const linkDetach = 34 // BPF_LINK_DETACH (linux/bpf.h)
	attr := struct{ link uint32 }{uint32(l.(interface{ FD() int }).FD())}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, linkDetach, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)); errno != 0 {
		t.Fatal(errno)
	}
}

// foreign is the ClusterIP of a Service that the pod of newServed may not reach. It is an address of
// the pod.
const foreign = "10.96.0.2"

// newServed returns a pod and a table by which it reaches a backend at culvertService. The address
// of the Service is the pod's own, too, so that a connection that is not balanced fails at once.
func newServed(t *testing.T) (*world, balance.Pod, balance.Table) {
	t.Helper()
	w := newWorld(t)
	p := w.pod("client", tenant, "172.16.91.1/32", culvertService+"/32", foreign+"/32")
	w.serve(p, "172.16.91.1:80")
	return w, p, tableOf(p, frontend(balance.TCP, culvertService+":80"), ruleTo("172.16.91.1:80"))
}

// isServed fails the test unless the pod reaches the backend.
func isServed(t *testing.T, w *world, p balance.Pod, when string) {
	t.Helper()
	if who, _, err := w.call(p, culvertService+":80"); err != nil || who != "172.16.91.1:80" {
		t.Errorf("%s: answered by %q, %v", when, who, err)
	}
}

// TestLostPrograms: Apply attaches a program again that was detached outside Culvert, and says so
// once. So does the Apply of the next culvertd.
func TestLostPrograms(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, pin string){
		"its link is severed": sever,
		"its pin is removed": func(t *testing.T, pin string) {
			if err := os.Remove(pin); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, p, table := newServed(t)
			b := w.open()
			w.apply(b, table)
			lose(t, filepath.Join(w.dir, "connect4"))
			if err := b.Apply(table); err == nil || !strings.Contains(err.Error(), "connect4 was detached outside Culvert") || strings.Contains(err.Error(), "connect6") {
				t.Errorf("after the loss: %v", err)
			}
			isServed(t, w, p, "after the loss")
			w.apply(b, table)
		})
	}
	t.Run("while culvertd is away", func(t *testing.T) {
		w, p, table := newServed(t)
		w.apply(w.open(), table)
		sever(t, filepath.Join(w.dir, "connect4"))
		next := w.open()
		if err := next.Apply(table); err == nil || !strings.Contains(err.Error(), "connect4 was detached outside Culvert") {
			t.Errorf("after the loss: %v", err)
		}
		isServed(t, w, p, "after the loss")
		w.apply(next, table)
	})
}

// TestReplacedProgram: Culvert does not replace the program of a link that is not its own, not even
// in a link that is pinned at the path of its own. It says so, and the other hooks have their programs.
func TestReplacedProgram(t *testing.T) {
	w, _, table := newServed(t)
	other := newRewriter(t, "192.0.2.1", "192.0.2.2")
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: openCgroup(t, w.cgroup), Program: other, Attach: ebpf.AttachCGroupInet4Connect})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.MkdirAll(w.dir, 0o700), l.Pin(filepath.Join(w.dir, "connect4"))); err != nil {
		t.Fatal(err)
	}
	if err := w.open().Apply(table); err == nil || !strings.Contains(err.Error(), `"rewriter"`) || strings.Contains(err.Error(), "connect6") {
		t.Errorf("a foreign link is pinned at Culvert's path: %v", err)
	}
	info, err := l.Info()
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := idOf(other); info.Program != want {
		t.Errorf("the foreign link runs program %d, and ran %d", info.Program, want)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "getpeername6")); err != nil {
		t.Error(err)
	}
}

// TestProgramThatAdmitsNoOther: where a program of another project is attached alone, Open refuses,
// so that another mechanism balances, and says why. That program stays.
func TestProgramThatAdmitsNoOther(t *testing.T) {
	for name, flags := range map[string]uint32{"alone": alone, "to be overridden": allowOverride} {
		t.Run(name, func(t *testing.T) {
			w, p, table := newServed(t)
			detach := attachRaw(t, newRewriter(t, "192.0.2.1", "192.0.2.2"), w.cgroup, flags)
			b, err := Open(w.dir, w.cgroup)
			if err == nil {
				w.check(b.Close())
			}
			if err == nil || !strings.Contains(err.Error(), "connect4") || !strings.Contains(err.Error(), "BPF_F_ALLOW_MULTI") {
				t.Errorf("Open: %v", err)
			}
			detach()
			w.apply(w.open(), table)
			isServed(t, w, p, "once the other is gone")
		})
	}
}

// TestHiddenPins: a BPF file system is mounted over Culvert's pins. The next culvertd does not see the
// programs of the former one, which run by old tables, and says so until they are detached.
func TestHiddenPins(t *testing.T) {
	w, _, table := newServed(t)
	w.apply(w.open(), table)
	if err := unix.Mount("culvert-test", filepath.Dir(w.dir), "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.check(unix.Unmount(filepath.Dir(w.dir), unix.MNT_DETACH)) })
	next := w.open()
	for range 2 {
		if err := next.Apply(table); err == nil || !strings.Contains(err.Error(), "for connect4 runs too, by old tables") {
			t.Errorf("the former programs run: %v", err)
		}
	}
}

// TestDetachByProgram: a project that detaches every program of a cgroup, as Cilium does when its
// socket load balancer is turned off, cannot detach Culvert's: these have links.
func TestDetachByProgram(t *testing.T) {
	w, p, table := newServed(t)
	w.apply(w.open(), table)
	cgroup := openCgroup(t, w.cgroup)
	for _, h := range hooks {
		there, err := link.QueryPrograms(link.QueryOptions{Target: cgroup, Attach: h.attach})
		if err != nil || len(there.Programs) != 1 {
			t.Fatalf("%s: %+v, %v", h.name, there, err)
		}
		program, err := ebpf.NewProgramFromID(there.Programs[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := link.RawDetachProgram(link.RawDetachProgramOptions{Target: cgroup, Program: program, Attach: h.attach}); err == nil {
			t.Errorf("%s: detached", h.name)
		}
		w.check(program.Close())
	}
	isServed(t, w, p, "afterwards")
}

// TestI9RewrittenAddresses: a program that runs before Culvert's rewrites addresses. It is attached
// with BPF_F_BEFORE, or to a cgroup further down, where it may be the only one. Culvert balances by
// the new address. A pod cannot reach a foreign Service by another address.
func TestI9RewrittenAddresses(t *testing.T) {
	const alias, foreignAlias = "192.0.2.1", "192.0.2.2"
	for name, attach := range map[string]func(*testing.T, *world, *ebpf.Program){
		"before Culvert's": func(t *testing.T, w *world, p *ebpf.Program) {
			if !canComeFirst(t, w) {
				t.Skip("this kernel refuses BPF_F_BEFORE for cgroups, so no program can be put before Culvert's")
			}
			l, err := link.AttachRawLink(link.RawLinkOptions{Target: openCgroup(t, w.cgroup), Program: p, Attach: ebpf.AttachCGroupInet4Connect, Flags: flagBefore})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		},
		"alone in a cgroup further down": func(t *testing.T, w *world, p *ebpf.Program) { attachBelow(t, w, p, alone) },
		"there to be overridden":         func(t *testing.T, w *world, p *ebpf.Program) { attachBelow(t, w, p, allowOverride) },
		"beside others further down":     func(t *testing.T, w *world, p *ebpf.Program) { attachBelow(t, w, p, allowMulti) },
	} {
		for to, from := range map[string]string{culvertService: alias, foreign: foreignAlias} {
			t.Run(name+", to "+to, func(t *testing.T) {
				w, p, table := newServed(t)
				table.Views[balance.Foreign] = balance.View{frontend(balance.TCP, foreign+":80"): ruleTo()}
				w.serve(p, foreign+":80") // answers a connection that is not refused
				w.apply(w.open(), table)
				attach(t, w, newRewriter(t, from, to))
				who, _, err := w.call(p, from+":80")
				if to == foreign {
					if !isRefused(err) {
						t.Errorf("a foreign Service: answered by %q, %v", who, err)
					}
				} else if err != nil || who != "172.16.91.1:80" {
					t.Errorf("answered by %q, %v", who, err)
				}
			})
		}
	}
}

// attachBelow moves this process into a child of the test's cgroup, and attaches a program there.
func attachBelow(t *testing.T, w *world, p *ebpf.Program, flags uint32) {
	t.Helper()
	below := filepath.Join(w.cgroup, "below")
	w.check(os.Mkdir(below, 0o700))
	w.join(below)
	t.Cleanup(func() {
		w.join(w.cgroup)
		w.removeCgroup(below)
	})
	attachRaw(t, p, below, flags)
}

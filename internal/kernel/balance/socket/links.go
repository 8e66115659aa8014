package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// ownPrefix begins the names of Culvert's programs. The kernel keeps 15 bytes of a name.
const ownPrefix = "culvert_"

// flagBefore is BPF_F_BEFORE (linux/bpf.h): a program comes before the existing programs. Links to
// cgroups have it since Linux 6.17; elsewhere the program that was attached first comes first.
// Cilium's socket load balancer refuses Services that have no backends for it, so Culvert has to
// come first.
const flagBefore = 1 << 3

// attach makes Culvert's programs run at all hooks. It replaces the programs that an earlier culvertd
// attached, each in one step without a gap. Of other projects it changes no program and no link. The
// error names each program that was detached outside Culvert; attach has attached it again.
func (b *Balancer) attach() error {
	cgroup, err := os.Open(b.cgroup)
	if err != nil {
		return fmt.Errorf("attach eBPF programs: %w", err)
	}
	defer cgroup.Close()
	var failed, lost []error
	for i, h := range hooks {
		wasLost, err := b.attachOne(h, b.programs[i], int(cgroup.Fd()))
		if err != nil {
			failed = append(failed, fmt.Errorf("attach the eBPF program for %s to %s: %w", h.name, b.cgroup, err))
		} else if wasLost {
			lost = append(lost, fmt.Errorf("the eBPF program for %s was detached outside Culvert, so connections were not balanced for a time; culvertd attached it again", h.name))
		}
		lost = append(lost, b.findStale(h, b.programs[i], int(cgroup.Fd())))
	}
	if len(failed) == 0 && !b.attached {
		b.attached = true
		failed = append(failed, b.removeFormer())
	}
	return errors.Join(append(failed, lost...)...)
}

// attachOne makes the pinned link of a hook run a program. It reports whether the program or the
// link was lost: another program has severed the link, or removed its pin since the first Apply.
func (b *Balancer) attachOne(h hook, p *ebpf.Program, cgroup int) (lost bool, err error) {
	path := filepath.Join(b.dir, h.name)
	pinned, err := link.LoadPinnedLink(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return b.attached, attachNew(h, p, cgroup, path)
	}
	if err != nil {
		return false, err
	}
	defer pinned.Close()
	info, err := pinned.Info()
	if err != nil {
		return false, err
	}
	if at := info.Cgroup(); at != nil && at.CgroupId == 0 { // BPF_LINK_DETACH severed it for good
		if err := os.Remove(path); err != nil {
			return true, err
		}
		return true, attachNew(h, p, cgroup, path)
	}
	if id, known := idOf(p); known && id == info.Program {
		return false, nil
	}
	name, err := nameOf(info.Program)
	if err != nil {
		return false, err
	}
	if !strings.HasPrefix(name, ownPrefix) {
		return false, fmt.Errorf("%s is a link with a program of another project, %q: move its pin elsewhere, or remove it", path, name)
	}
	return false, pinned.Update(p)
}

// attachNew attaches a program by a new link, and pins the link. Without its pin the kernel would
// detach it again.
func attachNew(h hook, p *ebpf.Program, cgroup int, path string) error {
	l, err := makeLink(h, p, cgroup)
	if err != nil {
		return err
	}
	return errors.Join(l.Pin(path), l.Close())
}

// makeLink attaches a program, before all others if the kernel can order links.
func makeLink(h hook, p *ebpf.Program, cgroup int) (link.Link, error) {
	options := link.RawLinkOptions{Target: cgroup, Program: p, Attach: h.attach, Flags: flagBefore}
	l, err := link.AttachRawLink(options)
	if errors.Is(err, unix.EINVAL) { // the kernel knows no order of links
		options.Flags = 0
		l, err = link.AttachRawLink(options)
	}
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("%w: a program of another project is attached there and admits no others; attach that one with BPF_F_ALLOW_MULTI", err)
	}
	return l, err
}

// checkHooks returns an error if the kernel does not attach the programs. It attaches them for a
// moment, except where an earlier culvertd did. Where it fails, another mechanism can balance.
func (b *Balancer) checkHooks() error {
	cgroup, err := os.Open(b.cgroup)
	if err != nil {
		return err
	}
	defer cgroup.Close()
	for i, h := range hooks {
		if _, err := os.Lstat(filepath.Join(b.dir, h.name)); err == nil {
			continue
		}
		l, err := makeLink(h, b.programs[i], int(cgroup.Fd()))
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return fmt.Errorf("attach the eBPF program for %s to %s: %w", h.name, b.cgroup, err)
		}
	}
	return nil
}

// findStale returns an error if another program of Culvert runs at a hook. It is one whose pin culvertd
// does not see, for instance since a BPF file system was mounted over it. It balances by tables that
// culvertd does not keep. culvertd detaches no program that it did not attach.
func (b *Balancer) findStale(h hook, p *ebpf.Program, cgroup int) error {
	there, err := link.QueryPrograms(link.QueryOptions{Target: cgroup, Attach: h.attach})
	if err != nil {
		return fmt.Errorf("list the eBPF programs for %s: %w", h.name, err)
	}
	own, _ := idOf(p)
	var errs []error
	for _, other := range there.Programs {
		name, err := nameOf(other.ID)
		if err == nil && other.ID != own && strings.HasPrefix(name, ownPrefix) {
			errs = append(errs, fmt.Errorf(`an earlier culvertd's eBPF program %d for %s runs too, by old tables: find its link by "bpftool link", and end it by "bpftool link detach id LINK"`, other.ID, h.name))
		}
	}
	return errors.Join(errs...)
}

// queryEffective is BPF_F_QUERY_EFFECTIVE (linux/bpf.h): the query returns the programs in the order in
// which the kernel runs them, those of parent cgroups included.
const queryEffective = 1 << 0

// Before names the programs of other projects that run before Culvert's for processes of the cgroup. They
// may refuse a connection or change its address before Culvert sees it. Programs of cgroups further
// down, which run earlier still, are not among them.
func (b *Balancer) Before() (names []string) {
	cgroup, err := os.Open(b.cgroup)
	if err != nil {
		return nil // Apply returns the error
	}
	defer cgroup.Close()
	for i, h := range hooks {
		there, err := link.QueryPrograms(link.QueryOptions{Target: int(cgroup.Fd()), Attach: h.attach, QueryFlags: queryEffective})
		own, known := idOf(b.programs[i])
		if err != nil || !known {
			continue
		}
		at := slices.IndexFunc(there.Programs, func(p link.AttachedProgram) bool { return p.ID == own })
		for _, p := range there.Programs[:max(at, 0)] {
			if name, err := nameOf(p.ID); err == nil && !strings.HasPrefix(name, ownPrefix) {
				names = append(names, fmt.Sprintf("%s (eBPF program %d) at %s", excerpt.Quote(name), p.ID, h.name))
			}
		}
	}
	return names
}

func idOf(p *ebpf.Program) (ebpf.ProgramID, bool) {
	info, err := p.Info()
	if err != nil {
		return 0, false
	}
	return info.ID()
}

// nameOf returns the name of a program that is loaded.
func nameOf(id ebpf.ProgramID) (string, error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "", fmt.Errorf("open eBPF program %d: %w", id, err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return "", fmt.Errorf("read eBPF program %d: %w", id, err)
	}
	return info.Name, nil
}

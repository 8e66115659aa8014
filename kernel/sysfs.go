package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/vf"
)

// tree is sysfs (Documentation/ABI/testing/sysfs-bus-pci and
// sysfs-class-net).
type tree struct{ root string }

// pci is the path of a file of a PCI function.
func (t tree) pci(addr vf.PCIAddr, file ...string) string {
	return t.root + "/bus/pci/devices/" + strings.Join(append([]string{addr.String()}, file...), "/")
}

// text reads a file of one line, without package os: that one would ask the
// runtime's poller to watch each file of sysfs, which costs more than reading
// it, and attach reads a dozen.
func text(path string) (string, error) {
	fail := func(op string, err error) (string, error) {
		return "", &fs.PathError{Op: op, Path: path, Err: err}
	}
	fd, err := retried(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return fail("open", err)
	}
	defer unix.Close(fd)
	var room [256]byte // most have less; a page would make each new goroutine's stack grow three times
	all := room[:0]
	for {
		n, err := retried(func() (int, error) { return unix.Read(fd, all[len(all):cap(all)]) })
		if err != nil {
			return fail("read", err)
		}
		all = all[:len(all)+n]
		if len(all) < cap(all) {
			return strings.TrimSpace(string(all)), nil
		}
		all = append(make([]byte, 0, 4*cap(all)), all...)
	}
}

// retried repeats a system call that a signal interrupted.
func retried(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// number reads a decimal number; otherwise where the file is not there or the
// driver has no value for it, which reads as EINVAL or EOPNOTSUPP.
func number(path string, otherwise int) (int, error) {
	s, err := text(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return otherwise, nil
	}
	if err != nil {
		return otherwise, err
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return otherwise, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// target is the last part of where a link points; empty when there is no link.
func target(path string) (string, error) {
	to, err := os.Readlink(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	switch last := filepath.Base(to); last {
	case "/", ".", "..":
		return "", fmt.Errorf("%s points to %q, which names nothing", path, to)
	default:
		return last, nil
	}
}

// count reads a number of VFs, which PCI holds in 16 bits (PCI-SIG SR-IOV 1.1,
// 3.3.5 to 3.3.7); 0 where number has its otherwise.
func count(path string) (int, error) {
	n, err := number(path, 0)
	if err == nil && (n < 0 || n > maxVFs) {
		return 0, fmt.Errorf("%s: %d: want a number from 0 to %d", path, n, maxVFs)
	}
	return n, err
}

const maxVFs = 1<<16 - 1

// names lists a directory, sorted; nothing when it is not there. It goes without
// package os as text does: most have one entry, and an attach lists ten.
func names(path string) ([]string, error) {
	fd, err := retried(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var out []string
	var page [1024]byte
	for {
		n, err := retried(func() (int, error) { return unix.ReadDirent(fd, page[:]) })
		if err != nil {
			return out, &fs.PathError{Op: "readdir", Path: path, Err: err}
		}
		if n <= 0 {
			slices.Sort(out)
			return out, nil
		}
		_, _, out = unix.ParseDirent(page[:n], -1, out)
	}
}

// function is a PCI function as sysfs shows it.
type function struct {
	PCI            vf.PCIAddr
	Vendor, Device string
	Driver         string
	NUMA           int
	IOMMUGroup     int
	ACPIIndex      uint32
}

// function reads a PCI function; vf.ErrNotFound when there is none. What could
// be read is returned with the error.
func (t tree) function(addr vf.PCIAddr) (function, error) {
	f := function{PCI: addr, NUMA: -1, IOMMUGroup: -1}
	if !exists(t.pci(addr)) {
		return f, fmt.Errorf("PCI device %s: %w", addr, vf.ErrNotFound)
	}
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	hex := func(file string) string {
		s, err := text(t.pci(addr, file))
		keep(err)
		return strings.TrimPrefix(s, "0x")
	}
	f.Vendor, f.Device = hex("vendor"), hex("device")

	var err error
	f.Driver, err = target(t.pci(addr, "driver"))
	keep(err)
	f.NUMA, err = number(t.pci(addr, "numa_node"), -1)
	keep(err)
	index, err := number(t.pci(addr, "acpi_index"), 0)
	keep(err)
	f.ACPIIndex = uint32(max(index, 0))
	group, err := target(t.pci(addr, "iommu_group"))
	keep(err)
	if group != "" {
		f.IOMMUGroup, err = strconv.Atoi(group)
		keep(err)
	}
	return f, errors.Join(errs...)
}

// virtfns lists the VFs of a PF by index, from its virtfnN links.
func (t tree) virtfns(pf vf.PCIAddr) (map[int]vf.PCIAddr, error) {
	entries, err := names(t.pci(pf))
	if err != nil {
		return nil, err
	}
	out := map[int]vf.PCIAddr{}
	var errs []error
	for _, name := range entries {
		digits, ok := strings.CutPrefix(name, "virtfn")
		index, err := strconv.ParseUint(digits, 10, 16)
		if !ok || err != nil {
			continue
		}
		addr, err := t.link(t.pci(pf, name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[int(index)] = addr
	}
	return out, errors.Join(errs...)
}

// link is the PCI address that a link points to.
func (t tree) link(path string) (vf.PCIAddr, error) {
	to, err := os.Readlink(path)
	if err != nil {
		return vf.PCIAddr{}, err
	}
	addr, err := vf.ParsePCIAddr(filepath.Base(to))
	if err != nil {
		return vf.PCIAddr{}, fmt.Errorf("%s: %w", path, err)
	}
	if addr.IsZero() {
		return vf.PCIAddr{}, fmt.Errorf("%s: %w: it points to %s, which is a host bridge", path, vf.ErrInvalid, to)
	}
	return addr, nil
}

// physfn says which VF of which PF addr is: the PF from its physfn link, the
// index from the PF's virtfnN link that points back. sriov_offset and
// sriov_stride tell where that link should be; without them all are looked at.
func (t tree) physfn(addr vf.PCIAddr) (pf vf.PCIAddr, index int, err error) {
	pf, err = t.link(t.pci(addr, "physfn"))
	if errors.Is(err, fs.ErrNotExist) && !exists(t.pci(addr)) {
		return pf, 0, fmt.Errorf("VF %s: %w", addr, vf.ErrNotFound)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return pf, 0, fmt.Errorf("VF %s: it is no Virtual Function: %w", addr, vf.ErrNotFound)
	}
	if err != nil {
		return pf, 0, err
	}
	if guess, ok := t.guessIndex(pf, addr); ok {
		if at, err := t.link(t.pci(pf, "virtfn"+strconv.Itoa(guess))); err == nil && at == addr {
			return pf, guess, nil
		}
	}
	all, err := t.virtfns(pf)
	for i, at := range all {
		if at == addr {
			return pf, i, nil
		}
	}
	return pf, 0, errors.Join(fmt.Errorf("VF %s: PF %s does not list it: %w", addr, pf, vf.ErrNotFound), err)
}

// guessIndex computes a VF's index from its routing ID (PCIe base
// specification, 9.2.1.2: RID of VF n = RID of PF + offset + n*stride).
func (t tree) guessIndex(pf, addr vf.PCIAddr) (int, bool) {
	offset, err1 := number(t.pci(pf, "sriov_offset"), 0)
	stride, err2 := number(t.pci(pf, "sriov_stride"), 0)
	if err1 != nil || err2 != nil || stride <= 0 {
		return 0, false
	}
	rid := func(a vf.PCIAddr) int { return int(a.Bus)<<8 | int(a.Device)<<3 | int(a.Function) }
	index := (rid(addr) - rid(pf) - offset) / stride
	return index, index >= 0
}

// addresses lists the PCI functions of the host in bus order.
func (t tree) addresses() ([]vf.PCIAddr, error) {
	entries, err := names(filepath.Join(t.root, "bus/pci/devices"))
	if err != nil {
		return nil, err
	}
	var out []vf.PCIAddr
	for _, name := range entries {
		if addr, err := vf.ParsePCIAddr(name); err == nil {
			out = append(out, addr)
		}
	}
	slices.SortFunc(out, vf.PCIAddr.Compare)
	return out, nil
}

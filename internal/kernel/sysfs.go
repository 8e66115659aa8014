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

	"github.com/culvert-net/culvert/internal/vf"
)

// tree is sysfs (Documentation/ABI/testing/sysfs-bus-pci and
// sysfs-class-net).
type tree struct{ root string }

// pciPath returns the path of a file of a PCI function.
func (t tree) pciPath(addr vf.PCIAddr, file ...string) string {
	return t.root + "/bus/pci/devices/" + strings.Join(append([]string{addr.String()}, file...), "/")
}

// readLine reads a file of one line, without package os. Package os would add each file to the
// runtime's poller, which costs more than the read, and an attach reads a dozen files.
func readLine(path string) (string, error) {
	fail := func(op string, err error) (string, error) {
		return "", &fs.PathError{Op: op, Path: path, Err: err}
	}
	fd, err := retryInterrupted(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return fail("open", err)
	}
	defer unix.Close(fd)
	var room [256]byte // most have less; a page would make each new goroutine's stack grow three times
	all := room[:0]
	for {
		n, err := retryInterrupted(func() (int, error) { return unix.Read(fd, all[len(all):cap(all)]) })
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

// retryInterrupted repeats a system call that a signal interrupted.
func retryInterrupted(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// readNumber reads a decimal number. It returns otherwise if the file does not exist, or if the
// driver has no value for it and the read fails with EINVAL or EOPNOTSUPP.
func readNumber(path string, otherwise int) (int, error) {
	s, err := readLine(path)
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

// linkTarget returns the last element of the path that a link points to, or "" if there is no
// link.
func linkTarget(path string) (string, error) {
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

// readPCIeRoot returns the PCIe root complex that a PCI function is below, such as pci0000:00, or "" if
// it is below none, as functions of some virtual buses. The function's entry is a link to
// ../../../devices/ROOT/BRIDGE/.../FUNCTION; k8s.io/dynamic-resource-allocation/deviceattribute reads
// the standard attribute pcieRoot from it, too.
func (t tree) readPCIeRoot(addr vf.PCIAddr) string {
	to, err := os.Readlink(t.pciPath(addr))
	if err != nil {
		return "" // no link: the caller sees whether the function is there
	}
	_, below, _ := strings.Cut(to, "/devices/")
	root, rest, _ := strings.Cut(below, "/")
	if !strings.HasPrefix(root, "pci") || filepath.Base(rest) != addr.String() {
		return ""
	}
	return root
}

// readCount reads a number of VFs, which PCI holds in 16 bits (PCI-SIG SR-IOV 1.1, 3.3.5 to
// 3.3.7); it returns 0 if there is no file or the driver has no value.
func readCount(path string) (int, error) {
	n, err := readNumber(path, 0)
	if err == nil && (n < 0 || n > maxVFs) {
		return 0, fmt.Errorf("%s: %d: want a number from 0 to %d", path, n, maxVFs)
	}
	return n, err
}

const maxVFs = 1<<16 - 1

// listNames lists a directory, sorted. The list is empty if the directory does not exist. Like
// readLine it does without package os: most directories have one entry, and an attach lists ten.
func listNames(path string) ([]string, error) {
	fd, err := retryInterrupted(func() (int, error) {
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
		n, err := retryInterrupted(func() (int, error) { return unix.ReadDirent(fd, page[:]) })
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

// readFunction reads a PCI function; vf.ErrNotFound when there is none. The parts that could be
// read come with the error.
func (t tree) readFunction(addr vf.PCIAddr) (function, error) {
	f := function{PCI: addr, NUMA: -1, IOMMUGroup: -1}
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	if _, err := os.Stat(t.pciPath(addr)); isUnread(err) {
		return f, err
	} else if err != nil {
		return f, fmt.Errorf("PCI device %s: %w", addr, vf.ErrNotFound)
	}
	hex := func(file string) string {
		s, err := readLine(t.pciPath(addr, file))
		keep(err)
		return strings.TrimPrefix(s, "0x")
	}
	f.Vendor, f.Device = hex("vendor"), hex("device")

	var err error
	f.Driver, err = linkTarget(t.pciPath(addr, "driver"))
	keep(err)
	f.NUMA, err = readNumber(t.pciPath(addr, "numa_node"), -1)
	keep(err)
	index, err := readNumber(t.pciPath(addr, "acpi_index"), 0)
	keep(err)
	f.ACPIIndex = uint32(max(index, 0))
	group, err := linkTarget(t.pciPath(addr, "iommu_group"))
	keep(err)
	if group != "" {
		f.IOMMUGroup, err = strconv.Atoi(group)
		keep(err)
	}
	return f, errors.Join(errs...)
}

// listVFs lists the VFs of a PF by index, from its virtfnN links.
func (t tree) listVFs(pf vf.PCIAddr) (map[int]vf.PCIAddr, error) {
	entries, err := listNames(t.pciPath(pf))
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
		addr, err := t.linkedAddr(t.pciPath(pf, name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[int(index)] = addr
	}
	return out, errors.Join(errs...)
}

// linkedAddr returns the PCI address that a link points to.
func (t tree) linkedAddr(path string) (vf.PCIAddr, error) {
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

// findPF returns the PF and the index of the VF at addr. The PF comes from the VF's physfn link,
// and the index from the PF's virtfnN link that points back. sriov_offset and sriov_stride show
// which link that should be; without them findPF reads all links.
func (t tree) findPF(addr vf.PCIAddr) (pf vf.PCIAddr, index int, err error) {
	pf, err = t.linkedAddr(t.pciPath(addr, "physfn"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Stat(t.pciPath(addr)); isUnread(gone) {
			return pf, 0, gone
		} else if gone != nil {
			return pf, 0, fmt.Errorf("VF %s: %w", addr, vf.ErrNotFound)
		}
		return pf, 0, fmt.Errorf("VF %s: it is no Virtual Function: %w", addr, vf.ErrNotFound)
	}
	if err != nil {
		return pf, 0, err
	}
	if guess, ok := t.guessIndex(pf, addr); ok {
		if at, err := t.linkedAddr(t.pciPath(pf, "virtfn"+strconv.Itoa(guess))); err == nil && at == addr {
			return pf, guess, nil
		}
	}
	all, err := t.listVFs(pf)
	for i, at := range all {
		if at == addr {
			return pf, i, nil
		}
	}
	if err != nil { // the list may lack it
		return pf, 0, fmt.Errorf("VF %s: the VFs of PF %s: %w", addr, pf, err)
	}
	return pf, 0, fmt.Errorf("VF %s: PF %s does not list it: %w", addr, pf, vf.ErrNotFound)
}

// guessIndex computes a VF's index from its routing ID (PCIe base
// specification, 9.2.1.2: RID of VF n = RID of PF + offset + n*stride).
func (t tree) guessIndex(pf, addr vf.PCIAddr) (int, bool) {
	offset, err1 := readNumber(t.pciPath(pf, "sriov_offset"), 0)
	stride, err2 := readNumber(t.pciPath(pf, "sriov_stride"), 0)
	if err1 != nil || err2 != nil || stride <= 0 {
		return 0, false
	}
	rid := func(a vf.PCIAddr) int { return int(a.Bus)<<8 | int(a.Device)<<3 | int(a.Function) }
	index := (rid(addr) - rid(pf) - offset) / stride
	return index, index >= 0
}

// listFunctions lists the PCI functions of the host in bus order.
func (t tree) listFunctions() ([]vf.PCIAddr, error) {
	entries, err := listNames(filepath.Join(t.root, "bus/pci/devices"))
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

package kernel

import (
	"bytes"
	"errors"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// ErrorReader reads the counters of errors that sysfs has of PFs and VFs. Its caller reads them
// each second, so it reads the counters of VFs only if the root port above them has received an
// error, and at every fullRead-th call: firmware that handles errors first does not count them at
// the root port. Make one with NewErrorReader; one goroutine may call its methods.
type ErrorReader struct {
	sys   tree
	calls int
	roots map[vf.PCIAddr]rootPort // by PF
}

// fullRead is how many calls of Read share one read of all VFs.
const fullRead = 60

// rootPort is the port of the host that a PF is behind.
type rootPort struct {
	path     string // empty if no port above the PF has counters
	received [3]uint64
	// changed is whether the last call found more errors. The kernel counts an error here before it
	// counts it at the device (aer_isr_one_error).
	changed bool
}

// NewErrorReader returns a reader of this host's counters.
func (k *Kernel) NewErrorReader() *ErrorReader {
	return &ErrorReader{sys: k.sys, roots: map[vf.PCIAddr]rootPort{}}
}

// Read returns the counts of the PFs that have VFs, and of the VFs that may have new errors. It
// leaves out a device whose counters cannot be read. A counter that does not exist is 0. Read does
// not see the transmit queues of VFs: their owners have them in other netns, and free VFs are down.
func (r *ErrorReader) Read(pfs []vf.PF) map[vf.PCIAddr]vf.ErrorCounts {
	out := map[vf.PCIAddr]vf.ErrorCounts{}
	full := r.calls%fullRead == 0
	r.calls++
	for _, pf := range pfs {
		if len(pf.VFs) == 0 {
			continue
		}
		if counts, err := r.sys.readErrors(pf.PCI, pf.Name); err == nil {
			out[pf.PCI] = counts
		}
		if !r.hasReceived(pf.PCI, full) && !full {
			continue
		}
		for _, v := range pf.VFs {
			if counts, err := r.sys.readErrors(v.PCI, ""); err == nil {
				out[v.PCI] = counts
			}
		}
	}
	return out
}

// hasReceived reports whether the root port above a PF has received errors since the call before
// the last one. It also returns true if no port above the PF counts errors. If find is set, it
// looks for the port again.
func (r *ErrorReader) hasReceived(pf vf.PCIAddr, find bool) bool {
	last, known := r.roots[pf]
	now := rootPort{path: last.path}
	if !known || find { // PCI buses may have other numbers after a hot-plug
		now.path = r.sys.findRootPort(pf)
	}
	for i, file := range [...]string{"cor", "nonfatal", "fatal"} {
		if now.path != "" {
			now.received[i], _ = readLast(unix.AT_FDCWD, now.path+"/aer_rootport_total_err_"+file)
		}
	}
	now.changed = known && now.received != last.received
	r.roots[pf] = now
	return now.path == "" || now.changed || last.changed
}

// findRootPort returns the folder of the port above a PCI function that counts errors: sysfs has
// a device in the folder of the bridge above it.
func (t tree) findRootPort(addr vf.PCIAddr) string {
	dir, err := filepath.EvalSymlinks(t.pciPath(addr))
	if err != nil {
		return ""
	}
	for len(dir) > len(t.root) {
		if fileExists(filepath.Join(dir, "aer_rootport_total_err_cor")) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// readErrors reads the counters of Advanced Error Reporting of a PCI function, and of the transmit
// queues of its netdevice, if name is not empty
// (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats and sysfs-class-net-queues).
func (t tree) readErrors(addr vf.PCIAddr, name string) (c vf.ErrorCounts, err error) {
	for file, to := range map[string]*uint64{"aer_dev_correctable": &c.Correctable, "aer_dev_nonfatal": &c.Nonfatal, "aer_dev_fatal": &c.Fatal} {
		if *to, err = readLast(unix.AT_FDCWD, t.pciPath(addr, file)); err != nil && !errors.Is(err, unix.ENOENT) {
			return c, err
		}
	}
	if name == "" {
		return c, nil
	}
	c.TxTimeouts, err = readTxTimeouts(t.pciPath(addr, "net", name, "queues"))
	return c, err
}

// readTxTimeouts adds up how often each transmit queue in a folder did not send in time. A PF may
// have a queue for each CPU, and the kernel looks up a short path faster.
func readTxTimeouts(folder string) (sum uint64, err error) {
	dir, err := retryInterrupted(func() (int, error) { return unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if errors.Is(err, unix.ENOENT) && fileExists(filepath.Dir(folder)) {
		return 0, nil // this kernel has no such counters
	}
	if err != nil {
		return 0, err // the netdevice was renamed: 0 would make all old time-outs new ones
	}
	defer unix.Close(dir)
	for queue := 0; ; queue++ {
		n, err := readLast(dir, "tx-"+strconv.Itoa(queue)+"/tx_timeout")
		if errors.Is(err, unix.ENOENT) {
			return sum, nil
		}
		if err != nil {
			return 0, err
		}
		sum += n
	}
}

// readLast reads the number at the end of a file: of aer_dev_* that is the total. A relative path
// begins at the folder dir. Like readLine it does without package os.
func readLast(dir int, path string) (uint64, error) {
	fd, err := retryInterrupted(func() (int, error) { return unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var room [1024]byte // aer_dev_nonfatal and aer_dev_fatal have some 500 bytes
	end, err := retryInterrupted(func() (int, error) { return unix.Read(fd, room[:]) })
	if err != nil {
		return 0, err
	}
	return lastNumber(room[:end])
}

// lastNumber returns the decimal number that ends a text.
func lastNumber(text []byte) (uint64, error) {
	text = bytes.TrimRight(text, "\n ")
	begin := len(text)
	for begin > 0 && text[begin-1] >= '0' && text[begin-1] <= '9' {
		begin--
	}
	if begin == len(text) {
		return 0, errors.New("no number")
	}
	return strconv.ParseUint(string(text[begin:]), 10, 64)
}

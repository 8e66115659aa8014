package kernel

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// carriers has what Carrier keeps of each PF. The zero value is ready.
type carriers struct {
	mu sync.Mutex // guards of
	of map[vf.PCIAddr]*carrierFiles
}

// carrierFiles has open files of sysfs of a netdevice. The kernel changes the carrier and counts the
// change, so an even number of changes later the carrier is as it was
// (netif_carrier_off, net/sched/sch_generic.c). Reading the count and the flags takes no lock. Reading
// the file carrier waits for the lock that every change of a link holds (carrier_show since Linux 6.8,
// kernel commit facd15dfd691), for seconds while a driver closes a PF. It fails while the netdevice
// is down. So it is read once, when the netdevice is up.
type carrierFiles struct {
	flags, changes, carrier *os.File

	known bool   // carrier was read
	count uint64 // of changes when carrier was read
	up    bool   // the carrier at that time
}

// Carrier reports whether the netdevice of a PF has carrier. It waits for a lock of the kernel only in
// the first call that finds the PF up, so that it can be called every few milliseconds. A PF that is
// down, or that is gone, or that has no netdevice, has no carrier.
func (k *Kernel) Carrier(pf vf.PCIAddr) (bool, error) {
	k.carriers.mu.Lock()
	defer k.carriers.mu.Unlock()
	if f := k.carriers.of[pf]; f != nil {
		up, err := f.readCarrier()
		if err == nil {
			return up, nil
		}
		f.closeFiles() // the netdevice went, and there may be another one
		delete(k.carriers.of, pf)
	}
	f, err := k.openCarrier(pf)
	if err == nil && f != nil {
		if k.carriers.of == nil {
			k.carriers.of = map[vf.PCIAddr]*carrierFiles{}
		}
		k.carriers.of[pf] = f
		up, err := f.readCarrier()
		return up, ignoreGone(err)
	}
	return false, ignoreGone(err)
}

// ignoreGone returns nil for the error of a netdevice that was removed or taken down since Carrier
// found it (carrier_show).
func ignoreGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// openCarrier opens the files of a PF's netdevice. It returns nil if there is no netdevice.
func (k *Kernel) openCarrier(pf vf.PCIAddr) (_ *carrierFiles, err error) {
	n, ok, err := k.sys.findNetdev(pf)
	if err != nil || !ok {
		return nil, err
	}
	f := &carrierFiles{}
	defer func() {
		if err != nil {
			f.closeFiles()
		}
	}()
	if f.flags, err = os.Open(k.sys.pciPath(pf, "net", n.Name, "flags")); err != nil {
		return nil, err
	}
	if f.changes, err = os.Open(k.sys.pciPath(pf, "net", n.Name, "carrier_changes")); err != nil {
		return nil, err
	}
	if f.carrier, err = os.Open(k.sys.pciPath(pf, "net", n.Name, "carrier")); err != nil {
		return nil, err
	}
	return f, nil
}

// readCarrier reads the present carrier.
func (f *carrierFiles) readCarrier() (bool, error) {
	flags, err := readOpenFile(f.flags)
	if err != nil || flags&unix.IFF_UP == 0 {
		return false, err
	}
	count, err := readOpenFile(f.changes)
	for err == nil && !f.known { // until the carrier did not change between two readings of the count
		var carrier uint64
		if carrier, err = readOpenFile(f.carrier); err != nil {
			break
		}
		f.up, f.count = carrier == 1, count
		count, err = readOpenFile(f.changes)
		f.known = count == f.count
	}
	return f.up == ((count-f.count)%2 == 0), err
}

func (f *carrierFiles) closeFiles() {
	for _, file := range []*os.File{f.flags, f.changes, f.carrier} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// readOpenFile reads the number that a file of sysfs has now.
func readOpenFile(f *os.File) (uint64, error) {
	var b [32]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b[:n])), 0, 64)
}

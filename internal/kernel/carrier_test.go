package kernel

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/culvert-net/culvert/internal/vf"
)

// pfFiles are the files of a PF that is up and has carrier.
const pfFiles = "net/eth0/carrier 1\nnet/eth0/carrier_changes 3\nnet/eth0/flags 0x1003\nnet/eth0/ifindex 2\n"

// Carrier follows the count of changes. It reads the file carrier, which waits for a lock, only once
// for a netdevice.
func TestCarrier(t *testing.T) {
	sys := layOut(t, &txtar.Archive{Files: []txtar.File{{Name: "0000:01:00.0", Data: []byte(pfFiles)}}})
	k := New(Options{SysRoot: sys.root})
	pf := vf.PCIAddr{Bus: 1}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(sys.pciPath(pf, "net", "eth0", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(what string, want bool) {
		t.Helper()
		if got, err := k.Carrier(pf); err != nil || got != want {
			t.Errorf("%s: carrier %t, %v; want %t", what, got, err, want)
		}
	}
	read("at first", true)
	write("carrier", "not read")
	read("without a change", true)
	write("carrier_changes", "4\n")
	read("lost", false)
	write("carrier_changes", "9\n")
	read("back, and lost and back twice", true)
	write("flags", "0x1002\n")
	read("down", false)
	write("carrier_changes", "10\n")
	write("flags", "0x1003\n")
	read("up, and lost meanwhile", false)

	write("carrier", "1\n")
	closeAll(t, k, pf) // the next read fails, as it does after a netdevice is removed
	read("with another netdevice", true)
	closeAll(t, k, pf)
	if err := os.RemoveAll(sys.pciPath(pf, "net")); err != nil {
		t.Fatal(err)
	}
	read("without a netdevice", false)
	if len(k.carriers.of) != 0 {
		t.Errorf("files are kept: %v", k.carriers.of)
	}
}

// Reading the file carrier of a PF that is down fails with EINVAL, and takes the kernel's lock of the
// links each time. So Carrier does not read it before the PF is up, and opens no file twice.
func TestCarrierOfAPFThatIsDown(t *testing.T) {
	const files = "net/eth0/carrier/a_directory 1\nnet/eth0/carrier_changes 3\nnet/eth0/flags 0x1002\nnet/eth0/ifindex 2\n"
	sys := layOut(t, &txtar.Archive{Files: []txtar.File{{Name: "0000:01:00.0", Data: []byte(files)}}})
	k := New(Options{SysRoot: sys.root})
	pf := vf.PCIAddr{Bus: 1}
	var first *carrierFiles
	for range 3 {
		if up, err := k.Carrier(pf); up || err != nil {
			t.Errorf("down: carrier %t, %v", up, err)
		}
		if first == nil {
			first = k.carriers.of[pf]
		}
		if f := k.carriers.of[pf]; f == nil || f != first {
			t.Errorf("the open files %p became %p", first, f)
		}
	}
	if err := os.WriteFile(sys.pciPath(pf, "net", "eth0", "flags"), []byte("0x1003\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if up, err := k.Carrier(pf); err == nil {
		t.Errorf("up: carrier %t, and the file carrier was not read", up)
	}
}

func closeAll(t *testing.T, k *Kernel, pf vf.PCIAddr) {
	t.Helper()
	for _, f := range []*os.File{k.carriers.of[pf].flags, k.carriers.of[pf].changes} {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that has no number is an error, and not a lost carrier.
func TestCarrierThatCannotBeRead(t *testing.T) {
	sys := layOut(t, &txtar.Archive{Files: []txtar.File{{Name: "0000:01:00.0", Data: []byte("net/eth0/carrier 1\nnet/eth0/carrier_changes many\nnet/eth0/flags 0x1003\nnet/eth0/ifindex 2\n")}}})
	k := New(Options{SysRoot: sys.root})
	if up, err := k.Carrier(vf.PCIAddr{Bus: 1}); err == nil {
		t.Errorf("carrier %t", up)
	}
}

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// machine lays out PFs with VFs, each PF behind a root port, with the counters that sysfs has.
func machine(tb testing.TB, pfs, vfs, queues int) (tree, []vf.PF) {
	tb.Helper()
	root := tb.TempDir()
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	function := func(port string, addr vf.PCIAddr) string {
		dir := filepath.Join(root, "devices/pci0000:00", port, addr.String())
		for _, kind := range []string{"correctable", "nonfatal", "fatal"} {
			write(filepath.Join(dir, "aer_dev_"+kind), aerText(0))
		}
		link := filepath.Join(root, "bus/pci/devices", addr.String())
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.Symlink(dir, link); err != nil {
			tb.Fatal(err)
		}
		return dir
	}
	var out []vf.PF
	for i := range pfs {
		port := fmt.Sprintf("0000:00:%02x.0", i+1)
		for _, kind := range []string{"cor", "nonfatal", "fatal"} {
			write(filepath.Join(root, "devices/pci0000:00", port, "aer_rootport_total_err_"+kind), "0\n")
		}
		pf := vf.PF{PCI: vf.PCIAddr{Bus: uint8(i + 1)}, Name: fmt.Sprintf("enp%ds0", i+1)}
		dir := function(port, pf.PCI)
		for q := range queues {
			write(filepath.Join(dir, "net", pf.Name, "queues", fmt.Sprintf("tx-%d", q), "tx_timeout"), "0\n")
		}
		for v := range vfs {
			addr := vf.PCIAddr{Bus: uint8(i + 1), Device: uint8(16 + v/8), Function: uint8(v % 8)}
			function(port, addr)
			pf.VFs = append(pf.VFs, vf.State{PCI: addr})
		}
		out = append(out, pf)
	}
	return tree{root}, out
}

// aerText returns the text of a file of counters: each kind of error with its count, and the total.
func aerText(n int) string {
	return fmt.Sprintf("Undefined 0\nDLP %d\nSDES 0\nTLP 0\nFCP 0\nTOTAL_ERR_FATAL %d\n", n, n)
}

// An ErrorReader reads the counters of a PF at each call. It reads those of the VFs at every
// fullRead-th call, and when the root port has received an error. It then reads them once more,
// since the kernel may count the error at the VF later.
func TestErrorReader(t *testing.T) {
	sys, pfs := machine(t, 2, 2, 3)
	pfs = append(pfs, vf.PF{PCI: vf.PCIAddr{Bus: 9}, Name: "none"}) // it has no VFs
	r := (&Kernel{sys: sys}).NewErrorReader()
	pf, other, first := pfs[0].PCI, pfs[1].PCI, pfs[0].VFs[0].PCI
	set := func(addr vf.PCIAddr, file, text string) {
		if err := os.WriteFile(sys.pciPath(addr, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// read returns the counts that are not zero, and how many devices were read.
	read := func() (map[vf.PCIAddr]vf.ErrorCounts, int) {
		all := r.Read(pfs)
		out := map[vf.PCIAddr]vf.ErrorCounts{}
		for addr, c := range all {
			if c != (vf.ErrorCounts{}) {
				out[addr] = c
			}
		}
		return out, len(all)
	}
	for _, s := range []struct {
		name    string
		do      func()
		want    map[vf.PCIAddr]vf.ErrorCounts
		devices int
	}{
		{"the first call reads all", func() {}, nil, 6},
		{"nothing new", func() {}, nil, 2},
		{"the PF has errors", func() {
			set(pf, "aer_dev_correctable", aerText(7))
			set(pf, "net/enp1s0/queues/tx-0/tx_timeout", "1\n")
			set(pf, "net/enp1s0/queues/tx-2/tx_timeout", "2\n")
			set(first, "aer_dev_fatal", aerText(4))
		}, map[vf.PCIAddr]vf.ErrorCounts{pf: {Correctable: 7, TxTimeouts: 3}}, 2},
		{"its root port has received one", func() { set(pf, "../aer_rootport_total_err_fatal", "1\n") },
			map[vf.PCIAddr]vf.ErrorCounts{pf: {Correctable: 7, TxTimeouts: 3}, first: {Fatal: 4}}, 4},
		{"the kernel counts it at the VF later", func() { set(first, "aer_dev_nonfatal", aerText(5)) },
			map[vf.PCIAddr]vf.ErrorCounts{pf: {Correctable: 7, TxTimeouts: 3}, first: {Fatal: 4, Nonfatal: 5}}, 4},
		{"nothing new, once more", func() {}, map[vf.PCIAddr]vf.ErrorCounts{pf: {Correctable: 7, TxTimeouts: 3}}, 2},
		{"the PF was renamed since it was listed", func() {
			if err := os.Rename(sys.pciPath(pf, "net/enp1s0"), sys.pciPath(pf, "net/lan0")); err != nil {
				t.Fatal(err)
			}
		}, nil, 1},
		{"the PF has its name again", func() {
			if err := os.Rename(sys.pciPath(pf, "net/lan0"), sys.pciPath(pf, "net/enp1s0")); err != nil {
				t.Fatal(err)
			}
		}, map[vf.PCIAddr]vf.ErrorCounts{pf: {Correctable: 7, TxTimeouts: 3}}, 2},
		{"a counter that cannot be read", func() { set(pf, "aer_dev_correctable", "?\n") }, nil, 1},
		{"no counters at all", func() {
			for _, kind := range []string{"correctable", "nonfatal", "fatal"} {
				if err := os.Remove(sys.pciPath(pf, "aer_dev_"+kind)); err != nil {
					t.Fatal(err)
				}
			}
		}, map[vf.PCIAddr]vf.ErrorCounts{pf: {TxTimeouts: 3}}, 2},
	} {
		s.do()
		got, devices := read()
		if s.want == nil {
			s.want = map[vf.PCIAddr]vf.ErrorCounts{}
		}
		if diff := cmp.Diff(s.want, got); diff != "" || devices != s.devices {
			t.Errorf("%s: %d devices, want %d (-want +got):\n%s", s.name, devices, s.devices, diff)
		}
	}
	for r.calls%fullRead != 0 {
		read()
	}
	if got, devices := read(); devices != 6 || got[first] != (vf.ErrorCounts{Nonfatal: 5, Fatal: 4}) {
		t.Errorf("call %d: %d devices: %v", r.calls, devices, got)
	}
	if err := os.Remove(sys.pciPath(other, "../aer_rootport_total_err_cor")); err != nil {
		t.Fatal(err)
	}
	r = (&Kernel{sys: sys}).NewErrorReader()
	read()
	if _, devices := read(); devices != 4 {
		t.Errorf("without counters of the second root port: %d devices, want 4", devices)
	}
}

// lastNumber reads the texts that sysfs has, and refuses other texts.
func TestLastNumber(t *testing.T) {
	for text, want := range map[string]uint64{"12\n": 12, "DLP 3\nTOTAL_ERR_FATAL 18446744073709551615\n": 1<<64 - 1, "0": 0} {
		if got, err := lastNumber([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %d %v", text, got, err)
		}
	}
	for _, text := range []string{"", "\n", "TOTAL", "18446744073709551616\n"} {
		if got, err := lastNumber([]byte(text)); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// BenchmarkErrorReader measures one call of Read for 4 PFs with 64 VFs and 64 transmit queues each,
// without new errors and when Read reads all VFs.
func BenchmarkErrorReader(b *testing.B) {
	sys, pfs := machine(b, 4, 64, 64)
	for _, full := range []bool{false, true} {
		b.Run(map[bool]string{false: "quiet", true: "all"}[full], func(b *testing.B) {
			r := (&Kernel{sys: sys}).NewErrorReader()
			before := processorTime(b)
			for b.Loop() {
				r.calls = 1
				if full {
					r.calls = 0
				}
				r.Read(pfs)
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(time.Microsecond)/float64(b.N), "cpu-µs/op")
		})
	}
}

// processorTime is the processor time of this process until now.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package kernel_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestLabMakeVFs(t *testing.T) {
	n := bareNode(t)
	pf := n.pfs[0].PCI
	if err := n.Do(n.context(), step.SetNumVFs{PF: pf, N: perPF + 1}); !errors.Is(err, vf.ErrUnable) || !errors.Is(err, unix.ERANGE) {
		t.Errorf("8 VFs of 7: %v", err)
	}
	for _, pf := range n.pfs {
		n.timed(step.SetNumVFs{PF: pf.PCI, N: perPF})
	}
	if err := n.Do(n.context(), step.SetNumVFs{PF: pf, N: 3}); !errors.Is(err, unix.EBUSY) {
		t.Errorf("3 VFs where there are 7: %v", err)
	}
	n.do(step.SetNumVFs{PF: pf, N: perPF}) // as it is
	for _, pf := range n.pfs {
		n.timed(step.WaitCarrier{PF: pf.PCI}) // igb resets the port when it makes VFs
	}
	start := time.Now()
	n.read()
	t.Logf("%7.1f ms  PFs with %d VFs", float64(time.Since(start).Microseconds())/1000, 2*perPF)
	for i, pf := range n.pfs {
		want := vf.PFID{MAC: vf.MAC{0x52, 0x54, 0, 0xc1, 1, byte(i + 1)}}
		if pf.ID != want && !pf.ID.MAC.IsUnicast() {
			t.Errorf("PF %s is %s, want something like %s", pf.PCI, pf.ID, want)
		}
		if pf.Err != "" || len(pf.VFs) != perPF || pf.NumVFs != perPF || pf.TotalVFs != perPF || !pf.Up || !pf.Carrier ||
			pf.SpeedMbps != 1000 || pf.Driver != "igb" || pf.Autoprobe != vf.No || pf.MaxMTU < 9000 || pf.IOMMUGroup < 0 {
			t.Errorf("PF read as %+v", pf)
		}
		for j, v := range pf.VFs {
			if v.ID != (vf.ID{PF: pf.ID, Index: j}) || v.Driver != "" || v.Link != nil || v.Device != "10ca" || v.IOMMUGroup < 0 {
				t.Errorf("VF read as %+v", v)
			}
		}
	}
}

// With autoprobe off, the kernel binds a VF only by driver_override, or after autoprobe is switched
// on. Bind switches it on.
func TestLabBindWithAutoprobeOff(t *testing.T) {
	n := labNode(t)
	v := n.pfs[0].VFs[0].PCI
	n.do(step.Bind{VF: v}, step.Unbind{VF: v}) // loads the driver
	for _, file := range []string{"drivers_probe", "drivers/igbvf/bind"} {
		err := os.WriteFile(filepath.Join("/sys/bus/pci", file), []byte(v.String()), 0)
		t.Logf("writing %s: %v", file, err)
		if _, err := os.Readlink("/sys/bus/pci/devices/" + v.String() + "/driver"); err == nil {
			t.Errorf("%s bound the VF: the trap that Bind works around is gone", file)
		}
	}
	n.do(step.Bind{VF: v})
	if got := sysfs(t, n.pfs[0].PCI, "sriov_drivers_autoprobe"); got != "0" {
		t.Errorf("autoprobe is %s after Bind", got)
	}
	if got := sysfs(t, v, "driver_override"); got != "(null)" {
		t.Errorf("driver_override is %s after Bind", got)
	}
	n.do(step.Bind{VF: v}) // again: nothing to do
	if err := n.Do(n.context(), step.Bind{VF: v, Driver: vf.DriverVFIO}); err == nil {
		t.Error("a second driver was bound over the first")
	}
}

// vfio-pci binds to a model that its parameter ids= names, or its file new_id as here, before the driver
// that makes a netdevice if that one is loaded later. Bind then binds the driver that Culvert knows.
func TestLabBindWhereVFIOTakesTheModel(t *testing.T) {
	n := labNode(t)
	v := n.pfs[0].VFs[0].PCI
	modprobe := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("modprobe", args...).CombinedOutput(); err != nil {
			t.Fatalf("modprobe %v: %v: %s", args, err, out)
		}
	}
	modprobe("-r", "igbvf")
	modprobe("vfio-pci")
	write := func(file string) error {
		return os.WriteFile("/sys/bus/pci/drivers/vfio-pci/"+file, []byte("8086 10ca"), 0)
	}
	if err := write("new_id"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := write("remove_id"); err != nil {
			t.Error(err)
		}
	})
	n.do(step.Bind{VF: v})
	s := n.vf(0, 0, "")
	if s.Driver != "igbvf" || s.Link == nil {
		t.Errorf("VF read as %+v", s)
	}
	if got := sysfs(t, v, "driver_override"); got != "igbvf" {
		t.Errorf("driver_override is %s after Bind, so the next probe would take vfio-pci first", got)
	}
	n.do(step.Unbind{VF: v}, step.Bind{VF: v})
	if s := n.vf(0, 0, ""); s.Driver != "igbvf" || s.Link == nil {
		t.Errorf("bound again, VF read as %+v", s)
	}
	n.do(step.Unbind{VF: v}, step.Bind{VF: v, Driver: vf.DriverVFIO}, step.Unbind{VF: v}, step.Bind{VF: v})
	if s := n.vf(0, 0, ""); s.Driver != "igbvf" {
		t.Errorf("after vfio-pci, VF read as %+v", s)
	}
}

func TestLabBindAllAtOnce(t *testing.T) {
	n := labNode(t)
	for _, pf := range n.pfs {
		for i := range perPF {
			n.do(step.SetVFMAC{PF: pf.PCI, Index: i, MAC: vf.StableMAC(pf.ID, i)})
		}
	}
	start := time.Now()
	if err := n.bindAll(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%7.1f ms  %d binds at once", float64(time.Since(start).Microseconds())/1000, 2*perPF)
	for p, pf := range n.pfs {
		for i := range perPF {
			if s := n.vf(p, i, ""); s.Driver != "igbvf" || s.Link == nil || s.Link.MAC != vf.StableMAC(pf.ID, i) {
				t.Errorf("VF read as %+v, link %+v", s, s.Link)
			}
		}
		if got := sysfs(t, pf.PCI, "sriov_drivers_autoprobe"); got != "0" {
			t.Errorf("autoprobe of %s is %s afterwards", pf.Name, got)
		}
	}
	start = time.Now()
	n.read()
	t.Logf("%7.1f ms  PFs with %d netdevices", float64(time.Since(start).Microseconds())/1000, 2*perPF)
	for _, pf := range n.pfs {
		n.timed(step.SetNumVFs{PF: pf.PCI, N: 0})
	}
}

func TestLabVFIO(t *testing.T) {
	n := labNode(t)
	v := n.bound(0, 2)
	if err := n.Do(n.context(), step.Bind{VF: v.PCI, Driver: vf.DriverVFIO}); err == nil || !strings.Contains(err.Error(), "igbvf") {
		t.Errorf("vfio-pci over igbvf: %v", err)
	}
	n.timed(step.Unbind{VF: v.PCI})
	n.timed(step.Bind{VF: v.PCI, Driver: vf.DriverVFIO})
	s := n.vf(0, 2, "")
	if s.Driver != vf.DriverVFIO || s.Link != nil {
		t.Errorf("VF read as %+v", s)
	}
	if _, err := os.Stat("/dev/vfio"); err != nil {
		t.Error(err)
	}
	n.timed(step.Reset{VF: v.PCI})
	if after := n.vf(0, 2, ""); after.Admin != s.Admin || after.Driver != vf.DriverVFIO {
		t.Errorf("the reset of the function changed what the PF holds: %+v, before it %+v", after, s)
	}
	n.timed(step.Unbind{VF: v.PCI})
	n.timed(step.Unbind{VF: v.PCI}) // none is bound
	n.timed(step.Bind{VF: v.PCI})
	s = n.vf(0, 2, "")
	if s.Driver != "igbvf" || s.Link == nil || s.Link.MAC != s.Admin.MAC {
		t.Errorf("VF read as %+v", s)
	}
	if got := sysfs(t, v.PCI, "driver_override"); got != "(null)" {
		t.Errorf("driver_override is %s after the way back", got)
	}
}

func TestLabNotFound(t *testing.T) {
	n := labNode(t)
	nowhere := vf.PCIAddr{Bus: 0xee}
	if _, err := n.VF(n.context(), nowhere, ""); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("VF: %v", err)
	}
	if _, err := n.VF(n.context(), n.pfs[0].PCI, ""); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("a PF taken for a VF: %v", err)
	}
	if _, err := n.PF(n.context(), nowhere); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("PF: %v", err)
	}
	for _, s := range []step.Step{
		step.SetNumVFs{PF: nowhere, N: 1}, step.SetPFUp{PF: nowhere}, step.SetAutoprobe{PF: nowhere},
		step.Bind{VF: nowhere}, step.Unbind{VF: nowhere}, step.SetUp{VF: nowhere, Up: true},
		step.SetVFSwitch{PF: n.pfs[0].PCI, Index: 99, Setting: vf.SetTrust}, step.SetUp{VF: n.pfs[0].VFs[0].PCI, Netns: "/run/netns/none"},
		step.Move{VF: n.pfs[0].VFs[0].PCI, To: "/run/netns/none", Name: "net1"},
	} {
		if err := n.Do(n.context(), s); !errors.Is(err, vf.ErrNotFound) {
			t.Errorf("%T: %v", s, err)
		}
	}
}

package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// actOnWrites makes files of sysfs act as the kernel's do: act is called within each write to its
// file. Each file is a FIFO. The Kernel's write does not return before act does, since act runs
// with the lock that the end of the write takes.
func actOnWrites(t *testing.T, k *Kernel, acts map[string]func(value string)) {
	t.Helper()
	served := map[string]time.Time{}
	serve := func() {
		k.writes.mu.Lock()
		defer k.writes.mu.Unlock()
		for what, begun := range k.writes.begun {
			path, _, _ := strings.Cut(what, "=")
			if act := acts[path]; act != nil && !served[what].Equal(begun) {
				value, err := os.ReadFile(path)
				if err != nil {
					t.Error(err)
				}
				act(string(value))
				served[what] = begun
			}
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			serve()
			time.Sleep(time.Millisecond)
		}
	}()
	t.Cleanup(func() { <-ended })
}

// bus stands for the kernel's bus with one VF, 01:10.2, whose PF has autoprobe off.
type bus struct {
	*Kernel
	vf, pf vf.PCIAddr
	// choose returns the driver that a probe binds, by driver_override. The empty name is none.
	choose func(override string) string
	probes []string // "autoprobe 0, override vfio-pci"
	log    string   // the file with the arguments of each modprobe
}

// busOf returns a bus with drivers whose modules are loaded. modprobe is a program that notes its
// arguments and then runs the script.
func busOf(t *testing.T, script string, loaded ...string) *bus {
	t.Helper()
	sys, bin := treeOf(t, "host.txtar"), t.TempDir()
	b := &bus{
		Kernel: New(Options{SysRoot: sys.root, RunRoot: t.TempDir()}),
		vf:     pciAddr(t, "01:10.2"), pf: pciAddr(t, "01:00.0"), log: filepath.Join(bin, "log"),
	}
	put(t, sys.pciPath(b.vf, "driver_override"), "(null)\n")
	put(t, sys.pciPath(b.vf, "modalias"), "pci:v00008086d000010CA\n")
	program := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%s\n%s\n", b.log, script)
	if err := os.WriteFile(filepath.Join(bin, "modprobe"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	acts := map[string]func(string){}
	fifo := func(path, act string, do func()) {
		_ = os.Remove(path)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), unix.Mkfifo(path, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		acts[act] = func(value string) {
			if value != b.vf.String() {
				t.Errorf("wrote %q to %s", value, path)
			}
			do()
		}
	}
	probe := filepath.Join(sys.root, "bus/pci/drivers_probe")
	fifo(probe, probe, func() { b.probe(t) })
	for _, driver := range loaded {
		unbind := filepath.Join(sys.root, "bus/pci/drivers", driver, "unbind")
		link := sys.pciPath(b.vf, "driver")
		fifo(unbind, filepath.Join(link, "unbind"), func() { _ = os.Remove(link) })
	}
	actOnWrites(t, b.Kernel, acts)
	return b
}

// probe is the kernel's part of a write to drivers_probe.
func (b *bus) probe(t *testing.T) {
	override, overrideErr := b.readOverride(b.vf)
	autoprobe, probeErr := readLine(b.sys.pciPath(b.pf, "sriov_drivers_autoprobe"))
	if err := errors.Join(overrideErr, probeErr); err != nil {
		t.Error(err)
	}
	b.probes = append(b.probes, fmt.Sprintf("autoprobe %s, override %s", autoprobe, override))
	if driver := b.choose(override); driver != "" {
		if err := os.Symlink("../../drivers/"+driver, b.sys.pciPath(b.vf, "driver")); err != nil {
			t.Error(err)
		}
	}
}

// state returns the bound driver and driver_override.
func (b *bus) state(t *testing.T) string {
	t.Helper()
	driver, err := linkTarget(b.sys.pciPath(b.vf, "driver"))
	override, overrideErr := b.readOverride(b.vf)
	if err := errors.Join(err, overrideErr); err != nil {
		t.Fatal(err)
	}
	return driver + ", only " + override
}

// loads returns the arguments of each modprobe.
func (b *bus) loads(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(b.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// chooseDriver is the choice of a kernel that has all drivers, and whose vfio-pci takes the model
// of the VF.
func chooseDriver(override string) string {
	if override == "" {
		return vf.DriverVFIO
	}
	return override
}

// checkSays checks that the error has a text, or that there is none if the text is empty.
func checkSays(t *testing.T, err error, says string) {
	t.Helper()
	isWanted := err == nil
	if says != "" {
		isWanted = err != nil && strings.Contains(err.Error(), says)
	}
	if !isWanted {
		t.Errorf("%v, want %q", err, says)
	}
}

// A named driver is bound by driver_override, which needs no autoprobe. Its module is loaded if
// the kernel does not have it. Each driver that is bound in place of it is an error.
func TestBindNamedDriver(t *testing.T) {
	fails := func(string) string { return "" }
	another := func(string) string { return "igbvf" }
	const probed = "autoprobe 0, override vfio-pci"
	const bound, none = "vfio-pci, only vfio-pci", ", only vfio-pci"
	vfio := []string{"vfio-pci"}
	for _, tt := range []struct {
		name, script string
		loaded       []string
		choose       func(string) string
		state, loads string
		probes       int
		says         string // of the error; empty: there is none
	}{
		{"a loaded one", "exit 1", vfio, chooseDriver, bound, "", 1, ""},
		{"a module", "", nil, chooseDriver, bound, "-- vfio-pci\n", 1, ""},
		{"no module", "echo not found; exit 1", nil, chooseDriver, none, "-- vfio-pci\n", 0,
			"load the module of vfio-pci: exit status 1: not found"},
		{"another one was bound", "", vfio, another, "igbvf, only vfio-pci", "", 1,
			"driver igbvf bound to it instead"},
		{"its probe fails", "", vfio, fails, none, "", 1, errNotBound.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := busOf(t, tt.script, tt.loaded...)
			b.choose = tt.choose
			err := b.Do(t.Context(), step.Bind{VF: b.vf, Driver: vf.DriverVFIO})
			checkSays(t, err, tt.says)
			if state, loads := b.state(t), b.loads(t); state != tt.state || loads != tt.loads {
				t.Errorf("bound %s, loaded %q; want %s, %q", state, loads, tt.state, tt.loads)
			}
			if len(b.probes) != tt.probes || tt.probes > 0 && b.probes[0] != probed {
				t.Errorf("probes %q, want %d", b.probes, tt.probes)
			}
		})
	}
}

// The default driver is the choice of the kernel, with autoprobe on meanwhile. If the kernel has no
// driver, the module is loaded by the alias of the device.
func TestBindDefaultLoadsByAlias(t *testing.T) {
	b := busOf(t, "", "igbvf")
	b.choose = func(string) string {
		if b.loads(t) == "" {
			return ""
		}
		return "igbvf"
	}
	if err := b.probeVF(t.Context(), b.pf, step.Bind{VF: b.vf}); err != nil {
		t.Error(err)
	}
	const loads = "-- pci:v00008086d000010CA\n"
	if b.state(t) != "igbvf, only " || b.loads(t) != loads {
		t.Errorf("bound %s, loaded %q", b.state(t), b.loads(t))
	}
	if got := fmt.Sprint(b.probes); got != "[autoprobe 1, override  autoprobe 1, override ]" {
		t.Errorf("probes %s", got)
	}
	after, err := readLine(b.sys.pciPath(b.pf, "sriov_drivers_autoprobe"))
	if after != "0" || err != nil {
		t.Errorf("autoprobe is %s afterwards, %v", after, err)
	}
}

// If vfio-pci takes every VF of a model, a bind of the default driver replaces it by a known
// netdevice driver, whose name stays in driver_override. The next bind then takes that driver at
// once. If none can be bound, the error says how to keep vfio-pci from the model.
func TestBindWhereVFIOTakesTheModel(t *testing.T) {
	b := busOf(t, "", "igbvf", "vfio-pci")
	b.choose = chooseDriver
	for _, probes := range []int{2, 3} {
		if err := b.probeVF(t.Context(), b.pf, step.Bind{VF: b.vf}); err != nil {
			t.Error(err)
		}
		if state := b.state(t); state != "igbvf, only igbvf" || len(b.probes) != probes {
			t.Errorf("bound is %s after the probes %q, want %d", state, b.probes, probes)
		}
		if err := b.Do(t.Context(), step.Unbind{VF: b.vf}); err != nil {
			t.Error(err)
		}
	}
	b = busOf(t, "", "igbvf", "vfio-pci")
	b.choose = func(override string) string {
		return strings.TrimSuffix(chooseDriver(override), "igbvf")
	}
	err := b.probeVF(t.Context(), b.pf, step.Bind{VF: b.vf})
	const says = "take its model out of the parameter ids= of vfio-pci"
	checkSays(t, err, says)
	if !errors.Is(err, errNotBound) || b.state(t) != ", only igbvf" {
		t.Errorf("igbvf fails: bound is %s, %v", b.state(t), err)
	}
}

// A bind ends when the driver has made the netdevice and udev has named it. Without one of them it
// ends with the context, and the error says which is missing.
func TestBindWaitsForTheNetdevice(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		netdev, udev, record bool
		says                 string
	}{
		{"without udev", true, false, false, ""},
		{"named by udev", true, true, true, ""},
		{"not named", true, true, false, "udev has not named netdevice 12: "},
		{"no netdevice", false, true, true, "driver igbvf made no netdevice in the host's netns: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := busOf(t, "", "igbvf")
			b.choose = func(string) string {
				if tt.netdev {
					put(t, b.sys.pciPath(b.vf, "net/enp1s0v1/ifindex"), "12\n")
				}
				return "igbvf"
			}
			if tt.udev {
				put(t, filepath.Join(b.run, "udev/control"), "")
			}
			if tt.record {
				put(t, filepath.Join(b.run, "udev/data/n12"), "E:ID_NET_NAME=enp1s0v1\n")
			}
			bound := 20 * time.Second
			if tt.says != "" {
				bound = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			n, err := b.bindOnce(ctx, b.pf, step.Bind{VF: b.vf}, false)
			checkSays(t, err, tt.says)
			if err == nil && n != (netdev{"enp1s0v1", 12}) {
				t.Errorf("%+v", n)
			}
			if err != nil && !errors.Is(err, vf.ErrTimeout) {
				t.Error(err)
			}
		})
	}
}

// A VF with a driver is not probed again. Another driver has to be unbound first.
func TestBindOfABoundVF(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	k, addr := New(Options{SysRoot: sys.root, RunRoot: t.TempDir()}), pciAddr(t, "01:10.0")
	for driver, says := range map[string]string{
		vf.DriverDefault: "", vf.DriverVFIO: "driver igbvf is bound: unbind it first",
	} {
		checkSays(t, k.Do(t.Context(), step.Bind{VF: addr, Driver: driver}), says)
	}
	text, err := readLine(filepath.Join(sys.root, "bus/pci/drivers_probe"))
	if text != "" || err != nil {
		t.Errorf("probed %q, %v", text, err)
	}
	err = k.Do(t.Context(), step.Bind{VF: pciAddr(t, "09:00.0")})
	if !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no VF: %v", err)
	}
}

// An unbind without a driver has nothing to do. It fails for a VF that is gone, and if the driver
// stays.
func TestUnbind(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	k := New(Options{SysRoot: sys.root})
	if err := k.Do(t.Context(), step.Unbind{VF: pciAddr(t, "01:10.2")}); err != nil {
		t.Errorf("no driver: %v", err)
	}
	err := k.Do(t.Context(), step.Unbind{VF: pciAddr(t, "09:00.0")})
	if !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no VF: %v", err)
	}
	put(t, filepath.Join(sys.root, "bus/pci/drivers/igbvf/unbind"), "")
	err = k.Do(t.Context(), step.Unbind{VF: pciAddr(t, "01:10.0")})
	checkSays(t, err, "driver igbvf is still bound")
}

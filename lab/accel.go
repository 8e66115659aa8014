package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Acceleration says whether KVM runs the machines, or software emulates them.
type Acceleration struct {
	Accel  string `json:"accel"`            // "kvm", or "tcg": emulation in software
	WhyNot string `json:"whyNot,omitempty"` // why it is not kvm
}

// Accel reports how machines run on this host. The presence of /dev/kvm proves little, so Accel
// boots the image's kernel under KVM, and remembers the outcome until the host's next boot. It
// builds the image if there is none.
func Accel(ctx context.Context) (Acceleration, error) {
	img, err := findImage(ctx, nil, "")
	if err != nil {
		return Acceleration{}, err
	}
	return probeAccel(ctx, img), nil
}

// probeTime bounds the boot of a kernel under KVM that takes well under 1 s
// where KVM works.
const probeTime = 15 * time.Second

func probeAccel(ctx context.Context, img image) Acceleration {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	key := strings.TrimSpace(string(boot)) + " " + fmt.Sprint(os.Geteuid())
	kept := filepath.Join(img.dir, "accel.json")
	var memo struct {
		Key string
		Acceleration
	}
	if body, err := os.ReadFile(kept); err == nil && json.Unmarshal(body, &memo) == nil && memo.Key == key {
		return memo.Acceleration
	}
	memo.Key = key
	memo.Acceleration = Acceleration{Accel: "kvm"}
	if err := tryKVM(ctx, img); err != nil {
		memo.Acceleration = Acceleration{Accel: "tcg", WhyNot: err.Error()}
	}
	if body, err := json.Marshal(memo); err == nil && ctx.Err() == nil {
		_ = os.WriteFile(kept, body, 0o644) // only a memo: the next caller may probe again
	}
	return memo.Acceleration
}

// tryKVM boots a kernel whose init powers the machine off at once.
func tryKVM(ctx context.Context, img image) error {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	f.Close()
	dir, err := os.MkdirTemp("", "culvert-kvm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m := machine{
		Accel: "kvm", MemoryMiB: 512, CPUs: 1, Kernel: img.kernelPath(),
		Initrd: filepath.Join(dir, "initrd"), Cmdline: "console=ttyS0 panic=-1 quiet",
		Serial: filepath.Join(dir, "console"),
	}
	if err := writeProbeInitrd(m.Initrd, img); err != nil {
		return err
	}
	return runProbe(ctx, m)
}

func writeProbeInitrd(name string, img image) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	a := newArchive(f)
	a.addCharDevice("dev/console", 0o600, 5, 1)
	if err := a.addTree("bin/busybox", img.partPath("busybox")); err != nil {
		return err
	}
	a.addText("init", "#!/bin/busybox sh\n/bin/busybox echo lab-guest-runs\n/bin/busybox poweroff -f\n", 0o755)
	return a.writeTrailer()
}

func runProbe(ctx context.Context, m machine) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var errs bytes.Buffer
	done := make(chan error, 1)
	onThread(func() {
		cmd := exec.CommandContext(ctx, qemu, m.commandLine()...)
		cmd.Stderr = &errs
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		done <- cmd.Run()
	})
	err := <-done
	console, _ := os.ReadFile(m.Serial)
	switch {
	case bytes.Contains(console, []byte("lab-guest-runs")):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("a guest under KVM did not reach its init in %s", probeTime)
	case err != nil:
		return errors.New("a guest under KVM dies: " + findComplaint(errs.String(), err.Error()))
	}
	return errors.New("a guest under KVM ended before its init")
}

// findComplaint returns the most useful line of QEMU's messages: the first error, or else the
// last line.
func findComplaint(messages, otherwise string) string {
	line := otherwise
	for l := range strings.Lines(messages) {
		l = strings.TrimPrefix(strings.TrimSpace(l), qemu+": ")
		if text, ok := strings.CutPrefix(l, "error: "); ok {
			return text
		}
		if l != "" {
			line = l
		}
	}
	return line
}

package lab

import (
	"context"
	"errors"
	"io"
	"time"
)

// FastOptions describes the command that a fast node runs.
type FastOptions struct {
	// Argv is the command. It runs as root, with the usual four folders in PATH. They have
	// busybox, iproute2, ethtool, kmod, nft, iperf3, tcpdump and strace.
	Argv []string
	// Files puts the host's files and trees (the values) into the node (the keys).
	Files map[string]string
	// Env adds KEY=value to the command's environment.
	Env []string
	// Dir is the command's working folder; empty means /.
	Dir string
	// Stdin may be nil. Stdout and Stderr are streamed; nil drops them. They may be
	// the same writer.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Progress takes step lines; nil is silent.
	Progress io.Writer
	// CPUs is the number of processors; 0 means 1.
	CPUs int
	// NoSnapshot makes the node boot. Otherwise it starts from a snapshot, which the first start
	// of such a node takes.
	NoSnapshot bool
	// OnReady, if set, receives the time from the call until the command could start.
	OnReady func(time.Duration)
}

// Fast starts a node, runs one command in it and powers it off. The exit status is the command's;
// 128 plus the signal's number if one ended it. Its two PFs, eth0 and eth1 (0000:01:00.0 and
// 0000:02:00.0), are on one wire and are up with carrier when the command starts. There is no udev.
func Fast(ctx context.Context, o FastOptions) (exit int, err error) {
	if len(o.Argv) == 0 {
		return 0, errors.New("run a fast node: no command")
	}
	defer func() { // when ctx ends, QEMU does, and each step of a start fails in its own way
		if err != nil && ctx.Err() != nil {
			exit, err = 0, context.Cause(ctx)
		}
	}()
	start := time.Now()
	p, end := stepsTo(o.Progress)
	defer end()
	img, err := findImage(ctx, p, "")
	if err != nil {
		return 0, err
	}
	accel := probeAccel(ctx, img)
	node := func() *fastNode {
		return &fastNode{o: o, p: p, start: start, img: img, accel: accel.Accel}
	}
	if o.NoSnapshot {
		p.Step("booting a fast node (%s)", accel.Accel)
		return node().runCommand(ctx, snapshot{})
	}
	for try := 1; ; try++ {
		s, err := node().findSnapshot(ctx)
		if err != nil {
			return 0, err
		}
		p.Step("restoring a fast node (%s)", accel.Accel)
		exit, err := node().runCommand(ctx, s)
		if !errors.Is(err, errRestore) || try == 2 || ctx.Err() != nil {
			return exit, err
		}
		p.Step("%v: it is taken anew", err)
		if err := s.removeFiles(); err != nil {
			return 0, err
		}
	}
}

// kernelCmdline returns the kernel's arguments on all machines. They turn off the kernel's
// protections against its users: the lab has no secrets, and these protections take time, much of
// it under emulation.
func kernelCmdline(accel string) string {
	line := "console=ttyS0 panic=-1 intel_iommu=on iommu=pt mitigations=off nokaslr init_on_alloc=0 lsm= audit=0" +
		" cryptomgr.notests initcall_blacklist=crypto_kdf108_init,jent_mod_init,init_encrypted"
	if accel == "tcg" {
		line += " tsc=reliable no_timer_check random.trust_cpu=on nowatchdog"
	}
	return line
}

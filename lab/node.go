package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// A node is the supervisor's state of one machine of its lab.
type node struct {
	number int // from 1
	conf   config
	login  keyPair // the lab's key
	host   keyPair // this node's key

	mu     sync.Mutex // guards the fields below
	seen   Node
	run    *run // nil while the power is off
	client *ssh.Client
	memory *os.File // the file that backs the node's memory, if a snapshot is to keep it
}

// A run is the time of a node from power-on to power-off.
type run struct {
	process process
	monitor *monitor
	from    snapshot      // what the machine starts from; the zero value boots it
	reset   atomic.Bool   // the guest asked for a reboot
	saving  atomic.Bool   // the node is being saved: attend opens no connection
	failed  error         // why the snapshot did not load; set before ended is closed
	ended   chan struct{} // closed when QEMU is gone
}

func newNode(conf config, number int, keys labKeys) *node {
	name := conf.Nodes[number-1]
	n := &node{number: number, conf: conf, login: keys.Login, host: keys.Hosts[name]}
	n.seen = Node{Name: name, State: Off, Address: nodeAddr(number).String()}
	for pf := range pfCount {
		n.seen.PFs = append(n.seen.PFs, newPF(number, pf+1, conf.PCIRoots))
	}
	return n
}

// currentStatus returns the node's present status.
func (n *node) currentStatus() Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen
	seen.PFs = append([]PF(nil), n.seen.PFs...)
	return seen
}

// makeDisk makes the node's disk.
func (n *node) makeDisk() error {
	base := n.conf.Base
	if n.conf.Snapshot != "" {
		base = n.conf.startSnapshot().diskPath(n.seen.Name)
	}
	out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base, n.conf.labPaths().diskPath(n.seen.Name)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make the disk of %s: %w: %s", n.seen.Name, err, bytes.TrimSpace(out))
	}
	return nil
}

// The descriptors that a node's QEMU inherits.
const (
	monitorFD = 3
	memoryFD  = 4
)

// nodeMachine returns the machine of the node with a number, counting from 1.
func (c config) nodeMachine(number int) machine {
	p, name := c.labPaths(), c.Nodes[number-1]
	m := machine{
		Accel: c.Accel, MemoryMiB: memoryLimit, CPUs: c.CPUs, IOMMU: true, PCIRoots: c.PCIRoots,
		Kernel: c.labImage().kernelPath(), Initrd: p.initrdPath(name), Serial: p.consolePath(name),
		Cmdline: kernelCmdline(c.Accel) + c.securityModules() + " systemd.show_status=0 quiet",
		Disk:    p.diskPath(name), Share: p.sharePath(), QMPFD: monitorFD,
		Mgmt: &port{ID: "mgmt", MAC: macAddr(number, 0), Backend: tapBackend(number, 0)},
	}
	for i := range pfCount {
		m.PFs = append(m.PFs, port{ID: pfID(i + 1), MAC: macAddr(number, i+1), Backend: tapBackend(number, i+1)})
	}
	return m
}

// securityModules returns an argument that replaces the empty list of kernelCmdline: of two
// arguments of one name the kernel uses the last.
func (c config) securityModules() string {
	if c.AppArmor {
		return " lsm=apparmor"
	}
	return ""
}

// startWith adds to a machine its initramfs, or the snapshot that it continues from. It returns
// the files that QEMU inherits after the monitor's socket.
func (n *node) startWith(m *machine, from snapshot) ([]*os.File, error) {
	name := n.seen.Name
	if from != (snapshot{}) {
		m.Memory, m.Restore = from.memoryPath(name), true
		return nil, nil
	}
	if err := writeInitramfs(m.Initrd, n.fillNode); err != nil {
		return nil, fmt.Errorf("write the initramfs of %s: %w", name, err)
	}
	if !n.conf.KeepMemory {
		return nil, nil
	}
	fd, err := unix.MemfdCreate("culvert-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make room for the memory of %s: %w", name, err)
	}
	n.memory = os.NewFile(uintptr(fd), "memory")
	m.Memory = fmt.Sprintf("/proc/self/fd/%d", memoryFD)
	return []*os.File{n.memory}, nil
}

func tapBackend(node, nic int) string {
	return "tap,script=no,downscript=no,ifname=" + tapName(node, nic)
}

// powerOn starts the node's QEMU, from a snapshot unless from is the zero value.
func (n *node) powerOn(from snapshot) (*run, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run != nil {
		return nil, fmt.Errorf("power on %s: it is on already", n.seen.Name)
	}
	m := n.conf.nodeMachine(n.number)
	more, err := n.startWith(&m, from)
	if err != nil {
		return nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("power on %s: make the monitor's socket: %w", n.seen.Name, err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "monitor"), os.NewFile(uintptr(fds[1]), "monitor")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("power on %s: %w", n.seen.Name, err), theirs.Close())
	}
	r := &run{from: from, ended: make(chan struct{})}
	cmd := exec.Command(qemu, m.commandLine()...)
	cmd.ExtraFiles = append([]*os.File{theirs}, more...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	errs := new(bytes.Buffer)
	cmd.Stderr = errs
	r.monitor = newMonitor(conn, func(event, reason string) {
		if event == "SHUTDOWN" && reason == "guest-reset" {
			r.reset.Store(true)
		}
	})
	started := make(chan error, 1)
	onThread(func() {
		err := cmd.Start()
		theirs.Close()
		started <- err
		if err != nil {
			conn.Close()
			return
		}
		reading := make(chan struct{})
		go func() { _ = r.monitor.readMessages(); close(reading) }() // ends with QEMU
		err = cmd.Wait()
		<-reading // the reason of the end is in there
		n.noteEnd(r, err, errs.String())
	})
	if err := <-started; err != nil {
		return nil, fmt.Errorf("power on %s: %w", n.seen.Name, err)
	}
	if r.process, err = findProcess(cmd.Process.Pid); err != nil {
		return nil, fmt.Errorf("power on %s: %w", n.seen.Name, err)
	}
	n.run = r
	n.seen.State, n.seen.Reason, n.seen.PID, n.seen.Since = Booting, "", r.process.PID, time.Now()
	return r, nil
}

// noteEnd records that QEMU has ended. This also happens in a reboot of the node: QEMU ends and
// starts anew, so that no state of an emulated device survives.
func (n *node) noteEnd(r *run, err error, stderr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.run, n.seen.PID = nil, 0
	n.seen.State, n.seen.Since = Off, time.Time{}
	if n.client != nil {
		n.client.Close()
		n.client = nil
	}
	switch {
	case r.reset.Load():
		n.seen.Reason = "it reboots"
	case err == nil:
		n.seen.Reason = "the node powered itself off"
	default:
		n.seen.Reason = "QEMU ended: " + findComplaint(stderr, err.Error())
	}
	close(r.ended)
}

// attendRun serves a node from power-on to power-off: it sets the cables as they were before, and
// keeps a connection to the node. It returns when QEMU has ended.
func (n *node) attendRun(ctx context.Context, r *run) {
	if err := n.beginRun(ctx, r); err != nil {
		n.noteError(err)
		if errors.Is(err, errRestore) {
			_ = r.process.killAndWait(unix.SIGKILL, 10*time.Second)
			<-r.ended
			return
		}
	}
	for {
		if r.saving.Load() {
			<-r.ended
			return
		}
		client, err := n.connectRun(ctx, r)
		if err != nil {
			<-r.ended // the supervisor ends QEMU before it ends itself
			return
		}
		n.mu.Lock()
		n.client, n.seen.State, n.seen.Reason = client, Ready, ""
		n.mu.Unlock()
		_ = client.Wait()
		n.mu.Lock()
		n.client = nil
		if n.run == r {
			n.seen.State = Booting
		}
		n.mu.Unlock()
		client.Close()
	}
}

// beginRun opens the monitor, loads the snapshot if the run starts from one, and pulls the cables
// that were pulled at the last power-off.
func (n *node) beginRun(ctx context.Context, r *run) error {
	err := r.monitor.negotiateCapabilities()
	if err == nil && r.from != (snapshot{}) {
		if err = r.monitor.restoreMachine(ctx, r.from.statePath(n.seen.Name)); err != nil {
			r.failed = fmt.Errorf("%w: restore %s: %w", errRestore, n.seen.Name, err)
			return r.failed
		}
	}
	if err != nil {
		return fmt.Errorf("boot %s: %w", n.seen.Name, err)
	}
	for _, pf := range n.currentStatus().PFs {
		if !pf.Cable {
			if err := r.monitor.setLink(pf.ID, false); err != nil {
				return fmt.Errorf("boot %s: pull the cable of %s: %w", n.seen.Name, pf.ID, err)
			}
		}
	}
	return nil
}

var errEnded = errors.New("the power is off")

// connectRun dials until the node accepts commands and has both PFs.
func (n *node) connectRun(ctx context.Context, r *run) (*ssh.Client, error) {
	for {
		client, err := n.dialSSH(ctx)
		if err == nil {
			if err = n.settlePFs(client, r); err == nil {
				return client, nil
			}
			client.Close()
		}
		select {
		case <-r.ended:
			return nil, errEnded
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// dialSSH logs in to the node. Each try is short: packets that are sent before the node's
// interface is up are lost, and TCP would wait long before it sends them again.
func (n *node) dialSSH(ctx context.Context) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	addr := net.JoinHostPort(n.seen.Address, "22")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	client, channels, requests, err := ssh.NewClientConn(conn, addr, &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(n.login.signer)},
		HostKeyCallback: ssh.FixedHostKey(n.host.signer.PublicKey()),
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = conn.SetDeadline(time.Time{})
	return ssh.NewClient(client, channels, requests), nil
}

// settlePFs waits until both PFs have their names. If the node started from a snapshot, it first
// sets the node's clock, which stood still.
func (n *node) settlePFs(client *ssh.Client, r *run) error {
	settled := make(chan struct{})
	defer close(settled)
	go func() { // closes the session if the node's power is cut, since it would never answer
		select {
		case <-r.ended:
			_ = client.Close()
		case <-settled:
		}
	}()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	var script strings.Builder
	if r.from != (snapshot{}) {
		fmt.Fprintf(&script, "date --set=@%d.%09d >/dev/null && ", time.Now().Unix(), time.Now().Nanosecond())
	}
	fmt.Fprint(&script, "udevadm settle --timeout=60")
	for _, pf := range n.seen.PFs {
		fmt.Fprintf(&script, " && test -e /sys/bus/pci/devices/%s/net/%s", pf.PCI, pf.Interface)
	}
	return session.Run(script.String())
}

// saveNode writes the node to a snapshot and ends its QEMU.
func (n *node) saveNode(ctx context.Context, to snapshot) error {
	client, r, err := n.currentConnection()
	if err != nil {
		return fmt.Errorf("save %s: %w", n.seen.Name, err)
	}
	r.saving.Store(true)
	_ = client.Close() // so that the snapshot has no open connection
	time.Sleep(logoutTime)
	if err := r.monitor.saveMachine(ctx, to.statePath(n.seen.Name)); err != nil {
		return fmt.Errorf("save %s: %w", n.seen.Name, err)
	}
	if err := to.keepMemory(n.seen.Name, n.memory); err != nil {
		return err
	}
	if err := n.cutPower(); err != nil {
		return err
	}
	return os.Rename(n.conf.labPaths().diskPath(n.seen.Name), to.diskPath(n.seen.Name))
}

// logoutTime is how long an emulated node takes to end a session of SSH.
const logoutTime = time.Second

// cutPower cuts the node's power.
func (n *node) cutPower() error {
	n.mu.Lock()
	r := n.run
	n.mu.Unlock()
	if r == nil {
		return fmt.Errorf("cut the power of %s: it is off already", n.seen.Name)
	}
	if err := r.process.killAndWait(unix.SIGKILL, 10*time.Second); err != nil {
		return fmt.Errorf("cut the power of %s: %w", n.seen.Name, err)
	}
	<-r.ended
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen.Reason = "its power was cut"
	return nil
}

// setCable plugs a PF's cable in or pulls it.
func (n *node) setCable(name string, up bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var known []string
	for i := range n.seen.PFs {
		pf := &n.seen.PFs[i]
		known = append(known, pf.ID+" ("+pf.Interface+")")
		if name != pf.ID && name != pf.Interface && name != pf.PCI {
			continue
		}
		if n.run != nil {
			if err := n.run.monitor.setLink(pf.ID, up); err != nil {
				return fmt.Errorf("link %s of %s: %w", pf.ID, n.seen.Name, err)
			}
		}
		pf.Cable = up
		return nil
	}
	return fmt.Errorf("link %s of %s: there is no such PF; there are %s", name, n.seen.Name, strings.Join(known, " and "))
}

// currentConnection returns the connection to the node, and the run that it belongs to.
func (n *node) currentConnection() (*ssh.Client, *run, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.seen.State == Off:
		return nil, nil, fmt.Errorf("%s is off (%s): culvert lab start %s powers it on", n.seen.Name, n.seen.Reason, n.seen.Name)
	case n.client == nil:
		return nil, nil, fmt.Errorf("%s is %s", n.seen.Name, n.seen.State)
	}
	return n.client, n.run, nil
}

// noteError keeps an error for the status.
func (n *node) noteError(err error) {
	if err == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen.Reason = err.Error()
}

// bootTime bounds a boot, and restoreTime a start from a snapshot, even on a busy host.
const (
	bootTime    = 5 * time.Minute
	restoreTime = 4 * time.Minute
)

// awaitReady waits until the node accepts commands in run r, or in any run if r is nil.
func (n *node) awaitReady(ctx context.Context, r *run) error {
	var ended <-chan struct{}
	bound, cause := bootTime, error(nil)
	if r != nil {
		ended = r.ended
		if r.from != (snapshot{}) {
			bound, cause = restoreTime, errRestore
		}
	}
	for end := time.Now().Add(bound); time.Now().Before(end); {
		seen := n.currentStatus()
		if seen.State == Ready {
			return nil
		}
		select {
		case <-ended:
			if r.failed != nil {
				return r.failed
			}
			return fmt.Errorf("boot %s: %s\n%s", seen.Name, n.currentStatus().Reason, readTail(n.conf.labPaths().consolePath(seen.Name)))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	err := fmt.Errorf("boot %s: not ready after %s; its console ends with:\n%s", n.seen.Name, bound, readTail(n.conf.labPaths().consolePath(n.seen.Name)))
	if cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// readTail returns the end of a console's file.
func readTail(name string) string {
	body, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(body[max(0, len(body)-2000):])
}

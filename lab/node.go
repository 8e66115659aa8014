package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// A node is a machine as its supervisor holds it.
type node struct {
	number int // from 1
	conf   config
	login  keyPair // the lab's key
	host   keyPair // this node's key

	mu     sync.Mutex // guards the fields below
	seen   Node
	run    *run // nil while the power is off
	client *ssh.Client
}

// A run is one life of a node, from power-on to power-off.
type run struct {
	process process
	monitor *monitor
	reset   atomic.Bool   // the guest asked for a reboot
	ended   chan struct{} // closed when QEMU is gone
}

func newNode(conf config, number int, login keyPair) (*node, error) {
	host, err := newKeyPair(conf.Nodes[number-1])
	if err != nil {
		return nil, err
	}
	n := &node{number: number, conf: conf, login: login, host: host}
	n.seen = Node{Name: conf.Nodes[number-1], State: Off, Address: nodeAddr(number).String()}
	for pf := range pfCount {
		n.seen.PFs = append(n.seen.PFs, newPF(number, pf+1))
	}
	return n, nil
}

// status returns what the node looks like now.
func (n *node) status() Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen
	seen.PFs = append([]PF(nil), n.seen.PFs...)
	return seen
}

// prepare makes the node's disk and initramfs.
func (n *node) prepare() error {
	p := n.conf.paths()
	out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", n.conf.Base, p.disk(n.seen.Name)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make the disk of %s: %w: %s", n.seen.Name, err, bytes.TrimSpace(out))
	}
	if err := writeInitramfs(p.initrd(n.seen.Name), n.fill); err != nil {
		return fmt.Errorf("write the initramfs of %s: %w", n.seen.Name, err)
	}
	return nil
}

// fill fills the node's initramfs: what finds the root, and who the node is.
func (n *node) fill(a *archive) error {
	img := n.conf.image()
	if err := addInit(a, img, "node-init"); err != nil {
		return err
	}
	list, err := os.ReadFile(img.part("boot-modules"))
	if err != nil {
		return err
	}
	kernel, err := os.ReadFile(img.part("kernel"))
	if err != nil {
		return err
	}
	a.text("boot-modules", string(list), 0o644)
	for _, module := range strings.Fields(string(list)) {
		if err := a.add("modules/"+module, img.part("modules/"+strings.TrimSpace(string(kernel))+"/"+module)); err != nil {
			return err
		}
	}
	a.dir("sysroot")
	a.text("node.env", fmt.Sprintf("address=%s/%d\ngateway=%s\n", n.seen.Address, mgmtPrefix.Bits(), mgmtGateway), 0o644)
	var hosts strings.Builder
	fmt.Fprintf(&hosts, "127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
	for i, name := range n.conf.Nodes {
		fmt.Fprintf(&hosts, "%s %s\n", nodeAddr(i+1), name)
	}
	id := sha256.Sum256([]byte(n.conf.Name + " " + n.seen.Name))
	a.text("node/etc/hosts", hosts.String(), 0o644)
	a.text("node/etc/resolv.conf", "# The lab has no name server: queries are refused at once.\nnameserver 127.0.0.1\n", 0o644)
	a.text("node/etc/hostname", n.seen.Name+"\n", 0o644)
	a.text("node/etc/machine-id", hex.EncodeToString(id[:16])+"\n", 0o444)
	a.text("node/etc/ssh/ssh_host_ed25519_key", string(n.host.private), 0o600)
	a.text("node/etc/ssh/ssh_host_ed25519_key.pub", string(n.host.public), 0o644)
	a.entry("node/root", cpioDir|0o700, 0, 0, 0, nil)
	a.entry("node/root/.ssh", cpioDir|0o700, 0, 0, 0, nil)
	a.text("node/root/.ssh/authorized_keys", string(n.login.public), 0o600)
	return nil
}

// machine is what the node's QEMU is told.
func (n *node) machine(qmpFD int) machine {
	p := n.conf.paths()
	m := machine{
		Accel: n.conf.Accel, MemoryMiB: memoryLimit, CPUs: n.conf.CPUs, IOMMU: true,
		Kernel: n.conf.image().kernel(), Initrd: p.initrd(n.seen.Name), Serial: p.console(n.seen.Name),
		Cmdline: kernelCmdline(n.conf.Accel) + " systemd.show_status=0 quiet",
		Disk:    p.disk(n.seen.Name), Share: p.share(), QMPFD: qmpFD,
		Mgmt: &port{ID: "mgmt", MAC: macAddr(n.number, 0), Backend: tapBackend(n.number, 0)},
	}
	for i := range pfCount {
		m.PFs = append(m.PFs, port{ID: pfID(i + 1), MAC: macAddr(n.number, i+1), Backend: tapBackend(n.number, i+1)})
	}
	return m
}

func tapBackend(node, nic int) string {
	return "tap,script=no,downscript=no,ifname=" + tapName(node, nic)
}

// powerOn starts the node's QEMU. Boot awaits what comes of it.
func (n *node) powerOn() (*run, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run != nil {
		return nil, fmt.Errorf("power on %s: it is on already", n.seen.Name)
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
	r := &run{ended: make(chan struct{})}
	cmd := exec.Command(qemu, n.machine(3).args()...)
	cmd.ExtraFiles = []*os.File{theirs}
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
		go func() { _ = r.monitor.read(); close(reading) }() // ends with QEMU
		err = cmd.Wait()
		<-reading // the reason of the end is in there
		n.ended(r, err, errs.String())
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

// ended notes that QEMU is gone. A reboot of the guest comes here too: its
// machine is begun anew, so that no state of an emulated device survives.
func (n *node) ended(r *run, err error, stderr string) {
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
		n.seen.Reason = "QEMU ended: " + complaint(stderr, err.Error())
	}
	close(r.ended)
}

// attend sees to a node from power-on to power-off: cables as they were, and
// a connection whenever there can be one. It returns when QEMU is gone.
func (n *node) attend(ctx context.Context, r *run) {
	if err := n.plug(r); err != nil {
		n.note(err)
	}
	for {
		client, err := n.connect(ctx, r)
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

// plug pulls the cables that were pulled when the power went.
func (n *node) plug(r *run) error {
	if err := r.monitor.start(); err != nil {
		return fmt.Errorf("boot %s: %w", n.seen.Name, err)
	}
	for _, pf := range n.status().PFs {
		if !pf.Cable {
			if err := r.monitor.setLink(pf.ID, false); err != nil {
				return fmt.Errorf("boot %s: pull the cable of %s: %w", n.seen.Name, pf.ID, err)
			}
		}
	}
	return nil
}

var errEnded = errors.New("the power is off")

// connect dials until the node takes commands and has both PFs.
func (n *node) connect(ctx context.Context, r *run) (*ssh.Client, error) {
	for {
		client, err := n.dial(ctx)
		if err == nil {
			if err = n.settle(client); err == nil {
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

// dial logs in to the node. Each try is short: what is sent before the node's
// interface is up is lost, and TCP would wait long to send it again.
func (n *node) dial(ctx context.Context) (*ssh.Client, error) {
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

// settle returns once both PFs have their names.
func (n *node) settle(client *ssh.Client) error {
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	var script strings.Builder
	fmt.Fprint(&script, "udevadm settle --timeout=60")
	for _, pf := range n.seen.PFs {
		fmt.Fprintf(&script, " && test -e /sys/bus/pci/devices/%s/net/%s", pf.PCI, pf.Interface)
	}
	return session.Run(script.String())
}

// kill cuts the node's power.
func (n *node) kill() error {
	n.mu.Lock()
	r := n.run
	n.mu.Unlock()
	if r == nil {
		return fmt.Errorf("cut the power of %s: it is off already", n.seen.Name)
	}
	if err := r.process.kill(unix.SIGKILL, 10*time.Second); err != nil {
		return fmt.Errorf("cut the power of %s: %w", n.seen.Name, err)
	}
	<-r.ended
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen.Reason = "its power was cut"
	return nil
}

// link plugs a PF's cable in or pulls it.
func (n *node) link(name string, up bool) error {
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

// connected returns the connection to the node and the run it is of.
func (n *node) connected() (*ssh.Client, *run, error) {
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

// note keeps an error for the status.
func (n *node) note(err error) {
	if err == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen.Reason = err.Error()
}

// bootTime bounds a boot, on a host with much else to do.
const bootTime = 5 * time.Minute

// await waits until the node takes commands. When ended is closed there is no
// more to wait for.
func (n *node) await(ctx context.Context, ended <-chan struct{}) error {
	for end := time.Now().Add(bootTime); time.Now().Before(end); {
		seen := n.status()
		if seen.State == Ready {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("boot %s: %s\n%s", seen.Name, n.status().Reason, tail(n.conf.paths().console(seen.Name)))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("boot %s: not ready after %s; its console ends with:\n%s", n.seen.Name, bootTime, tail(n.conf.paths().console(n.seen.Name)))
}

// tail returns the end of a console's file.
func tail(name string) string {
	body, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(body[max(0, len(body)-2000):])
}

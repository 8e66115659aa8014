package guests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/guest/libvirt"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// Remote is a host that one connection of ssh reaches. ssh forwards the sockets of its libvirt and
// its culvertd to this host, and a script there reports the host's identity and which files it has.
// No program of Culvert's runs there.
type Remote struct {
	Host
	dir  string // of the sockets here
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said *bytes.Buffer // by ssh, read when it has ended

	asking sync.Mutex // guards in and out
}

// script reports the host's name, boot ID, address and libvirt socket, and then whether each path
// that it reads exists. It tests the sockets in libvirt's order.
var script = `echo "$(uname -n)"; cat /proc/sys/kernel/random/boot_id; set -- $SSH_CONNECTION; echo "${3-}"
for s in ` + strings.Join(libvirt.Sockets, " ") + `; do if [ -S "$s" ]; then break; fi; s=; done; echo "$s"
while IFS= read -r p; do if [ -e "$p" ]; then echo yes; else echo no; fi; done`

// Open connects to a host by the name that ssh takes: USER@HOST, or a name of ~/.ssh/config. ssh
// must not ask questions, so it needs a key. Close ends the connection.
//
// Errors have the output of ssh, or say that the host has no libvirt.
func Open(ctx context.Context, name string) (*Remote, error) {
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n") {
		return nil, fmt.Errorf("host %q: %w: want what ssh takes: USER@HOST, or a name of ~/.ssh/config", name, vf.ErrInvalid)
	}
	dir, err := os.MkdirTemp("", "culvert-")
	if err != nil {
		return nil, err
	}
	r := &Remote{dir: dir, said: &bytes.Buffer{}}
	if err := r.startSSH(ctx, name); err != nil {
		return nil, errors.Join(fmt.Errorf("reach host %s: %w", name, err), os.RemoveAll(dir))
	}
	if err := r.readGreeting(ctx); err != nil {
		err = errors.Join(err, r.Close())
		return nil, fmt.Errorf("reach host %s: %w: %s", name, err, strings.TrimSpace(r.said.String()))
	}
	return r, nil
}

// startSSH starts ssh in a process group of its own. So Ctrl-C does not end ssh, which this program
// needs to undo its changes on the other host.
func (r *Remote) startSSH(ctx context.Context, name string) error {
	args := []string{
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ExitOnForwardFailure=yes",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", // a dead host is reported after 15 s
		"-L", r.localSocket(rpc.DefaultSocket) + ":" + rpc.DefaultSocket,
	}
	for _, s := range libvirt.Sockets {
		args = append(args, "-L", r.localSocket(s)+":"+s)
	}
	r.cmd = exec.CommandContext(context.WithoutCancel(ctx), "ssh", append(args, "--", name, "exec sh -c '"+strings.ReplaceAll(script, "'", `'\''`)+"'")...)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Stderr = r.said
	in, err1 := r.cmd.StdinPipe()
	out, err2 := r.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	r.in, r.out = in, bufio.NewReader(out)
	err := r.cmd.Start()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: install OpenSSH's client", err)
	}
	return err
}

// localSocket returns the path on this host of a socket of the other one.
func (r *Remote) localSocket(socket string) string {
	return filepath.Join(r.dir, filepath.Base(socket))
}

// readGreeting reads the script's first lines: the host's name, boot ID, address and libvirt
// socket.
func (r *Remote) readGreeting(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = r.in.Close() })
	defer stop()
	var lines [4]string
	for i := range lines {
		line, err := r.out.ReadString('\n')
		if err != nil {
			return errors.Join(context.Cause(ctx), errors.New("ssh has ended"))
		}
		lines[i] = strings.TrimSpace(line)
	}
	r.name, r.boot = lines[0], lines[1]
	if lines[3] == "" {
		return fmt.Errorf("%w: there is no %s on host %s: is it installed, and started?", libvirt.ErrNone, strings.Join(libvirt.Sockets, " or "), r.name)
	}
	r.libvirt, r.culvertd, r.missing = r.localSocket(lines[3]), r.localSocket(rpc.DefaultSocket), r.askForPaths
	r.route = Route{Libvirt: "qemu+unix:///system?socket=" + r.libvirt, Data: "tcp://" + bracketIPv6(lines[2])}
	return nil
}

// bracketIPv6 returns an address as it stands in a URI.
func bracketIPv6(address string) string {
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		return "[" + address + "]"
	}
	return address
}

// askForPaths asks the script for paths.
func (r *Remote) askForPaths(ctx context.Context, paths []string) (missing []string, err error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = r.in.Close() })
	defer stop()
	for _, p := range paths {
		if _, err := io.WriteString(r.in, p+"\n"); err != nil {
			return nil, fmt.Errorf("host %s: the connection has broken: %w", r.name, err)
		}
		line, err := r.out.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("host %s: the connection has broken: %w", r.name, err)
		}
		if line != "yes\n" {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

// Close ends the connection.
func (r *Remote) Close() error {
	_ = r.in.Close() // ssh may have ended
	impatient := time.AfterFunc(callBound/6, func() { _ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) })
	_ = r.cmd.Wait() // its exit status adds nothing to the errors before
	impatient.Stop()
	return os.RemoveAll(r.dir)
}

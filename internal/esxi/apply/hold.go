package apply

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/esxi/file"
)

// ErrBusy means that another run of this machine works on the same file or host.
var ErrBusy = errors.New("another culvert esxi is at work")

// Hold keeps other runs of this machine away from the list of made parts and from the host, until the
// release that it returns is called or the process ends. A host is known by its hardware, so that two
// files may name it differently. Call it before Plan.
func (r *Run) Hold(ctx context.Context, spec file.Spec) (release func(), err error) {
	path, err := filepath.Abs(r.Path)
	if err != nil {
		return nil, err
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	list, err := hold(ctx, "list "+path, "the list "+r.Path)
	if err != nil {
		return nil, err
	}
	h, err := r.Host.Observe(ctx)
	if err != nil {
		list.Close()
		return nil, err
	}
	key := h.UUID
	if key == "" {
		key = spec.Server + " " + spec.Host
	}
	host, err := hold(ctx, "host "+key, "host "+h.Name)
	if err != nil {
		list.Close()
		return nil, err
	}
	return func() {
		host.Close()
		list.Close()
	}, nil
}

// hold takes the abstract Unix socket of a key (unix(7)). The kernel gives it to one process of the
// machine, whoever that belongs to, and takes it back when the process ends.
func hold(ctx context.Context, key, object string) (net.Listener, error) {
	name := fmt.Sprintf("@culvert-esxi-%x", sha256.Sum256([]byte(key)))
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: it has %s%s: wait until it has ended", ErrBusy, object, describeHolder(ctx, name))
	}
	if err != nil {
		return nil, fmt.Errorf("keep other runs away from %s: %w", object, err)
	}
	return l, nil
}

// describeHolder returns the process that has a socket, or "" if it has ended since.
func describeHolder(ctx context.Context, name string) (text string) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", name)
	if err != nil {
		return ""
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return ""
	}
	_ = raw.Control(func(fd uintptr) {
		if c, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil && c.Pid > 0 {
			text = fmt.Sprintf(" (process %d)", c.Pid)
		}
	})
	return text
}

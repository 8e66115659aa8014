package rpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Listener is culvertd's socket.
type Listener struct {
	*net.UnixListener
	path string
	own  fs.FileInfo
}

// Listen makes the socket at path, with mode 0600, and the folder of DefaultSocket where that is
// missing. Another folder must be there, since a missing one is more often a mistyped name. Listen
// replaces an unserved socket in one step, so that a client finds the old one or the new one
// and never none. A socket that answers is an error, and so is a file that is not a socket.
func Listen(path string) (*Listener, error) {
	if err := checkReplaceable(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := ensureFolder(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: next, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	own, err := publishSocket(next, path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close(), os.Remove(next))
	}
	return &Listener{UnixListener: l, path: path, own: own}, nil
}

// ensureFolder makes the runtime folder, and returns an error if another folder is missing.
func ensureFolder(dir string) error {
	if dir == filepath.Dir(DefaultSocket) {
		return os.MkdirAll(dir, 0o755)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder %s is not there: make it with mkdir -p %[1]s, or name a socket in a folder that is there", dir)
	}
	return nil
}

func publishSocket(next, path string) (fs.FileInfo, error) {
	if err := os.Chmod(next, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(next, path); err != nil {
		return nil, err
	}
	return os.Lstat(path)
}

// checkReplaceable returns nil when path is free or an unserved socket.
func checkReplaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("it is there and not a socket (%s); move it away", info.Mode())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	// A full backlog answers with a timeout: the socket is served.
	var ne net.Error
	if err == nil || errors.As(err, &ne) && ne.Timeout() {
		if conn != nil {
			conn.Close()
		}
		return errors.New("another culvertd answers there; stop it first: systemctl stop culvertd")
	}
	return nil
}

// Close stops listening and removes the socket, unless another culvertd has
// replaced it since.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if now, statErr := os.Lstat(l.path); statErr == nil && os.SameFile(now, l.own) {
		err = errors.Join(err, os.Remove(l.path))
	}
	return err
}

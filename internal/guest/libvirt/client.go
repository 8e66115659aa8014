// Package libvirt asks the host's libvirt what guests it has and changes them: a few calls of
// libvirt's own protocol over its local socket, with every call bounded by its context. Guests
// go in by name or UUID, definitions as text; package guest reads the definitions.
//
// It is called by daemon, which compares libvirt's list with the ledger, and by the program
// culvert for a person's changes to a guest. A hook of libvirt, and the handler that answers
// it, must not call it: libvirt waits for its hooks while it holds the guest, and a call would
// wait for libvirt.
package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	protocol "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"github.com/culvert-net/culvert/internal/vf"
)

// System is the URI of the host's own QEMU guests.
const System = "qemu:///system"

// Sockets are where libvirt serves that: the socket of the daemon for everything, and that of the
// daemon for QEMU, where libvirt is split into several. libvirt fixes the paths at compile time.
var Sockets = []string{"/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"}

// ErrNone says that no libvirt serves this host: none of its sockets exists.
var ErrNone = errors.New("no libvirt here")

// ErrRefused says that libvirt answered a call with an error. The connection works.
var ErrRefused = errors.New("libvirt refuses")

// farewell bounds a goodbye that no caller waits for.
const farewell = 2 * time.Second

// Client is one connection to libvirt. Its methods may be called concurrently. A
// call whose context ends before the answer closes the connection, since the
// answer may never come: every later call fails, and the caller dials anew.
type Client struct {
	rpc  *protocol.Libvirt
	conn net.Conn
}

// Dial connects to the libvirt behind a URI: System (or ""), by whichever of Sockets
// answers, or the path of a socket. Errors: ErrNone; vf.ErrNotReady when a socket is there and does
// not answer; vf.ErrInvalid for another URI.
func Dial(ctx context.Context, uri string) (*Client, error) {
	paths := Sockets
	switch {
	case strings.HasPrefix(uri, "/"):
		paths = []string{uri}
	case uri != "" && uri != System:
		return nil, fmt.Errorf("libvirt at %q: %w: only this host's own, %s, or the path of a socket", uri, vf.ErrInvalid, System)
	}
	var errs []error
	for _, path := range paths {
		c, err := openClient(ctx, path)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("libvirt at %s: %w: %w", path, vf.ErrNotReady, err))
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: systemctl status libvirtd virtqemud says more", errors.Join(errs...))
	}
	return nil, fmt.Errorf("%w: there is no %s: is it installed, and started (systemctl start libvirtd)?", ErrNone, strings.Join(paths, " or "))
}

func openClient(ctx context.Context, path string) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", vf.ErrTimeout, context.Cause(ctx))
	case err != nil:
		return nil, err
	}
	c := &Client{rpc: protocol.NewWithDialer(dialers.NewAlreadyConnected(&packets{Conn: conn})), conn: conn}
	if err := c.callBounded(ctx, func() error { return c.rpc.ConnectToURI(System) }); err != nil {
		return nil, errors.Join(err, ignoreClosed(conn.Close()))
	}
	return c, nil
}

// Close ends the connection, and the channels of Events with it.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if err := c.callBounded(ctx, c.rpc.Disconnect); err != nil {
		return ignoreClosed(c.conn.Close())
	}
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// callBounded calls f, and closes the connection when ctx ends: that is the one way to abandon
// a call of the protocol.
func (c *Client) callBounded(ctx context.Context, f func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	err := f()
	if !stop() && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", vf.ErrTimeout, context.Cause(ctx))
	}
	return err
}

// callNamed makes one call. Its errors say what the call was to do, and what helps.
func (c *Client) callNamed(ctx context.Context, what string, f func() error) error {
	err := c.callBounded(ctx, f)
	switch {
	case err == nil:
		return nil
	case protocol.IsNotFound(err):
		return fmt.Errorf("%s: %w: %w: virsh list --all shows which guests there are", what, vf.ErrNotFound, err)
	case errors.As(err, new(protocol.Error)):
		return fmt.Errorf("%s: %w: %w: journalctl -u libvirtd -u virtqemud may say more", what, ErrRefused, err)
	}
	return fmt.Errorf("%s: libvirt does not answer: %w: systemctl status libvirtd virtqemud says more", what, err)
}

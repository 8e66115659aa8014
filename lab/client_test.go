package lab

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
)

// dialled is a lab whose supervisor passes each dial to the test, which answers it or lets it
// hang.
type dialled struct {
	*Lab
	t     *testing.T
	host  ssh.Signer
	dials chan dial
	nodes errgroup.Group
}

// dial is one request for a connection to a node.
type dial struct {
	node string
	conn net.Conn
}

func newDialled(t *testing.T) *dialled {
	t.Helper()
	key, err := newKeyPair("test")
	if err != nil {
		t.Fatal(err)
	}
	p := paths{run: t.TempDir()}
	if err := os.WriteFile(p.hostKey(), key.public, 0o600); err != nil {
		t.Fatal(err)
	}
	control, err := net.Listen("unix", filepath.Join(p.run, "control"))
	if err != nil {
		t.Fatal(err)
	}
	d := &dialled{Lab: &Lab{name: "x", paths: p, clients: map[string]*ssh.Client{}}, t: t, host: key.signer, dials: make(chan dial, 10)}
	d.nodes.Go(func() error {
		for {
			conn, err := control.Accept()
			if err != nil {
				return nil //nolint:nilerr // the test has ended
			}
			context.AfterFunc(t.Context(), func() { conn.Close() })
			var r request
			if err := readLine(conn, &r); err != nil {
				conn.Close()
				continue
			}
			d.dials <- dial{r.Node, conn}
		}
	})
	t.Cleanup(func() {
		control.Close()
		d.Close()
		_ = d.nodes.Wait() // nodes leave with their connections
	})
	return d
}

// next waits for a dial.
func (d *dialled) next() dial {
	d.t.Helper()
	select {
	case c := <-d.dials:
		return c
	case <-time.After(5 * time.Minute):
		d.t.Fatal("no dial comes: it waits for another one")
		return dial{}
	}
}

// answer connects a dial to a node.
func (d *dialled) answer(c dial) {
	d.t.Helper()
	if err := writeLine(c.conn, response{}); err != nil {
		d.t.Fatal(err)
	}
	d.nodes.Go(func() error { return serveNode(c.conn, d.host) })
}

// exec runs a command on a node in the background; the fake node exits with 7.
func (d *dialled) exec(ctx context.Context, node string) <-chan error {
	done := make(chan error, 1)
	d.nodes.Go(func() error {
		exit, err := d.Exec(ctx, node, Cmd{Argv: []string{"true"}})
		if err == nil && exit != 7 {
			err = errors.New("another program answered")
		}
		done <- err
		return nil
	})
	return done
}

// returned waits until the command of exec has ended, and returns its error.
func (d *dialled) returned(done <-chan error) error {
	d.t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(5 * time.Minute):
		d.t.Fatal("it does not return")
		return nil
	}
}

// closeAll closes the lab's connections. Close must not wait for a node.
func (d *dialled) closeAll() {
	d.t.Helper()
	closing := make(chan error, 1)
	d.nodes.Go(func() error { closing <- d.Close(); return nil })
	if err := d.returned(closing); err != nil {
		d.t.Error(err)
	}
}

// A node that hangs blocks neither commands on other nodes nor Close, and a command on it ends
// with its context.
func TestHangingNodeBlocksNothingElse(t *testing.T) {
	d := newDialled(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hanging := d.exec(ctx, "hanging")
	d.next() // nothing answers it
	other := d.exec(t.Context(), "other")
	d.answer(d.next())
	if err := d.returned(other); err != nil {
		t.Error(err)
	}
	d.closeAll()
	cancel()
	if err := d.returned(hanging); !errors.Is(err, context.Canceled) {
		t.Errorf("a command whose context ended while its node hung returned %v", err)
	}
}

// Two commands that connect to a node at once dial side by side, and share one connection
// afterwards.
func TestDialsSideBySide(t *testing.T) {
	d := newDialled(t)
	first, second := d.exec(t.Context(), "worker01"), d.exec(t.Context(), "worker01")
	for _, c := range []dial{d.next(), d.next()} {
		d.answer(c)
	}
	if err := errors.Join(d.returned(first), d.returned(second), d.returned(d.exec(t.Context(), "worker01"))); err != nil {
		t.Error(err)
	}
	if len(d.dials) > 0 {
		t.Error("a third command dialled again")
	}
}

// A connection that was opened while Close was called is not kept.
func TestCloseDropsDials(t *testing.T) {
	d := newDialled(t)
	late := d.exec(t.Context(), "worker01")
	c := d.next()
	d.closeAll()
	d.answer(c)
	if err := d.returned(late); err == nil {
		t.Error("a command ran on a connection of before Close")
	}
	if len(d.clients) > 0 {
		t.Error("the connection is kept")
	}
	again := d.exec(t.Context(), "worker01")
	d.answer(d.next())
	if err := d.returned(again); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// A process that answers on the lab's socket without the supervisor's host key gets no command.
func TestHostKeyIsChecked(t *testing.T) {
	d := newDialled(t)
	other, err := newKeyPair("another")
	if err != nil {
		t.Fatal(err)
	}
	d.host = other.signer
	done := d.exec(t.Context(), "worker01")
	d.answer(d.next())
	if err := d.returned(done); err == nil || !strings.Contains(err.Error(), "host key") {
		t.Errorf("a command to another host key returned %v", err)
	}
}

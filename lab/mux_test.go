package lab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
)

// serveNode is a fake of a node's sshd. A command prints its input in capitals,
// and itself on standard error, and exits with 7.
func serveNode(conn net.Conn, host ssh.Signer) error {
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(host)
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.Go(func() error { ssh.DiscardRequests(requests); return nil })
	for offer := range channels {
		if offer.ChannelType() != "session" {
			_ = offer.Reject(ssh.UnknownChannelType, "no such thing")
			continue
		}
		ch, requests, err := offer.Accept()
		if err != nil {
			return err
		}
		g.Go(func() error { return serveSession(ch, requests) })
	}
	return g.Wait()
}

func serveSession(ch ssh.Channel, requests <-chan *ssh.Request) error {
	defer ch.Close()
	for r := range requests {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		_, _ = ch.Stderr().Write(r.Payload[4:])
		input, err := io.ReadAll(ch)
		if err != nil {
			return err
		}
		_, _ = ch.Write(bytes.ToUpper(input))
		_, err = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, 7))
		return err
	}
	return nil
}

// muxed returns a client that reaches a node through serveSSH.
func muxed(t *testing.T) *ssh.Client {
	t.Helper()
	key, err := newKeyPair("test")
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	toNode, node := socketPair(t)
	g.Go(func() error { _ = serveNode(node, key.signer); return nil })
	far := dialSSH(t, toNode)
	toMux, mux := socketPair(t)
	g.Go(func() error { _ = serveSSH(mux, key.signer, far); return nil })
	near := dialSSH(t, toMux)
	t.Cleanup(func() {
		near.Close()
		far.Close()
		_ = g.Wait()
	})
	return near
}

func dialSSH(t *testing.T, conn net.Conn) *ssh.Client {
	t.Helper()
	c, channels, requests, err := ssh.NewClientConn(conn, "test", &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	return ssh.NewClient(c, channels, requests)
}

func socketPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestMuxCarriesStreamsAndStatus(t *testing.T) {
	client := muxed(t)
	blob := strings.Repeat("a line of input\n", 1<<16)
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			session, err := client.NewSession()
			if err != nil {
				return err
			}
			defer session.Close()
			var out, errs bytes.Buffer
			session.Stdin, session.Stdout, session.Stderr = strings.NewReader(blob), &out, &errs
			err = session.Run("shout")
			var exit *ssh.ExitError
			if !errors.As(err, &exit) || exit.ExitStatus() != 7 {
				t.Errorf("the exit status is lost: %v", err)
			}
			if out.String() != strings.ToUpper(blob) || errs.String() != "shout" {
				t.Errorf("%d bytes of output, %q", out.Len(), errs.String())
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestMuxPassesRefusalsOn(t *testing.T) {
	client := muxed(t)
	_, _, err := client.OpenChannel("direct-nowhere", nil)
	var refused *ssh.OpenChannelError
	if !errors.As(err, &refused) || refused.Reason != ssh.UnknownChannelType {
		t.Errorf("a refusal: %v", err)
	}
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Setenv("A", "b"); err == nil {
		t.Error("the node's no became a yes")
	}
}

package lab

import (
	"errors"
	"io"
	"net"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
)

// serveSSH answers a client on conn as an SSH server and carries its channels over to a node.
// The supervisor keeps one connection to each node, so a caller pays no handshake with an
// emulated machine.
//
// serveSSH does not authenticate the client: every process that reaches the supervisor's socket
// may use the lab.
func serveSSH(conn net.Conn, host ssh.Signer, node *ssh.Client) error {
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(host)
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return err
	}
	defer server.Close()
	var g errgroup.Group
	g.Go(func() error { ssh.DiscardRequests(requests); return nil })
	for offer := range channels {
		g.Go(func() error { return carryChannel(offer, node) })
	}
	return g.Wait()
}

// carryChannel opens on the node the channel that the client asks for, and copies
// both directions until both are closed.
func carryChannel(offer ssh.NewChannel, node *ssh.Client) error {
	far, farRequests, err := node.OpenChannel(offer.ChannelType(), offer.ExtraData())
	var refused *ssh.OpenChannelError
	switch {
	case errors.As(err, &refused):
		return offer.Reject(refused.Reason, refused.Message)
	case err != nil:
		return offer.Reject(ssh.ConnectionFailed, err.Error())
	}
	near, nearRequests, err := offer.Accept()
	if err != nil {
		return errors.Join(err, far.Close())
	}
	var toNode, toClient errgroup.Group
	toNode.Go(func() error {
		_, err := io.Copy(far, near)
		return errors.Join(err, far.CloseWrite())
	})
	toNode.Go(func() error { // ends when the client closes the channel or disconnects
		return errors.Join(carryRequests(far, nearRequests), far.Close())
	})
	output := new(errgroup.Group)
	output.Go(func() error { _, err := io.Copy(near, far); return err })
	output.Go(func() error { _, err := io.Copy(near.Stderr(), far.Stderr()); return err })
	toClient.Go(func() error { return carryRequests(near, farRequests) }) // the exit status among them
	toClient.Go(func() error { return errors.Join(output.Wait(), near.CloseWrite()) })
	_ = toClient.Wait() // the end of either side ends the channel
	_ = near.Close()
	_ = far.Close()
	_ = toNode.Wait()
	return nil
}

func carryRequests(to ssh.Channel, requests <-chan *ssh.Request) error {
	for r := range requests {
		ok, err := to.SendRequest(r.Type, r.WantReply, r.Payload)
		if r.WantReply {
			err = errors.Join(err, r.Reply(ok, nil))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

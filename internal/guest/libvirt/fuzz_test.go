package libvirt_test

import (
	"context"
	"encoding/binary"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/guest/libvirt"
)

// answerOnce serves one connection: it answers the handshake, and the first other call with a
// packet of the given length, status and body. Then it closes the connection.
func answerOnce(l net.Listener, length, status uint32, body []byte) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	for {
		var size uint32
		var h header
		if binary.Read(c, binary.BigEndian, &size) != nil || binary.Read(c, binary.BigEndian, &h) != nil {
			return
		}
		in := make([]byte, size-28)
		if _, err := c.Read(in); err != nil && len(in) > 0 {
			return
		}
		h.Type = 1
		switch h.Procedure {
		case authList:
			send(c, h, xdr(uint32(1), uint32(0)))
			continue
		case connectOpen:
			send(c, h, nil)
			continue
		}
		h.Status = status
		_ = binary.Write(c, binary.BigEndian, length)
		_ = binary.Write(c, binary.BigEndian, h)
		_, _ = c.Write(body)
		return
	}
}

// FuzzAnswer: no answer to a call makes the client panic or allocate without a bound, and the
// call returns.
func FuzzAnswer(f *testing.F) {
	f.Add(uint32(5), uint32(0), []byte(nil))                                     // shorter than a header
	f.Add(uint32(0xffffffff), uint32(0), []byte(nil))                            // larger than any packet
	f.Add(uint32(36), uint32(0), []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0})     // more guests than bytes
	f.Add(uint32(36), uint32(0), []byte{0, 0, 0, 0, 0, 0, 0, 0})                 // no guest
	f.Add(uint32(36), uint32(1), []byte{0, 0, 0, 42, 0, 0, 0, 10})               // half an error
	f.Add(uint32(40), uint32(0), []byte{0, 0, 0, 1, 0, 0, 0, 200, 0, 0, 0, 'a'}) // half a name
	f.Fuzz(func(t *testing.T, length, status uint32, body []byte) {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "sock"))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			answerOnce(l, length, status, body)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if c, err := libvirt.Dial(ctx, l.Addr().String()); err == nil {
			_, _ = c.Guests(ctx)
			if ctx.Err() != nil {
				t.Error("the call did not return before its bound")
			}
			_ = c.Close()
		}
		_ = l.Close()
		<-done
	})
}

package libvirt_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/culvert-net/culvert/internal/guest/libvirt"
)

// The procedures of libvirt's remote protocol that the client calls, and messages
// that a server sends by itself (src/remote/remote_protocol.x).
const (
	connectOpen, connectClose, authList          = 1, 2, 66
	getXML, getAutostart, lookupName, lookupUUID = 14, 15, 23, 24
	setAutostart, isPersistent                   = 29, 151
	attachDevice, detachDevice                   = 160, 161
	create, getState, undefine, destroy          = 196, 212, 231, 234
	shutdown, listAll, registerEvents, defineXML = 258, 273, 316, 350
	lifecycleMessage, removedMessage             = 318, 333
)

// domain is a guest of the fake server.
type domain struct {
	id         byte // of its UUID
	name       string
	state      uint32
	autostart  uint32
	persistent uint32
}

// server speaks as much of libvirt's protocol as the client needs: packets of
// a length, six words of header and a body in XDR.
type server struct {
	t    *testing.T
	path string

	mu      sync.Mutex // guards what follows
	domains []domain
	calls   []string
	hangs   uint32            // the procedure that gets no answer
	refuses map[uint32]string // procedures that fail, with what message
	unknown uint32            // the flags that undefine does not know
	conns   []net.Conn
}

func serve(t *testing.T, domains ...domain) *server {
	t.Helper()
	s := &server{t: t, path: filepath.Join(t.TempDir(), "sock"), domains: domains, refuses: map[uint32]string{}}
	l, err := net.Listen("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Add(1)
	go func() {
		defer conns.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			conns.Add(1)
			go func() {
				defer conns.Done()
				s.talk(c)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		s.drop()
		conns.Wait()
	})
	return s
}

// drop ends every connection, as a libvirtd that is stopped does.
func (s *server) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
}

func (s *server) dial() *libvirt.Client {
	s.t.Helper()
	c, err := libvirt.Dial(s.t.Context(), s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

type header struct{ Program, Version, Procedure, Type, Serial, Status uint32 }

func (s *server) talk(c net.Conn) {
	for {
		var length uint32
		var h header
		if binary.Read(c, binary.BigEndian, &length) != nil || binary.Read(c, binary.BigEndian, &h) != nil {
			return
		}
		body := make([]byte, length-28)
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		s.answer(c, h, args{body})
	}
}

func (s *server) answer(c io.Writer, h header, in args) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.Procedure == s.hangs {
		return
	}
	h.Type = 1
	if message, refused := s.refuses[h.Procedure]; refused {
		h.Status = 1
		send(c, h, failed(38, message))
		return
	}
	if h.Procedure == undefine && binary.BigEndian.Uint32(in.left[len(in.left)-4:])&s.unknown != 0 {
		h.Status = 1
		send(c, h, failed(8, "unsupported flags (0x40) in function qemuDomainUndefineFlags")) // VIR_ERR_INVALID_ARG
		return
	}
	out, found := s.do(h.Procedure, in)
	if !found {
		h.Status = 1
		out = failed(42, "Domain not found") // VIR_ERR_NO_DOMAIN
	}
	send(c, h, out)
}

func failed(code uint32, message string) []byte {
	return xdr(code, uint32(10), uint32(1), message, uint32(2))
}

func (s *server) do(procedure uint32, in args) (out []byte, found bool) {
	called := func(format string, args ...any) { s.calls = append(s.calls, fmt.Sprintf(format, args...)) }
	switch procedure {
	case authList:
		return xdr(uint32(1), uint32(0)), true
	case connectOpen, connectClose:
		return nil, true
	case registerEvents:
		return xdr(in.number() + 100), true // the callback's ID is that of the event, and 100
	case listAll:
		all := []any{uint32(len(s.domains))}
		for _, d := range s.domains {
			all = append(all, d)
		}
		return xdr(append(all, uint32(len(s.domains)))...), true
	case lookupName:
		name := in.text()
		return s.domain(func(d domain) bool { return d.name == name })
	case lookupUUID:
		id := in.uuid()
		return s.domain(func(d domain) bool { return d.id == id })
	case defineXML:
		called("define %s", in.text())
		return xdr(s.domains[0]), true
	}
	name, id, _ := in.text(), in.uuid(), in.number()
	i := slices.IndexFunc(s.domains, func(d domain) bool { return d.id == id && d.name == name })
	if i < 0 {
		return nil, false
	}
	d := s.domains[i]
	switch procedure {
	case getState:
		return xdr(d.state, uint32(0)), true
	case getAutostart:
		return xdr(d.autostart), true
	case isPersistent:
		return xdr(d.persistent), true
	case getXML:
		return xdr(fmt.Sprintf("<domain flags='%d'/>", in.number())), true
	case create:
		called("start %s", name)
		return xdr(d), true
	case attachDevice, detachDevice:
		called("%s %s %s %d", map[uint32]string{attachDevice: "attach", detachDevice: "detach"}[procedure], name, in.text(), in.number())
		return nil, true
	}
	called("%s %s %d", map[uint32]string{setAutostart: "autostart", undefine: "undefine", destroy: "destroy", shutdown: "shutdown"}[procedure], name, in.number())
	return nil, true
}

func (s *server) domain(is func(domain) bool) ([]byte, bool) {
	i := slices.IndexFunc(s.domains, is)
	if i < 0 {
		return nil, false
	}
	return xdr(s.domains[i]), true
}

// say sends a message that is no answer to every connection.
func (s *server) say(procedure uint32, body ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		send(c, header{Program: 0x20008086, Version: 1, Procedure: procedure, Type: 2}, xdr(body...))
	}
}

func send(w io.Writer, h header, body []byte) {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.BigEndian, uint32(28+len(body)))
	_ = binary.Write(&b, binary.BigEndian, h)
	b.Write(body)
	_, _ = w.Write(b.Bytes())
}

// xdr encodes words, texts and domains (RFC 4506).
func xdr(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		switch v := v.(type) {
		case uint32:
			_ = binary.Write(&b, binary.BigEndian, v)
		case string:
			_ = binary.Write(&b, binary.BigEndian, uint32(len(v)))
			b.WriteString(v)
			b.Write(make([]byte, (4-len(v)%4)%4))
		case domain:
			b.Write(xdr(v.name))
			b.Write(bytes.Repeat([]byte{v.id}, 16))
			b.Write(xdr(uint32(1)))
		}
	}
	return b.Bytes()
}

// args are a call's, read from the front.
type args struct{ left []byte }

func (a *args) number() uint32 {
	n := binary.BigEndian.Uint32(a.left)
	a.left = a.left[4:]
	return n
}

func (a *args) text() string {
	n := int(a.number())
	s := string(a.left[:n])
	a.left = a.left[(n+3)/4*4:]
	return s
}

func (a *args) uuid() byte {
	id := a.left[0]
	a.left = a.left[16:]
	return id
}

package skew

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// tap is a socket that passes connections on to a node, and keeps the request of each.
type tap struct {
	dir string

	mu   sync.Mutex // guards said
	said []string
}

// listen returns a tap of a node.
func listen(t *testing.T, n *node) *tap {
	t.Helper()
	p := &tap{dir: newDir(t)}
	to := n.socket()
	l, err := net.Listen("unix", filepath.Join(p.dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(c, to)
		}
	}()
	return p
}

func (p *tap) pass(from net.Conn, socket string) {
	defer from.Close()
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer to.Close()
	in := bufio.NewReader(from)
	request, err := in.ReadString('\n')
	if err != nil {
		return
	}
	p.mu.Lock()
	p.said = append(p.said, request)
	p.mu.Unlock()
	_, _ = io.WriteString(to, request)
	go func() { _, _ = io.Copy(to, in) }()
	_, _ = io.Copy(from, to)
}

func (p *tap) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// replay sends a request as it was recorded, and returns the first answer.
func replay(t *testing.T, socket, request string) string {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, request)
	}
	return answer
}

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

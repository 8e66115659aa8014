package socket

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// serveLong answers each connection with its own address and then sends back what it receives. end
// makes it behave like a pod that is shutting down: it accepts no new connections, and its open
// ones go on.
func (w *world) serveLong(p balance.Pod, at string) (end func()) {
	w.t.Helper()
	var l net.Listener
	w.in(p, func() (err error) {
		l, err = net.Listen("tcp", at)
		return err
	})
	w.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				_, _ = c.Write([]byte(at))
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return func() { _ = l.Close() }
}

// dial connects, and returns the connection and who answered.
func (w *world) dial(p balance.Pod, to string) (c net.Conn, who string) {
	w.t.Helper()
	w.in(p, func() (err error) {
		c, err = (&net.Dialer{Timeout: patience}).Dial("tcp", to)
		return err
	})
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	b := make([]byte, 64)
	n, err := c.Read(b)
	if err != nil {
		w.t.Fatal(err)
	}
	return c, string(b[:n])
}

// echo sends a byte over a connection and returns an error unless it comes back.
func echo(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(patience))
	b := []byte("x")
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}

// TestDeletedOneByOne: the backends of a Service are deleted one by one while a pod connects. Each
// stops listening as soon as the kernel has the table without it. No new connection fails as long as
// one backend is left, and a connection that was made before goes on until the backend ends it.
// Without a backend the pod is refused at once.
func TestDeletedOneByOne(t *testing.T) { byBoth(t, tryDeletedOneByOne) }

func tryDeletedOneByOne(t *testing.T, w *world, b balancer) {
	all := []string{"172.16.91.1:80", "172.16.91.2:80", "172.16.91.3:80", "172.16.91.4:80"}
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32", "172.16.91.3/32", "172.16.91.4/32")
	ends := map[string]func(){}
	for _, at := range all {
		ends[at] = w.serveLong(p, at)
	}
	const cluster = "10.96.0.1:80"
	f := frontend(balance.TCP, cluster)
	w.apply(b, tableOf(p, f, ruleTo(all...)))
	held := map[string]net.Conn{} // a connection to each backend
	for len(held) < len(all) {
		c, who := w.dial(p, cluster)
		held[who] = c
	}

	var ended atomic.Int64 // calls
	done := make(chan error, 1)
	go func() { done <- deleteOneByOne(b, p, f, all, ends, &ended) }()
	left := map[string]int{}
	for running := true; running; ended.Add(1) {
		who, _, err := w.call(p, cluster)
		if err != nil {
			t.Fatalf("call %d: %v", ended.Load(), err)
		}
		left[who]++
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
	}
	t.Logf("%d calls, answered by %v", ended.Load(), left)
	w.apply(b, tableOf(p, f, ruleTo()))
	if who, _, err := w.call(p, cluster); !isRefused(err) {
		t.Errorf("without a backend: answered by %q, %v; want it refused", who, err)
	}
	for who, c := range held {
		if err := echo(c); err != nil {
			t.Errorf("the connection to %s, which was made before the backend was deleted: %v", who, err)
		}
	}
}

// deleteOneByOne takes one backend after the other out of the table, and keeps the last. It ends
// each removed backend once no call is under way that began with the former table. ended counts the
// finished calls, which the client makes one after the other.
func deleteOneByOne(b balancer, p balance.Pod, f balance.Frontend, all []string, ends map[string]func(), ended *atomic.Int64) error {
	awaitCall := func() error {
		before := ended.Load()
		for bound := time.Now().Add(patience); ended.Load() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(bound) {
				return fmt.Errorf("no call ends within %v", patience)
			}
		}
		return nil
	}
	for i := range len(all) - 1 {
		if err := b.Apply(tableOf(p, f, ruleTo(all[i+1:]...))); err != nil {
			return err
		}
		if err := awaitCall(); err != nil {
			return err
		}
		ends[all[i]]()
		for range 3 {
			if err := awaitCall(); err != nil {
				return err
			}
		}
	}
	return nil
}

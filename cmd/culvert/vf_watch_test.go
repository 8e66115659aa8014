package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/rpcserver"
)

// lines is an output that a test reads while a command writes it.
type lines struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// await waits until the output has text.
func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	for range 3000 {
		l.mu.Lock()
		has := strings.Contains(l.b.String(), text)
		l.mu.Unlock()
		if has {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Fatalf("%q did not come: %s", text, l.b.String())
}

// changing is a culvertd whose status a test changes.
type changing struct {
	mu     sync.Mutex // guards status
	status api.NodeStatus
	events chan struct{}
}

func (c *changing) set(change func(*api.NodeStatus)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.status)
}

// listen serves at socket until the returned function is called.
func (c *changing) listen(t *testing.T, socket string) (stop func()) {
	t.Helper()
	srv := rpc.NewServer(func(*net.UnixConn) error { return nil }, slog.New(slog.DiscardHandler))
	srv.Handle(api.MethodStatus, func(context.Context, json.RawMessage) (any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		raw, err := json.Marshal(c.status)
		return json.RawMessage(raw), err
	})
	srv.HandleStream(api.MethodEvents, func(ctx context.Context, _ json.RawMessage, send func(any) error) error {
		for seq := uint64(1); ; seq++ {
			select {
			case <-ctx.Done():
				return nil
			case <-c.events:
				if err := send(api.Event{Seq: seq}); err != nil {
					return err
				}
			}
		}
	})
	l, err := rpc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.Serve(ctx, l) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// watch runs culvert vf watch, whose interval is long unless the arguments name one: changes come by
// events. The returned function interrupts it.
func (c *changing) watch(t *testing.T, socket string, out, said *lines, args ...string) (interrupt func()) {
	ctx, cancel := context.WithCancel(t.Context())
	root := newRoot()
	root.SetOut(out)
	root.SetErr(said)
	root.SetArgs(append([]string{"--socket", socket, "vf", "watch"}, args...))
	done := make(chan error)
	go func() { done <- root.ExecuteContext(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("an interrupt is an error: %v", err)
		}
	}
}

func newChanging() *changing {
	id := vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 1}}}
	v := api.VF{Name: "enp1s0#0", ID: id, PF: "enp1s0", Phase: "free"}
	return &changing{status: api.NodeStatus{Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), PFs: []api.PF{}, VFs: []api.VF{v}}, events: make(chan struct{})}
}

// A change is written at its event, as a line of JSON, and an interrupt ends the command with status 0.
func TestWatchByEvent(t *testing.T) {
	c, socket := newChanging(), rpcserver.Socket(t)
	defer c.listen(t, socket)()
	var out, said lines
	interrupt := c.watch(t, socket, &out, &said, "-o", "json", "--interval", "1h")
	out.await(t, `{"time":"2026-11-21T12:00:00Z","op":"+","vf":"enp1s0#0","changes":[{"op":"~","attribute":"phase","to":"free"}]}`+"\n")
	c.set(func(st *api.NodeStatus) {
		st.VFs[0].Phase, st.VFs[0].Owner = "attached", &vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}
	})
	c.events <- struct{}{}
	out.await(t, `"op":"~","vf":"enp1s0#0","changes":[{"op":"~","attribute":"phase","from":"free","to":"attached"},{"op":"~","attribute":"owner","to":"pod default/a"}]}`+"\n")
	interrupt()
}

// The command waits for a culvertd that restarts, and goes on with what changed meanwhile.
func TestWatchThroughRestart(t *testing.T) {
	c, socket := newChanging(), rpcserver.Socket(t)
	stop := c.listen(t, socket)
	var out, said lines
	interrupt := c.watch(t, socket, &out, &said, "--interval", "500ms")
	out.await(t, "2026-11-21 12:00:00 + enp1s0#0  phase free\n")
	stop()
	said.await(t, "culvertd does not answer on "+socket+": waiting for it\n")
	c.set(func(st *api.NodeStatus) { st.VFs = nil })
	defer c.listen(t, socket)()
	said.await(t, "culvertd answers again\n")
	out.await(t, "2026-11-21 12:00:00 - enp1s0#0\n")
	interrupt()
}

// Without culvertd the command does not begin.
func TestWatchNothing(t *testing.T) {
	var out, said lines
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&said)
	root.SetArgs([]string{"--socket", rpcserver.Socket(t), "vf", "watch"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "culvertd does not answer") {
		t.Errorf("%v", err)
	}
}

// On a terminal the list is drawn anew, and the row that changed has a mark.
func TestWatchAtATerminal(t *testing.T) {
	c, socket := newChanging(), rpcserver.Socket(t)
	defer c.listen(t, socket)()
	term := openTerminal(t)
	culvert := term.start(t, "--socket", socket, "vf", "watch", "--interval", "1h")
	term.await(t, "\n  enp1s0#0  ")
	c.set(func(st *api.NodeStatus) { st.VFs[0].Phase = "quarantined" })
	c.events <- struct{}{}
	term.await(t, "\n~ enp1s0#0  ")
	term.await(t, "CHANGED\r\n2026-11-21 12:00:00 ~ enp1s0#0 phase free -> quarantined")
	term.typeKeys(t, "\x03")
	if shown, err := term.wait(culvert); err != nil {
		t.Errorf("an interrupt is an error: %v: %s", err, shown)
	}
}

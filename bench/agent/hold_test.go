package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
)

// A sender that is held sends nothing until it is released, and then sends like any other. If it is
// stopped before, it leaves nothing behind.
func TestHold(t *testing.T) {
	p := newPair(t)
	from, _ := startAgent(t, p.netns[0])
	to, _ := startAgent(t, p.netns[1])
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	w := bench.Workload{Kind: bench.Packets, Engine: "culvert", Rate: 5000, Seconds: 1}
	begin := func(hold bool) (sender, receiver *Part) {
		receiver, err := to.Receive(ctx, p.makeTask(w, 1))
		if err != nil {
			t.Fatal(err)
		}
		task := p.makeTask(w, 0)
		task.Hold = hold
		if sender, err = from.Send(ctx, task, receiver.Ready()); err != nil {
			t.Fatal(err)
		}
		return sender, receiver
	}
	sender, receiver := begin(true)
	if err := sender.Held(ctx); err != nil {
		t.Fatal(err)
	}
	// No traffic begins, for a moment at least.
	moment, done := context.WithTimeout(ctx, 300*time.Millisecond)
	defer done()
	if window, err := receiver.Window(moment); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before it was released: %+v, %v", window, err)
	}
	for range 2 { // a second Release is no error
		if err := sender.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	_, sentErr := sender.Finish(ctx)
	received, receivedErr := receiver.Finish(ctx)
	if sentErr != nil || receivedErr != nil || len(received.To.Interfaces) != 1 || received.To.Interfaces[0].RxPackets == 0 {
		t.Errorf("%v, %v, %+v", sentErr, receivedErr, received)
	}

	sender, receiver = begin(true)
	if err := errors.Join(sender.Held(ctx), sender.Stop(ctx)); err != nil {
		t.Error(err)
	}
	if _, err := receiver.Window(ctx); err == nil { // it has ended then, and by itself
		t.Error("its sender was stopped, and the receiver has a window")
	}
	if err := receiver.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := sender.Release(ctx); err == nil {
		t.Error("what was stopped can be released")
	}

	sender, receiver = begin(false)
	if err := sender.Release(ctx); err == nil || !strings.Contains(err.Error(), "does not wait") {
		t.Errorf("release what is not held: %v", err)
	}
	if err := errors.Join(sender.Stop(ctx), receiver.Stop(ctx)); err != nil {
		t.Error(err)
	}

	w.Engine, w.Kind = "iperf3", bench.Stream
	task := p.makeTask(w, 0)
	task.Hold = true
	needProgram(t, "iperf3")
	version, err := iperf3Version(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from.Send(ctx, task, Ready{Engine: "iperf3", Version: version, Ports: []uint16{1}}); err == nil || !strings.Contains(err.Error(), "begin together") {
		t.Errorf("an engine that does not wait: %v", err)
	}
}

package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// TestOmission has one answer of a thousand a second take as long as three hundred
// questions: all of them waited, not only the one.
func TestOmission(t *testing.T) {
	const stall, questions = 300 * time.Millisecond, 50
	here, there := net.Pipe()
	a := newAsker([]net.Conn{here}, 1, bench.Workload{Size: headerSize, Rate: 1000})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return a.run(ctx) })
	a.mark(true)
	question := make([]byte, headerSize)
	for i := range questions {
		if _, err := io.ReadFull(there, question); err != nil {
			t.Fatal(err)
		}
		if i == questions-1 {
			time.Sleep(stall)
		}
		if _, err := there.Write(question); err != nil {
			t.Fatal(err)
		}
	}
	a.window.mark(false)
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	var run bench.Run
	if err := a.add(&run); err != nil {
		t.Fatal(err)
	}
	late := uint64(0)
	for _, bar := range a.counts[0].delays.Distribution() {
		if bar.From >= stall.Nanoseconds()/3 {
			late += uint64(bar.Count)
		}
	}
	if late < 150 {
		t.Errorf("%d of %d questions waited for a third of the stall, want 200: %+v", late, run.Delays.Count, run.Delays)
	}
}

// TestHear has answers that are none.
func TestHear(t *testing.T) {
	const session = 5
	header := func(session, number uint64) []byte {
		b := make([]byte, headerSize)
		putHeader(b, session, number)
		return b
	}
	here, there := net.Pipe()
	defer here.Close()
	var g errgroup.Group
	g.Go(func() error {
		for _, b := range [][]byte{[]byte("short"), header(6, 3), header(session, 2), header(session, 3)} {
			if _, err := there.Write(b); err != nil {
				return err
			}
		}
		return there.Close()
	})
	answer := make([]byte, headerSize)
	if err := hear(here, answer, session, 3); err != nil {
		t.Errorf("strangers and late answers before the right one: %v", err)
	}
	if err := hear(here, answer, session, 4); !errors.Is(err, io.EOF) {
		t.Errorf("with nothing more to come: %v", err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

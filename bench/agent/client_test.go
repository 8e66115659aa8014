package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench/engine"
)

// speakingPipe returns a pipe whose other end speak serves.
func speakingPipe(t *testing.T, speak func(net.Conn)) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	go speak(there)
	t.Cleanup(func() {
		here.Close()
		there.Close()
	})
	return here
}

func TestGreeting(t *testing.T) {
	for _, c := range []struct{ name, says, want string }{
		{"no agent", "Last login: Tuesday\n", `what answers is no agent, it said "Last login: Tuesday"`},
		{"other JSON", "{\"a\":1}\n", "what answers is no agent"},
		{"another protocol", `{"culvertBenchAgent":99,"version":"v9"}` + "\n", fmt.Sprintf("the agent is of culvert v9 and speaks protocol 99, and this program %d: use one version of culvert at all ends", Protocol)},
		{"nothing", "", "the agent is gone before it did"},
	} {
		_, err := NewClient(t.Context(), speakingPipe(t, func(there net.Conn) {
			_, _ = io.WriteString(there, c.says)
			there.Close()
		}))
		checkRefusal(t, c.name, err, c.want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := NewClient(ctx, speakingPipe(t, func(net.Conn) {}))
	checkRefusal(t, "silence", err, "wait for the agent to speak: context deadline exceeded")
}

// TestAnswersOutOfOrder: each call gets the answer with its number, and a line that is not JSON
// ends all calls.
func TestAnswersOutOfOrder(t *testing.T) {
	pipe := speakingPipe(t, func(there net.Conn) {
		_ = json.NewEncoder(there).Encode(hello{Protocol: Protocol, Version: "x"})
		lines := bufio.NewScanner(there)
		var asked []request
		for len(asked) < 2 && lines.Scan() {
			var r request
			_ = json.Unmarshal(lines.Bytes(), &r)
			asked = append(asked, r)
		}
		for _, r := range []request{asked[1], asked[0]} {
			_ = json.NewEncoder(there).Encode(answer{ID: r.ID, Error: string(r.Do)})
		}
		lines.Scan()
		_, _ = io.WriteString(there, "panic: out of luck\n")
	})
	c, err := NewClient(t.Context(), pipe)
	if err != nil || c.Version() != "x" {
		t.Fatalf("%v, version %q", err, c.Version())
	}
	first := make(chan error)
	go func() { first <- c.askAgent(t.Context(), request{Do: describe}, nil) }()
	checkRefusal(t, "second", c.askAgent(t.Context(), request{Do: window}, nil), "window")
	checkRefusal(t, "first", <-first, "describe")
	_, err = c.Describe(t.Context(), "")
	checkRefusal(t, "noise", err, `ask the agent to describe: the agent is gone: it said "panic: out of luck"`)
	if !errors.Is(err, ErrGone) {
		t.Errorf("%v is no ErrGone", err)
	}
	_, err = c.Describe(t.Context(), "")
	checkRefusal(t, "afterwards", err, "the agent is gone")
}

// The conductor recognises the kind of an agent's error independently of its text.
func TestAnsweredErrorIsWhatItWas(t *testing.T) {
	for _, nothing := range []bool{true, false} {
		c, err := NewClient(t.Context(), speakingPipe(t, func(there net.Conn) {
			_ = json.NewEncoder(there).Encode(hello{Protocol: Protocol, Version: "x"})
			bufio.NewScanner(there).Scan()
			_ = json.NewEncoder(there).Encode(answer{ID: 1, Error: "no luck", Nothing: nothing})
		}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Describe(t.Context(), ""); err == nil || err.Error() != "no luck" || errors.Is(err, engine.ErrNothing) != nothing {
			t.Errorf("%v", err)
		}
	}
}

// The client gets the answer of an agent that leaves directly after it.
func TestLastAnswerIsHeard(t *testing.T) {
	for range 300 {
		c, err := NewClient(t.Context(), speakingPipe(t, func(there net.Conn) {
			_ = json.NewEncoder(there).Encode(hello{Protocol: Protocol, Version: "x"})
			bufio.NewScanner(there).Scan()
			_ = json.NewEncoder(there).Encode(answer{ID: 1, Error: "no luck"})
			there.Close()
		}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Describe(t.Context(), ""); err == nil || err.Error() != "no luck" {
			t.Fatal(err)
		}
	}
}

// TestRunEnds: an agent ends at the end of its input, and at a line that is no request.
func TestRunEnds(t *testing.T) {
	for in, want := range map[string]string{"": "", "hello\n": `the conductor said "hello", which is no request`, `{"do":"describe"}`: "which is no request"} {
		var out strings.Builder
		err := Run(t.Context(), strings.NewReader(in), &out, Options{Version: "x", Log: slog.New(slog.DiscardHandler)})
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", in, err)
		case want != "":
			checkRefusal(t, in, err, want)
		}
		if out.String() != fmt.Sprintf(`{"culvertBenchAgent":%d,"version":"x"}`+"\n", Protocol) {
			t.Errorf("it said %q", out.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent, _ := net.Pipe()
	defer silent.Close()
	if err := Run(ctx, silent, io.Discard, Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Error(err)
	}
}

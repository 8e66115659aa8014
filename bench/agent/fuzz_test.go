package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// FuzzRequests has a conductor write anything to an agent: each line that is a request is answered
// once, with its number, and the first line that is none ends the agent.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"id":1,"do":"finish","part":7}` + "\n" + `{"id":2,"do":"stop","part":7}` + "\n"))
	f.Add([]byte(`{"id":1,"do":"receive"}` + "\n" + `{"id":2,"do":"send","task":{}}` + "\n" + `{"id":3,"do":"watch","task":{}}`))
	f.Add([]byte(`{"id":1,"do":"receive","task":{"workload":{"kind":"stream","engine":"none","seconds":1}}}`))
	f.Add([]byte(`{"id":1,"do":"steer"}` + "\n" + `{"id":2,"do":"setUp"}`))
	f.Add([]byte(`{"id":18446744073709551615,"do":"boo"}` + "\n" + "hello\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		asked := map[uint64]int{}
		for line := range bytes.Lines(in) {
			r, err := parseRequest(bytes.TrimRight(line, "\r\n"))
			if err != nil {
				break
			}
			if isAct(r) {
				t.Skip("it would make traffic, or read this machine")
			}
			asked[r.ID]++
		}
		var out bytes.Buffer
		err := Run(t.Context(), bytes.NewReader(in), &out, Options{Version: "x", Log: slog.New(slog.DiscardHandler)})
		lines := json.NewDecoder(&out)
		var h hello
		if err := lines.Decode(&h); err != nil || h.Protocol != Protocol {
			t.Fatalf("%q: it greets with %+v: %v", in, h, err)
		}
		for {
			var a answer
			if err := lines.Decode(&a); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
			if asked[a.ID]--; asked[a.ID] < 0 {
				t.Errorf("%q: answer %d to no request", in, a.ID)
			}
		}
		for id, missing := range asked {
			if missing > 0 {
				t.Errorf("%q: request %d has no answer: %v", in, id, err)
			}
		}
	})
}

// isAct reports whether an agent does more for a request than answer it.
func isAct(r request) bool {
	switch r.Do {
	case describe, routes, vfs, rate, rates, lend:
		return true
	case setUp:
		return r.Setting != nil
	case steering:
		return r.Steering != nil
	case receive, send, forward, watch:
		if r.Task == nil || (r.Do == send || r.Do == forward) && r.To == nil || r.Do == watch && r.Watch == nil {
			return false // its task, receiver or window is missing
		}
		_, found := engine.FindEngine(r.Task.Workload.Engine)
		return r.Do == watch || len(r.Task.Watch) > 0 || found
	}
	return false
}

// FuzzAnswers has an agent, which may be a guest's or another machine's, say anything to the
// conductor: each call returns, with a value or an error.
func FuzzAnswers(f *testing.F) {
	greeting := fmt.Sprintf(`{"culvertBenchAgent":%d,"version":"x"}`+"\n", Protocol)
	f.Add([]byte(greeting + `{"id":1,"value":{"part":1,"ready":{"engine":"culvert","ports":[5201],"token":"t"}}}` + "\n" +
		`{"id":2,"value":{"opens":1,"closes":2,"in":1}}` + "\n" + `{"id":3,"value":{"seconds":1,"packets":2,"gbps":3}}` + "\n"))
	f.Add([]byte(greeting + `{"id":2,"error":"no luck","nothing":true}` + "\n" + `{"id":1}` + "\n" + "panic: out of luck\n"))
	f.Add([]byte("Last login: Tuesday\n"))
	f.Fuzz(func(t *testing.T, says []byte) {
		c, err := NewClient(t.Context(), speakingPipe(t, agentSays(says)))
		if err != nil {
			return
		}
		defer c.Close()
		part, err := c.Receive(t.Context(), Task{})
		if err != nil {
			return
		}
		if _, err := part.Window(t.Context()); err != nil && err.Error() == "" {
			t.Errorf("%q: an error without a text", says)
		}
		if r, err := part.Finish(t.Context()); err == nil {
			Join(r, bench.Run{})
			Join(bench.Run{}, r)
		}
	})
}

// agentSays returns an agent that writes a text: one line as it starts, and then for each request
// the lines up to its answer.
func agentSays(text []byte) func(net.Conn) {
	return func(there net.Conn) {
		defer there.Close()
		lines := bytes.SplitAfter(text, []byte("\n"))
		say := func() (a answer, more bool) {
			line := lines[0]
			lines = lines[1:]
			_, err := there.Write(line)
			_ = json.Unmarshal(line, &a) // a line that is no answer has no number
			return a, err == nil && len(lines) > 0
		}
		_, more := say()
		for asked := bufio.NewScanner(there); more && asked.Scan(); {
			var r request
			if err := json.Unmarshal(asked.Bytes(), &r); err != nil {
				return
			}
			for answered := false; more && !answered; {
				var a answer
				a, more = say()
				answered = a.ID == r.ID
			}
		}
	}
}

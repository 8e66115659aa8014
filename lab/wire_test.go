package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

func TestReadLineLeavesTheRest(t *testing.T) {
	r := strings.NewReader(`{"op":"ssh","node":"worker01"}` + "\nSSH-2.0-x")
	var got request
	if err := readLine(r, &got); err != nil || got != (request{Op: "ssh", Node: "worker01"}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if r.Len() != len("SSH-2.0-x") {
		t.Errorf("%d bytes are left", r.Len())
	}
}

func TestReadLineIsBounded(t *testing.T) {
	if err := readLine(strings.NewReader(strings.Repeat("x", lineLimit+2)), new(request)); err == nil {
		t.Error("an endless line was read")
	}
}

// TestMonitor talks to a fake QEMU, which sends events between a command and its answer, refuses
// a command, and ends.
func TestMonitor(t *testing.T) {
	ours, theirs := net.Pipe()
	events := make(chan string, 4)
	m := newMonitor(ours, func(name, reason string) { events <- name + " " + reason })
	var g errgroup.Group
	g.Go(func() error { _ = m.readMessages(); return nil })
	g.Go(func() error {
		in := json.NewDecoder(theirs)
		for _, answer := range []string{
			`{"event":"RESUME","data":{}}{"return":{}}`,
			`{"error":{"class":"DeviceNotFound","desc":"no pf9"}}`,
			`{"event":"SHUTDOWN","data":{"guest":true,"reason":"guest-reset"}}`,
		} {
			var command map[string]any
			if err := in.Decode(&command); err != nil {
				return err
			}
			if _, err := theirs.Write([]byte(answer)); err != nil {
				return err
			}
		}
		return theirs.Close()
	})
	if err := m.negotiateCapabilities(); err != nil {
		t.Error(err)
	}
	if err := m.setLink("pf9", false); err == nil || !strings.Contains(err.Error(), "no pf9") {
		t.Errorf("a refusal: %v", err)
	}
	if err := m.setLink("pf1", false); err == nil {
		t.Error("an end in place of an answer went unnoticed")
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"RESUME ", "SHUTDOWN guest-reset"} {
		if got := <-events; got != want {
			t.Errorf("event %q, want %q", got, want)
		}
	}
}

// parseStep returns the seconds and the text of the one line that Steps have written. The machine
// may be busy, so tests only check bounds of the time.
func parseStep(line string) (after float64, text string) {
	seconds, text, found := strings.Cut(strings.TrimLeft(line, " "), "s  ")
	after, err := strconv.ParseFloat(seconds, 64)
	if err != nil || !found || !strings.HasSuffix(text, "\n") {
		return math.NaN(), ""
	}
	return after, strings.TrimSuffix(text, "\n")
}

func TestStepLines(t *testing.T) {
	var b bytes.Buffer
	s, end := stepsTo(&b)
	s.Step("one %d", 1)
	end()
	end()
	if after, text := parseStep(b.String()); !(after >= 0 && after < 60) || text != "one 1" {
		t.Errorf("%q", b.String())
	}
	silent, end := stepsTo(nil)
	silent.Step("x")
	end()
}

// If the Progress of a lab is a caller's Steps, the steps of the lab have the times of the
// caller's clock, which keeps running.
func TestStepsOfACaller(t *testing.T) {
	var b bytes.Buffer
	callers := NewSteps(&b, false)
	defer callers.Close()
	callers.start = callers.start.Add(-time.Minute)
	s, end := stepsTo(callers)
	s.Step("booting 2 nodes (tcg)")
	end()
	if after, text := parseStep(b.String()); !(after >= 60 && after < 120) || text != "booting 2 nodes (tcg)" {
		t.Errorf("%q", b.String())
	}
	select {
	case <-callers.stop:
		t.Error("the caller's clock has stopped")
	default:
	}
}

// Steps prints a sign of life only after a time without output.
func TestSignOfLifeAfterSilence(t *testing.T) {
	var out bytes.Buffer
	s := NewSteps(&out, false)
	s.Step("a")
	began := s.began
	fmt.Fprint(s, "it says something\n")
	s.mu.Lock()
	s.said = began.Add(quietTick / 2)
	s.mu.Unlock()
	for _, after := range []time.Duration{quietTick, 2 * quietTick, 5 * quietTick / 2} {
		s.showProgress(began.Add(after))
	}
	s.Close()
	if n := strings.Count(out.String(), "still: a"); n != 1 {
		t.Errorf("%d signs of life, want the one after 20 s: %s", n, out.String())
	}
}

func TestFollowBuild(t *testing.T) {
	var b bytes.Buffer
	p, end := stepsTo(&b)
	defer end()
	tail := followBuild(strings.NewReader("I: running apt-get update...\nI: running --customize-hook in shell: x\nE: it broke\n"), p)
	if tail != "E: it broke" || strings.Count(b.String(), "\n") != 1 || !strings.HasSuffix(b.String(), "running apt-get update\n") {
		t.Errorf("tail %q, shown %q", tail, b.String())
	}
}

func TestQuoteArgs(t *testing.T) {
	if got, want := quoteArgs([]string{"a b", "it's", "$x", ""}), `'a b' 'it'\''s' '$x' ''`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestComplaint(t *testing.T) {
	for messages, want := range map[string]string{
		"": "exit status 1",
		"qemu-system-x86_64: warning: w\nqemu-system-x86_64: error: failed to set MSR\nqemu-system-x86_64: Assertion\n": "failed to set MSR",
		"qemu-system-x86_64: warning: w\nqemu-system-x86_64: no such tap\n":                                             "no such tap",
	} {
		if got := findComplaint(messages, "exit status 1"); got != want {
			t.Errorf("complaint(%q) = %q, want %q", messages, got, want)
		}
	}
}

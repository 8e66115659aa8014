package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stage has a show that prints into a text, and a clock that the test moves.
type stage struct {
	*show
	t    *testing.T
	text strings.Builder
	time time.Time
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, time: time.Unix(0, 0)}
	s.show = &show{out: &s.text, dir: t.TempDir(), every: 10 * time.Second, now: func() time.Time { return s.time }}
	return s
}

func (s *stage) log(name, text string) {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// wants checks the text that was printed since the last call.
func (s *stage) wants(want string) {
	s.t.Helper()
	if diff := cmp.Diff(want, strings.ReplaceAll(s.text.String(), s.dir, "DIR")); diff != "" {
		s.t.Errorf("-want +got:\n%s", diff)
	}
	s.text.Reset()
}

// Lines of jobs that run at the same time do not mix.
func TestShowPrintsOneJobAfterTheOther(t *testing.T) {
	s := newStage(t)
	a, b, c := &started{job: job{name: "a"}, from: s.time}, &started{job: job{name: "b"}, from: s.time}, &started{job: job{name: "c"}, from: s.time}
	s.log("a", "a1\n")
	s.log("b", "b1\n")
	s.updateScreen([]*started{a, b, c})
	s.wants("==> a\na1\n")
	s.log("b", "b2\n")
	s.log("c", "c1\n")
	s.log("a", "a2\n")
	c.isOver, c.ok, c.took = true, true, 3*time.Second
	s.updateScreen([]*started{a, b, c})
	s.wants("a2\n")
	s.log("a", "a3\n")
	a.isOver, a.took = true, 4*time.Second
	a.said.WriteString("a: left processes behind\n")
	s.updateScreen([]*started{a, b, c})
	s.wants("a3\na: left processes behind\n==> a: failed, 4 s\n==> c\nc1\n==> c: ok, 3 s\n==> b\nb1\nb2\n")
	b.isOver, b.ok, b.took = true, true, 5*time.Second
	s.updateScreen([]*started{a, b, c})
	s.wants("==> b: ok, 5 s\n")
}

// While the job in front is silent, the show prints the running jobs. It prints at
// once that another job has failed.
func TestShowIsNotSilent(t *testing.T) {
	s := newStage(t)
	a, b := &started{job: job{name: "a"}, from: s.time}, &started{job: job{name: "b"}, from: s.time}
	s.updateScreen([]*started{a, b})
	s.wants("==> a\n")
	s.time = s.time.Add(9 * time.Second)
	s.updateScreen([]*started{a, b})
	s.wants("")
	s.time = s.time.Add(time.Second)
	s.updateScreen([]*started{a, b})
	s.wants("a: running for 10 s; beside it b for 10 s\n")
	s.time = s.time.Add(time.Second)
	b.isOver, b.took = true, 11*time.Second
	for range 2 {
		s.updateScreen([]*started{a, b})
	}
	s.wants("==> b failed after 11 s: its output follows, and is in DIR/b.log\n")
	s.time = s.time.Add(10 * time.Second)
	s.updateScreen([]*started{a, b})
	s.wants("a: running for 21 s\n")
}

package requests

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestParse: the program reads the arguments that this package writes.
func TestParse(t *testing.T) {
	for _, w := range []interface{ Args() []string }{
		Serve{8080, "a"}, Call{"10.0.0.1:80", 60, 30 * time.Second}, Compare{[]string{"a:1", "b:2"}, 3, time.Second}, Clock{},
	} {
		got, err := Parse(w.Args())
		if diff := cmp.Diff(any(w), got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", w.Args(), err, diff)
		}
	}
	for _, bad := range [][]string{nil, {"serve"}, {"call", "a:1", "0", "1s"}, {"call", "a:1", "x", "1s"}, {"compare", "x", "1s", "a:1"}, {"clock", "x"}} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// TestLog: what a log says about errors, servers and times.
func TestLog(t *testing.T) {
	text := `{"begun": 1000000000, "took": 5, "server": "a"}
{"begun": 3000000000, "took": 5, "server": "b"}
{"begun": 2000000000, "took": 5, "err": "refused"}
`
	l, err := parseLog(strings.NewReader(text))
	if err != nil || len(l) != 3 {
		t.Fatalf("%v, %v", l, err)
	}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	if got := l.After(at(2)); len(got) != 2 || len(got.Failed()) != 1 {
		t.Errorf("after the second second: %v", got)
	}
	if got := l.Between(at(1), at(2)); len(got) != 1 || len(got.Failed()) != 0 {
		t.Errorf("in the first second: %v", got)
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, l.Servers()); diff != "" {
		t.Error(diff)
	}
	if got := l.PerSecond(); got != 1 {
		t.Errorf("%v a second", got)
	}
	if !l.LastTo("b").Equal(at(3)) || !l.LastTo("c").IsZero() {
		t.Errorf("last to b at %v, to c at %v", l.LastTo("b"), l.LastTo("c"))
	}
	if _, err := parseLog(strings.NewReader("x")); err == nil {
		t.Error("no error for what is no JSON")
	}
}

// TestOffset: the answer of the quickest question counts.
func TestOffset(t *testing.T) {
	here := time.Unix(100, 0)
	trips := []time.Duration{40 * time.Millisecond, 2 * time.Millisecond, 30 * time.Millisecond}
	there := func() (time.Time, error) {
		trip := trips[0]
		trips = trips[1:]
		here = here.Add(trip) // all of it before the clock is read: the worst case
		return here.Add(time.Hour), nil
	}
	offset, within, err := Offset(3, func() time.Time { return here }, there)
	if err != nil || within != time.Millisecond || offset-time.Hour > within || time.Hour-offset > within {
		t.Errorf("ahead by %v within %v: %v", offset, within, err)
	}
	if _, _, err := Offset(1, time.Now, func() (time.Time, error) { return time.Time{}, errors.New("gone") }); err == nil {
		t.Error("no error")
	}
}

// TestManifests: manifests can be joined to one another, and to others.
func TestManifests(t *testing.T) {
	var s Site
	all := s.Client("client", "worker01", "first") + "---\n{}\n" + s.Backend("web", "web-a", "worker01", "first") + s.Service("web", "app", "web", nil)
	documents := strings.Split(all, "---\n")
	for _, d := range documents[1:] {
		if !json.Valid([]byte(d)) {
			t.Errorf("no object: %s", d)
		}
	}
	if len(documents) != 5 || documents[0] != "" {
		t.Errorf("%d documents: %s", len(documents), all)
	}
}

package lab

import (
	"strings"
	"testing"
)

func TestNameNodes(t *testing.T) {
	for _, c := range []struct {
		nodes int
		names string // with spaces between
		want  string // the names, or a part of the error after "!"
	}{
		{0, "", "worker01 worker02"},
		{1, "", "worker01"},
		{0, "worker01 worker1 x", "worker01 worker1 x"},
		{2, "a b", "a b"},
		{2, "a", "!1 names for 2 nodes"},
		{5, "", "!want 1 to 4"},
		{0, "a b c d e", "!want 1 to 4"},
		{-1, "", "!want 1 to 4"},
		{0, "a a", "!it is taken"},
		{0, "A", "!lower-case"},
		{0, "a.b", "!lower-case"},
		{0, "localhost", "!it is taken"},
	} {
		o := Options{Nodes: c.nodes, Names: strings.Fields(c.names)}
		err := o.nameNodes()
		reason, refused := strings.CutPrefix(c.want, "!")
		switch {
		case refused && (err == nil || !strings.Contains(err.Error(), reason)):
			t.Errorf("%d nodes named %q: want an error with %q, got %v", c.nodes, c.names, reason, err)
		case !refused && (err != nil || strings.Join(o.Names, " ") != c.want || len(o.Names) != o.Nodes):
			t.Errorf("%d nodes named %q: %v %v", c.nodes, c.names, o.Names, err)
		}
	}
}

// TestSameLab: sameLab returns an error unless the lab that is up has the
// requested names and kind.
func TestSameLab(t *testing.T) {
	st := Status{Nodes: []Node{{Name: "a"}, {Name: "b"}}}
	with := st
	with.Addition = Guests
	for _, c := range []struct {
		st   Status
		o    Options
		want string // a part of the error
	}{
		{st, Options{Names: []string{"a", "b"}}, ""},
		{with, Options{Names: []string{"a", "b"}}, ""},
		{with, Options{Names: []string{"a", "b"}, Addition: Guests}, ""},
		{st, Options{Names: []string{"a", "b"}, Addition: Guests}, "an image without guests"},
		{st, Options{Names: []string{"a"}}, "it is up with a, b"},
	} {
		err := sameLab(c.st, c.o)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}

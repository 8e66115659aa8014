package netannotation

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// I9: culvertd enforces this rule of namespace isolation, and culvert doctor lists the pods that it refuses.
func TestI9MayUse(t *testing.T) {
	for _, tc := range []struct {
		network, admits string
		want            bool
	}{
		{"d", "", true},
		{"shared", "", true},
		{"other", "", false},
		{"other", "x, d", true},
		{"other", "*", true},
		{"other", "dd,x", false},
		{"other", "d*", false},
		{"other", ",", false},
	} {
		if got := MayUse("d", tc.network, map[string]string{Namespaces: tc.admits}, []string{"shared"}); got != tc.want {
			t.Errorf("network of %s that admits %q: %v, want %v", tc.network, tc.admits, got, tc.want)
		}
	}
	if MayUse("d", "default", nil, nil) {
		t.Error("a namespace is global that the administrator did not name")
	}
	if !MayUse("d", "default", nil, DefaultGlobal()) {
		t.Error("namespace default is not global where the administrator names none, as by Multus' namespaceIsolation")
	}
}

// The annotation of a network is its author's text, and Admit's result goes into a shell.
func TestAdmit(t *testing.T) {
	for before, want := range map[string]string{
		"":                        "a,d",
		"x, d":                    "a,d,x",
		"x;reboot,$(reboot),-o,*": "a,d",
		"x\nreboot,X":             "a,d",
	} {
		if got := Admit(map[string]string{Namespaces: before}, []string{"d", "a", "d"}); got != want {
			t.Errorf("%q: %q, want %q", before, got, want)
		}
	}
}

// The error says how to admit the namespace, and nothing about the network: it is the same for one that
// does not exist.
func TestI9IsolationCheck(t *testing.T) {
	const admit = "to admit them, set the annotation culvert.dev/namespaces of NetworkAttachmentDefinition blue/fast to red"
	admits := map[string]string{Namespaces: "green, red"}
	for name, tc := range map[string]struct {
		isolation   Isolation
		network     string
		annotations map[string]string
		want        string
	}{
		"off":              {Isolation{}, "blue", nil, ""},
		"own namespace":    {Isolation{On: true}, "red", nil, ""},
		"global":           {Isolation{On: true, Global: []string{"blue"}}, "blue", nil, ""},
		"admitted":         {Isolation{On: true}, "blue", admits, ""},
		"closed":           {Isolation{On: true}, "blue", map[string]string{Namespaces: "green"}, "pods of namespace red may use networks of their own namespace only: " + admit},
		"missing":          {Isolation{On: true}, "blue", nil, "pods of namespace red may use networks of their own namespace only: " + admit},
		"closed, globals":  {Isolation{On: true, Global: []string{"default", "infra"}}, "blue", nil, "their own namespace and of default, infra only: " + admit},
		"missing, globals": {Isolation{On: true, Global: []string{"default", "infra"}}, "blue", nil, "their own namespace and of default, infra only: " + admit},
	} {
		err := tc.isolation.Check("red", tc.network, "fast", tc.annotations)
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}

package compat

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Each case is run on the peer's own code by a test, or says where its outcome was read.
func TestCasesHaveASource(t *testing.T) {
	input := yaml.Node{Kind: yaml.ScalarNode, Value: "x"}
	for want, tt := range map[string]struct{ ran, source string }{
		"":                 {"TestX", ""},
		"read":             {"", "pkg/config/config.go LoadConf"},
		"another's":        {"TestX", "containernetworking/cni libcni/conf.go NetworkConfFromBytes"},
		"refused":          {"", ""},
		"refused, no func": {"", "pkg/config/config.go"},
		"refused, no file": {"TestX", "LoadConf"},
	} {
		g := Group{Ran: tt.ran, Cases: []Case{{Name: "a", From: "a/b c", Source: tt.source, Input: input, Peer: Outcome{"x"}}}}
		if err := g.checkCases(); (err != nil) != strings.HasPrefix(want, "refused") {
			t.Errorf("ran %q, source %q: %v", tt.ran, tt.source, err)
		}
	}
}

// A group names a test that exists.
func TestRunningTestsExist(t *testing.T) {
	groups, err := Groups()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("peers_lab_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if g.Ran != "" && !strings.Contains(string(text), "func "+g.Ran+"(") {
			t.Errorf("%s: no test %s", g.Name, g.Ran)
		}
	}
}

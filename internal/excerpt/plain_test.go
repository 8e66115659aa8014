package excerpt

import (
	"errors"
	"testing"
)

func TestWithoutGoTypes(t *testing.T) {
	for text, want := range map[string]string{
		"no such file": "no such file",
		`config: json: cannot unmarshal string into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\"" }`: "config: it is a string and has no fields",
		"json: cannot unmarshal number into Go struct field Config.contexts.name of type string":                                   "field contexts.name cannot be a number",
	} {
		if got := WithoutGoTypes(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestWithoutLogLines(t *testing.T) {
	const text = "E1130 16:00:00.123456    7 memcache.go:265] couldn't get current server API group list\nThe connection was refused\nError: 5\n"
	if got, want := WithoutLogLines(text), "The connection was refused\nError: 5"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestKubeconfig(t *testing.T) {
	const next = ": name another one, or correct it until kubectl --kubeconfig k get nodes works"
	for text, want := range map[string]string{
		"stat k: no such file or directory": "k cannot be read: stat k: no such file or directory" + next,
		`error loading config file "k": couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct {}`: "k cannot be read: it is a string and has no fields" + next,
		`error loading config file "k": yaml: line 1: did not find expected node content`:                                                           "k cannot be read: line 1: did not find expected node content" + next,
	} {
		if got := Kubeconfig("k", errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

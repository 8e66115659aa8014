package main

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// The controller isolates namespaces as culvertd does, unless the administrator turns it off.
func TestIsolationIsOn(t *testing.T) {
	f := newCommand("").Flags()
	if on := f.Lookup("namespace-isolation").DefValue; on != "true" {
		t.Errorf("--namespace-isolation is %s by default", on)
	}
	if global := f.Lookup("global-namespaces").DefValue; global != "["+strings.Join(netannotation.DefaultGlobal(), ",")+"]" {
		t.Errorf("--global-namespaces is %s by default", global)
	}
}

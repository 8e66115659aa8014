package main

import (
	"strings"
	"testing"
)

// An administrator cannot put a plugin on the list of IPAM plugins that would execute itself.
func TestIPAMTypesAreChecked(t *testing.T) {
	cmd := newCommand()
	cmd.SetArgs([]string{"--ipam-types=calico-ipam,ptp", "--host", "/nowhere", "--ledger", "/nowhere/ledger.db"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "--ipam-types: ipam.type ptp: ") {
		t.Error(err)
	}
}

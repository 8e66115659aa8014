package main

import (
	"context"
	"strings"
	"testing"
)

// An administrator cannot put a plugin on the list of IPAM plugins that would execute itself.
func TestIPAMTypesAreChecked(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // culvertd ends at once if the flag is accepted
	cmd := newCommand()
	cmd.SetArgs([]string{"--ipam-types=calico-ipam,ptp", "--host", dir, "--ledger", dir + "/ledger.db", "--socket", dir + "/s"})
	if err := cmd.ExecuteContext(ctx); err == nil || !strings.HasPrefix(err.Error(), "--ipam-types: ipam.type ptp: ") {
		t.Error(err)
	}
}

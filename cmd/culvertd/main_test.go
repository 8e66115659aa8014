package main

import (
	"context"
	"flag"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/test/helptext"
)

var _ = flag.Bool("update", false, "write the golden files")

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

// culvertd isolates namespaces unless the administrator turns it off.
func TestIsolationIsOn(t *testing.T) {
	f := newCommand().Flags()
	if on := f.Lookup("namespace-isolation").DefValue; on != "true" {
		t.Errorf("--namespace-isolation is %s by default", on)
	}
	if global := f.Lookup("global-namespaces").DefValue; global != "["+strings.Join(netannotation.DefaultGlobal(), ",")+"]" {
		t.Errorf("--global-namespaces is %s by default", global)
	}
}

// The networks of every pod are those that the administrator names, and pods of kube-system and of
// Culvert get none. A path, which Multus takes, is refused.
func TestNetworksOfEveryPodAreChecked(t *testing.T) {
	cmd := newCommand()
	if names, except := cmd.Flags().Lookup("default-networks").DefValue, cmd.Flags().Lookup("system-namespaces").DefValue; names != "[]" || except != "[kube-system,culvert-system]" {
		t.Errorf("by default %s except %s", names, except)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // culvertd ends at once if the flag is accepted
	cmd.SetArgs([]string{"--default-networks=/etc/cni/net.d/a.conf", "--host", dir, "--ledger", dir + "/ledger.db", "--socket", dir + "/s"})
	if err := cmd.ExecuteContext(ctx); err == nil || !strings.HasPrefix(err.Error(), "--default-networks: ") {
		t.Error(err)
	}
}

// docs/reference has every command and flag.
func TestReference(t *testing.T) {
	helptext.CheckReference(t, "../../docs/reference/culvertd.md", newCommand())
}

package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/test/helptext"
)

var _ = flag.Bool("update", false, "write the golden files")

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

// The networks of every pod are those that the administrator names, and pods of kube-system and of
// Culvert get none. A path, which Multus takes, is refused.
func TestNetworksOfEveryPodAreChecked(t *testing.T) {
	cmd := newCommand("")
	if names, except := cmd.Flags().Lookup("default-networks").DefValue, cmd.Flags().Lookup("system-namespaces").DefValue; names != "[]" || except != "[kube-system,culvert-system]" {
		t.Errorf("by default %s except %s", names, except)
	}
	cmd.SetArgs([]string{"--default-networks=/etc/cni/net.d/a.conf"})
	if err := cmd.Execute(); err == nil || !strings.HasPrefix(err.Error(), "--default-networks: ") {
		t.Error(err)
	}
}

// A key of an annotation that no network can have is refused before the controller connects.
func TestResourceNameKeysAreChecked(t *testing.T) {
	cmd := newCommand("")
	if keys := cmd.Flags().Lookup("network-resource-name-keys").DefValue; keys != "["+netannotation.ResourceName+"]" {
		t.Errorf("--network-resource-name-keys is %s by default", keys)
	}
	cmd.SetArgs([]string{"--network-resource-name-keys=a/b/c"})
	if err := cmd.Execute(); err == nil || !strings.HasPrefix(err.Error(), `--network-resource-name-keys: "a/b/c": `) {
		t.Error(err)
	}
}

// docs/reference has every command and flag.
func TestReference(t *testing.T) {
	helptext.CheckReference(t, "../../docs/reference/culvert-controller.md", newCommand(""))
}

package cni

import (
	"strings"
	"testing"
)

// Without a cluster there is no other network whose pool could be shared.
func TestPoolOfNeedsACluster(t *testing.T) {
	config := `{"cniVersion":"1.0.0","name":"n","type":"culvert","ipam":{"type":"culvert","poolOf":"red/net"}}`
	got := refused(t, serve(t, newMemory(1), invocation("ADD", config)))
	if !strings.Contains(got, "only the network of a NetworkAttachmentDefinition can share a pool") {
		t.Error(got)
	}
}

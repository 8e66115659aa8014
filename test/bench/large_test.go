package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
)

// TestMemoryOfLargeNetworks attaches all 256 VFs of a node by networks of 60 KiB, whose IPAM plugin is
// of another project. Such leases keep the most (network/config.Config.Kept). The memory of culvertd
// stays within the budget.
func TestMemoryOfLargeNetworks(t *testing.T) {
	if programs != "" {
		t.Skip("it measures a node in memory, which needs no lab: `go test` on the host runs it")
	}
	cmd, socket := startFakenode(t, buildFakenode(t))
	each := func(command string) {
		t.Helper()
		for pod := range 256 { // one by one: how much of many calls at once is garbage depends on the machine
			if err := callLarge(t.Context(), socket, command, pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	each("ADD")
	for range 3 {
		var l api.Ledger
		if err := rpc.Call(t.Context(), socket, api.MethodLedger, nil, &l); err != nil || len(l.Records) != 256 {
			t.Errorf("%v, %d VFs", err, len(l.Records))
		}
	}
	each("DEL")
	most, err := peakMemory(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MiB resident at most", float64(most)/mib)
	if most > maxMemory {
		t.Errorf("%.1f MiB resident, at most %d are allowed", float64(most)/mib, maxMemory/mib)
	}
	endFakenode(t, cmd)
}

// callLarge is one CNI call for the large network of a pod. Its IPAM plugin needs almost all for DEL
// that a lease keeps.
func callLarge(ctx context.Context, socket, command string, pod int) error {
	config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"large%d","type":"culvert","pool":"bench.dev/fast","logFile":%q,"ipam":{"type":"dhcp","y":%q}}`,
		pod, strings.Repeat("x", 56<<10), strings.Repeat("y", 3900))
	r := api.CNIRequest{
		Command: command, ContainerID: fmt.Sprint("large-", pod), IfName: "net1", Netns: fmt.Sprintf("/run/netns/pod-%d", pod), Path: "/opt/cni/bin",
		Config: []byte(config),
	}
	var resp api.CNIResponse
	err := rpc.Converse(ctx, socket, api.MethodCNI, r, &resp, func(context.Context, string, json.RawMessage) (any, error) {
		return api.PluginResponse{Stdout: fmt.Appendf(nil, `{"cniVersion":"1.0.0","ips":[{"address":"10.9.%d.1/16"}]}`, pod)}, nil
	})
	if err == nil && resp.Exit != 0 {
		err = errors.New(string(resp.Stdout))
	}
	return err
}

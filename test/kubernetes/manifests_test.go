//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

const (
	intel   = "intel.com/intel_sriov_netdevice"
	chelsio = "intel.com/chelsio_sriov_netdevice"
	allVFs  = 28
)

// kernelAddress is what a pod's net1 has, by the kernel.
func kernelAddress(t *testing.T, pod string) netip.Addr {
	t.Helper()
	out := kubectl(t, "exec", pod, "--", "bash", "-c", "ip -j -4 addr show dev net1")
	var links []struct {
		Addrs []struct {
			Local netip.Addr `json:"local"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(out), &links); err != nil || len(links) != 1 || len(links[0].Addrs) != 1 {
		t.Fatalf("net1 of pod %s: %v: %s", pod, err, out)
	}
	return links[0].Addrs[0].Local
}

// R0's objects apply as they stand: pods run with a VF each, no address is there
// twice (I4), the VFs reach each other across nodes, and when the pods go
// nothing is left (I2).
func TestI4XL710AsItStands(t *testing.T) {
	need(t, twoNodes)
	offered(t, intel, "7")
	const file = top + "/demo/testdata/r0-xl710.yaml"
	kubectl(t, "apply", "-f", file)
	subnet := netip.MustParsePrefix("172.16.91.0/24")
	all := running(t, 4)
	for name, a := range distinct(t, all) {
		if !subnet.Contains(a) || kernelAddress(t, name) != a {
			t.Errorf("I4: pod %s has %s by the kernel, and %s by its network-status, of %s", name, kernelAddress(t, name), a, subnet)
		}
		if env := kubectl(t, "exec", name, "--", "env"); !strings.Contains(env, "PCIDEVICE_INTEL_COM_INTEL_SRIOV_NETDEVICE=0000:") {
			t.Errorf("pod %s has no PCIDEVICE_ variable:\n%s", name, env)
		}
	}
	kubectl(t, "exec", "testpod1", "--", "ping", "-c", "3", "-W", "5", kernelAddress(t, "iperf3-server").String())
	overlay := kubectl(t, "get", "pod", "iperf3-server", "-o", "jsonpath={.status.podIP}")
	for network, server := range map[string]string{"VF": kernelAddress(t, "iperf3-server").String(), "overlay": overlay} {
		out := kubectl(t, "exec", "iperf3-client", "--", "iperf3", "-c", server, "-t", "2", "--json")
		var report struct {
			End struct {
				Received struct {
					BitsPerSecond float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			} `json:"end"`
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil || report.End.Received.BitsPerSecond == 0 {
			t.Errorf("iperf3 over the %s: %v: %s", network, err, out)
		}
		t.Logf("%s: %.3f Gb/s", network, report.End.Received.BitsPerSecond/1e9)
	}
	kubectl(t, "delete", "-f", file, "--grace-period=1", "--wait")
	allFree(t, allVFs)
}

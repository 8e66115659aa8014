//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// allocatable waits until each node offers as many VFs of a resource.
func allocatable(t *testing.T, resource, want string) {
	t.Helper()
	eventually(t, "each node offers "+want+" "+resource, func() error {
		for _, n := range objects(t, "get", "nodes") {
			if got := n.Status.Allocatable[resource]; got != want {
				return fmt.Errorf("node %s offers %q", n.Metadata.Name, got)
			}
		}
		return nil
	})
}

// running waits until all pods of the namespace default run.
func running(t *testing.T, want int) []object {
	t.Helper()
	var pods []object
	eventually(t, fmt.Sprintf("%d pods run", want), func() error {
		pods = objects(t, "get", "pods")
		for _, p := range pods {
			if p.Status.Phase != "Running" {
				return fmt.Errorf("pod %s is %s", p.Metadata.Name, p.Status.Phase)
			}
		}
		if len(pods) != want {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	return pods
}

// address is what a pod's net1 has, by the kernel.
func address(t *testing.T, pod string) netip.Addr {
	t.Helper()
	out := kubectl(t, "exec", pod, "--", "ip", "-j", "-4", "addr", "show", "dev", "net1")
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
	const resource = "intel.com/intel_sriov_netdevice"
	allocatable(t, resource, "7")
	kubectl(t, "apply", "-f", "testdata/r0-xl710.yaml")
	t.Cleanup(func() { nothingLeft(t, "testdata/r0-xl710.yaml") })
	subnet, has := netip.MustParsePrefix("172.16.91.0/24"), map[netip.Addr]string{}
	for _, p := range running(t, 4) {
		name := p.Metadata.Name
		a := address(t, name)
		if other, twice := has[a]; twice || !subnet.Contains(a) {
			t.Errorf("I4: pod %s has %s, which pod %q has too, or which is not of %s", name, a, other, subnet)
		}
		has[a] = name
		if env := kubectl(t, "exec", name, "--", "env"); !strings.Contains(env, "PCIDEVICE_INTEL_COM_INTEL_SRIOV_NETDEVICE=0000:") {
			t.Errorf("pod %s has no PCIDEVICE_ variable:\n%s", name, env)
		}
		if status := p.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"]; !strings.Contains(status, a.String()) {
			t.Errorf("network-status of pod %s has no %s: %s", name, a, status)
		}
	}
	kubectl(t, "exec", "testpod1", "--", "ping", "-c", "3", "-W", "5", address(t, "iperf3-server").String())
	overlay := kubectl(t, "get", "pod", "iperf3-server", "-o", "jsonpath={.status.podIP}")
	for network, server := range map[string]string{"VF": address(t, "iperf3-server").String(), "overlay": overlay} {
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
}

// nothingLeft deletes the objects, and waits until nobody has a VF.
func nothingLeft(t *testing.T, file string) {
	kubectl(t, "delete", "-f", file, "--grace-period=1", "--wait")
	eventually(t, "I2: all VFs are free", func() error {
		out := kubectl(t, "get", "nodestates", "-o", "json")
		var list struct {
			Items []struct {
				Metadata struct{ Name string }
				Status   struct {
					VFs []struct {
						Name, Phase string
						Owner       any
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		seen := 0
		for _, n := range list.Items {
			for _, v := range n.Status.VFs {
				seen++
				if v.Phase != "free" {
					return fmt.Errorf("VF %s of node %s is %s", v.Name, n.Metadata.Name, v.Phase)
				}
			}
		}
		if seen != 28 {
			return fmt.Errorf("the nodes tell of %d VFs, not 28", seen)
		}
		return nil
	})
}

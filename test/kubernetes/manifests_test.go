//go:build kubernetes

package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/demo/node"
)

const (
	intel   = "intel.com/intel_sriov_netdevice"
	chelsio = "intel.com/chelsio_sriov_netdevice"
	allVFs  = 28
)

// kernelAddress returns the address of a pod's net1, by the kernel.
func kernelAddress(t *testing.T, pod string) netip.Addr {
	t.Helper()
	a, err := askKernel(pod)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func askKernel(pod string) (netip.Addr, error) {
	out, err := k8s.Kubectl(context.Background(), "exec", pod, "--", "bash", "-c", "ip -j -4 addr show dev net1")
	if err != nil {
		return netip.Addr{}, err
	}
	var links []struct {
		Addrs []struct {
			Local netip.Addr `json:"local"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 || len(links[0].Addrs) != 1 {
		return netip.Addr{}, fmt.Errorf("net1 of pod %s: %w: %s", pod, err, out)
	}
	return links[0].Addrs[0].Local, nil
}

// awaitOwnAddresses waits until so many pods run and the network-status of each has the address
// that the pod has. A pod with a new sandbox keeps the network-status of the old one until culvertd
// has written it anew, after the start. No two pods have one address (I4).
func awaitOwnAddresses(t *testing.T, want int) {
	t.Helper()
	var pods []object
	eventually(t, fmt.Sprintf("%d pods tell their addresses", want), func() error {
		pods = running(t, want)
		for _, p := range pods {
			has, err := askKernel(p.Metadata.Name)
			if err != nil {
				return err
			}
			if told, err := addresses(p); err != nil || !slices.Equal(told, []netip.Addr{has}) {
				return fmt.Errorf("pod %s has %s, and tells of %v: %w", p.Metadata.Name, has, told, err)
			}
		}
		return nil
	})
	distinct(t, pods)
}

// I2, I4: R0's objects apply unchanged. Pods run with a VF each, no two have one
// address, and the VFs reach each other across nodes. When the pods go nothing is left.
func TestI4XL710AsItStands(t *testing.T) {
	need(t, twoNodes)
	offered(t, intel, "7")
	xl710AsItStands(t)
}

// xl710AsItStands runs R0's pods on the cluster that is up, and deletes them.
func xl710AsItStands(t *testing.T) {
	t.Helper()
	const file = top + "/lab/demo/testdata/r0-xl710.yaml"
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
	kubectl(t, "exec", "testpod1", "--", "ping", "-c", "3", "-w", "300", kernelAddress(t, "iperf3-server").String())
	overlay := keepOverlay(t)
	for network, server := range map[string]string{"VF": kernelAddress(t, "iperf3-server").String(), "overlay": overlay} {
		t.Logf("%s: %.3f Gb/s", network, iperf3(t, network, server))
	}
	expectReplaced(t)
	applyTagged(t)
	kubectl(t, "delete", "-f", file, "--grace-period=1", "--wait")
	allFree(t, allVFs)
}

// expectReplaced waits until each pod has one event, which says that R0's network takes its only way out.
// Flannel gives pods other routes, and they get none.
func expectReplaced(t *testing.T) {
	t.Helper()
	uids := func(of ...string) []string {
		all := strings.Fields(kubectl(t, append([]string{"get"}, of...)...))
		slices.Sort(all)
		return all
	}
	want := uids("pods", "-o", "jsonpath={.items[*].metadata.uid}")
	if k8s.CNI == cluster.Flannel {
		want = nil
	}
	eventually(t, fmt.Sprintf("%d pods have an event DefaultRouteReplaced", len(want)), func() error {
		got := uids("events", "--field-selector", "reason=DefaultRouteReplaced,type=Warning", "-o", "jsonpath={.items[*].involvedObject.uid}")
		got = slices.DeleteFunc(got, func(uid string) bool { return want != nil && !slices.Contains(want, uid) }) // of earlier pods
		if !slices.Equal(got, want) {
			return fmt.Errorf("the pods %q have it", got)
		}
		return nil
	})
}

// keepOverlay has the two pods that measure reach each other over the overlay, and returns the
// server's address there. R0's network takes the default route of its pods, and Calico gives them no
// other.
func keepOverlay(t *testing.T) (server string) {
	t.Helper()
	nodes := node.Of(k8s.Lab, 2)
	var ends []netip.Addr
	for _, name := range []string{"iperf3-client", "iperf3-server"} {
		ends = append(ends, netip.MustParseAddr(kubectl(t, "get", "pod", name, "-o", "jsonpath={.status.podIP}")))
	}
	for i := range ends {
		netns, err := nodes[i].FindNetns(t.Context(), ends[i])
		if err != nil {
			t.Fatal(err)
		}
		added, err := nodes[i].KeepOverlay(t.Context(), netns, ends[1-i])
		if err != nil {
			t.Fatal(err)
		}
		if hasNone := added != ""; hasNone != (k8s.CNI != cluster.Flannel) {
			t.Errorf("beside %s the pod on %s got the route %q to the overlay", k8s.CNI.Title(), nodes[i].Name, added)
		}
	}
	return ends[1].String()
}

// iperf3 returns the throughput in Gb/s from pod iperf3-client to an address of pod iperf3-server.
// That server accepts one client at a time, and listens some time after its pod began to run.
func iperf3(t *testing.T, network, server string) float64 {
	t.Helper()
	var bitsPerSecond float64
	eventually(t, "the iperf3 server takes a client over the "+network, func() error {
		var report struct {
			Error string `json:"error"`
			End   struct {
				Received struct {
					BitsPerSecond float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			} `json:"end"`
		}
		out, err := k8s.Kubectl(t.Context(), "exec", "iperf3-client", "--", "iperf3", "-c", server, "-t", "2", "--json")
		if decodeErr := json.Unmarshal(out, &report); decodeErr != nil {
			t.Fatalf("iperf3 over the %s: %v: %v: %s", network, err, decodeErr, out)
		}
		if strings.Contains(report.Error, "unable to connect") || strings.Contains(report.Error, "server is busy") {
			return errors.New(report.Error)
		}
		if err != nil || report.Error != "" || report.End.Received.BitsPerSecond == 0 {
			t.Fatalf("iperf3 over the %s: %v: %s", network, err, out)
		}
		bitsPerSecond = report.End.Received.BitsPerSecond
		return nil
	})
	return bitsPerSecond / 1e9
}

// applyTagged applies the other objects of R0: the device plugin's own ConfigMap, whose pools for
// other NICs have no VF here, and the network with a VLAN tag.
func applyTagged(t *testing.T) {
	t.Helper()
	const file = "testdata/r0-more.yaml"
	kubectl(t, "apply", "-f", file)
	apply(t, pod("tagged", "worker01", "sriov-net1-vlan"))
	for _, pool := range []string{"intel.com/intel_sriov_dpdk", "intel.com/mlnx_sriov_rdma", "intel.com/brcm_sriov_bnxt"} {
		offered(t, pool, "0")
	}
	running(t, 5)
	if a := kernelAddress(t, "tagged"); !netip.MustParsePrefix("172.16.91.0/24").Contains(a) {
		t.Errorf("pod tagged has %s", a)
	}
	if settings := on(t, "worker01", "culvert vf list | grep default/tagged"); !strings.Contains(settings, "vlan 182") {
		t.Errorf("the VF of pod tagged: %s", settings)
	}
	kubectl(t, "delete", "pod", "tagged", "--wait")
	kubectl(t, "delete", "-f", file)
}

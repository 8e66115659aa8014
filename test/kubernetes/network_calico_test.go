//go:build kubernetes

package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/test/soak"
)

// besideCalico is R0's cluster: pods have Calico as their default network, and Culvert was installed
// after it.
var besideCalico = &site{names: twoNodes.names, cni: cluster.Calico, install: twoNodes.install, policy: labPolicy}

// bareCalico is that cluster before Culvert is installed.
var bareCalico = &site{names: twoNodes.names, cni: cluster.Calico}

// make demo-k8s CNI=calico sets Calico against the VF, as R0 did. It installs Culvert, and the other
// tests continue with its installation.
func TestDemoBesideCalico(t *testing.T) {
	soak.Only(t, "a cluster of its own, measurements between pods, and a Service under load")
	need(t, bareCalico)
	playDemo(t, cluster.Calico)
	there = besideCalico
}

func needCalico(t *testing.T) {
	t.Helper()
	soak.Only(t, "a cluster of its own; the other tests here run beside Flannel")
	need(t, besideCalico)
	offered(t, intel, "7")
	offered(t, chelsio, "7")
}

// R0's objects apply unchanged beside Calico, as beside Flannel.
func TestXL710BesideCalico(t *testing.T) {
	needCalico(t)
	xl710AsItStands(t)
}

// A NetworkPolicy holds for the eth0 of a pod that Culvert attached a VF to: from another node, from
// the same node, and after a reboot (R3). It does not filter the VF. The rebooted node has
// Deployments, as in TestP1Reboot.
func TestCalicoPolicyHolds(t *testing.T) {
	needCalico(t)
	applyNetworks(t)
	apply(t, pod("near", "worker01", "first")+deployment("server", "worker02", "first", 1)+deployment("beside", "worker02", "first", 1))
	pods := serve(t)
	expectReached(t, pods, "without a policy", "beside", "near", overTheVF)
	policy := func(ingress string) string {
		return "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: closed}\nspec: {podSelector: {matchLabels: {app: server}}, policyTypes: [Ingress], ingress: " + ingress + "}\n"
	}
	apply(t, policy("[]"))
	expectReached(t, pods, "with a policy that denies all", overTheVF)
	feed(t, policy("[{from: [{podSelector: {matchLabels: {app: near}}}]}]"), "apply", "-f", "-")
	expectReached(t, pods, "with a policy that admits near", "near", overTheVF)

	if err := k8s.Lab.Reboot(t.Context(), "worker02"); err != nil {
		t.Fatal(err)
	}
	awaitRestarted(t, []string{pods["server"], pods["beside"]})
	awaitOwnAddresses(t, 3)
	expectReached(t, serve(t), "after a reboot", "near", overTheVF)
}

// serve starts a web server in the pod "server", and returns the names of the three pods by those of
// their Deployments.
func serve(t *testing.T) map[string]string {
	t.Helper()
	pods := map[string]string{}
	for _, p := range running(t, 3) {
		name, _, _ := strings.Cut(p.Metadata.Name, "-")
		pods[name] = p.Metadata.Name
	}
	kubectl(t, "exec", pods["server"], "--", "sh", "-c", "busybox httpd -p 8080 -h /srv")
	return pods
}

const overTheVF = "near at its VF"

// expectReached waits until those and no others reach the server: the pods "near" and "beside" at its
// eth0, and "near" at its VF.
func expectReached(t *testing.T, pods map[string]string, when string, reached ...string) {
	t.Helper()
	eventually(t, when+" the server is reached from "+strings.Join(reached, ", "), func() error {
		overlay, vf := kubectl(t, "get", "pod", pods["server"], "-o", "jsonpath={.status.podIP}"), kernelAddress(t, pods["server"]).String()
		var got []string
		for who, address := range map[string]string{"near": overlay, "beside": overlay, overTheVF: vf} {
			name, _, _ := strings.Cut(who, " ")
			if _, err := k8s.Kubectl(t.Context(), "exec", pods[name], "--", "curl", "--silent", "--fail", "--max-time", "10", "http://"+address+":8080"); err == nil {
				got = append(got, who)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, reached) {
			return fmt.Errorf("it is reached from %q", got)
		}
		return nil
	})
}

// Uninstalled, Culvert leaves Calico as it was. Installed again before Calico, it waits for the
// default network, and then serves pods. It is the last test of this site.
func TestCulvertBeforeCalico(t *testing.T) {
	needCalico(t)
	const culvert = top + "/dist/kubernetes/culvert.yaml"
	before := map[string]string{}
	for _, node := range besideCalico.names {
		before[node] = on(t, node, "cat /etc/cni/net.d/10-calico.conflist; ls /opt/cni/bin/calico*")
	}
	kubectl(t, "delete", "-f", culvert, "--ignore-not-found", "--wait")
	for _, node := range besideCalico.names {
		gone(t, node)
		if after := on(t, node, "cat /etc/cni/net.d/10-calico.conflist; ls /opt/cni/bin/calico*"); after != before[node] {
			t.Errorf("Calico of %s was:\n%s\nand is:\n%s", node, before[node], after)
		}
	}

	kubectl(t, "--namespace", "kube-system", "delete", "daemonset", "calico-node", "--wait")
	for _, node := range besideCalico.names {
		on(t, node, "rm /etc/cni/net.d/10-calico.conflist /etc/cni/net.d/calico-kubeconfig /opt/cni/bin/calico*")
	}
	kubectl(t, "apply", "--server-side", "-f", culvert)
	for _, node := range besideCalico.names {
		eventually(t, "culvertd runs on "+node+" without a default network", func() error {
			_, err := tryOn(node, "culvert status")
			return err
		})
	}
	if err := k8s.InstallNetwork(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := k8s.AwaitCulvert(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", labPolicy)
	offered(t, intel, "7")
	offered(t, chelsio, "7")
	there = besideCalico // gone says that it is of no use to other tests
	defer func() { there = nil }()
	applyNetworks(t)
	apply(t, pod("near", "worker01", "first")+pod("far", "worker02", "first"))
	addresses := distinct(t, running(t, 2))
	kubectl(t, "exec", "near", "--", "ping", "-c", "3", "-w", "300", addresses["far"].String())
}

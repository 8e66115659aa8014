//go:build kubernetes

package kubernetes

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/soak"
)

// annotateLayers returns the annotation of a pod with a VF, a VLAN and a macvlan over it, and
// further networks. The addresses of the VLAN and the macvlan end in last.
func annotateLayers(uplink string, last int, more ...string) string {
	all := []string{fmt.Sprintf(`{"name": %q}, {"name": "lan", "ips": ["10.97.37.%d/24"]}, {"name": "mac", "ips": ["10.97.50.%[2]d/24"]}`, uplink, last)}
	for _, name := range more {
		all = append(all, fmt.Sprintf(`{"name": %q}`, name))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// I2: networks of a pod start in the order of the annotation, end in reverse, and leave
// the VFs at their baseline. The test has the real plugins vlan, macvlan and tuning of
// the CNI project over the VFs of pods, and stand-ins for rdma and bond. A macvlan
// needs a VF that is trusted.
func TestI2NetworksOverAVF(t *testing.T) {
	soak.Only(t, "13 networks of 4 pods; internal/node/intake/cni tests the order and the cleaning with stand-ins")
	networks(t)
	pfs := func() (all string) {
		for _, node := range twoNodes.names {
			all += on(t, node, "for pf in enp1s0 enp2s0; do ip -d -j link show dev $pf | jq -c '.[0].vfinfo_list'; done")
		}
		return all
	}
	before := pfs()
	putStandIns(t, "rdma", "bond")
	objects, err := os.ReadFile("testdata/layers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, string(objects))
	pods := pod("near", "worker01", annotateLayers("uplink", 1)) + pod("far", "worker02", annotateLayers("uplink", 2)) +
		pod("untrusted", "worker01", annotateLayers("first", 3, "tuned")) + pod("bonded", "worker01", "first,second,bond@bond0")
	asked := len(auditLog(t))
	apply(t, pods)
	running(t, 4)

	for _, address := range []string{"10.97.37.2", "10.97.50.2"} {
		kubectl(t, "exec", "near", "--", "ping", "-c", "3", "-w", "300", address)
	}
	pinging := kubectl(t, "exec", "untrusted", "--", "bash", "-c", "ping -c 3 -w 300 10.97.37.2; ping -c 3 -W 3 10.97.50.2 || true")
	if !regexp.MustCompile(`(?s)10.97.37.2 ping statistics.* 3 received.*10.97.50.2 ping statistics.* 100% packet loss`).MatchString(pinging) {
		t.Errorf("over a VF without trust a VLAN carries traffic, and a macvlan does not:\n%s", pinging)
	}
	eventually(t, "the pod whose VF is not trusted is warned, and no other", func() error {
		warnings := kubectl(t, "get", "events", "--field-selector", "reason=VFNotTrusted", "-o", "jsonpath={.items[*].involvedObject.name}")
		if pods := slices.Compact(strings.Fields(warnings)); !slices.Equal(pods, []string{"untrusted"}) { // once for each sandbox
			return fmt.Errorf("pods %q are warned", warnings)
		}
		return nil
	})
	if link := kubectl(t, "exec", "untrusted", "--", "ip", "link", "show", "dev", "net4"); !strings.Contains(link, "mtu 1400") || !strings.Contains(link, "ALLMULTI") {
		t.Errorf("tuning did nothing: %s", link)
	}
	if bond := kubectl(t, "exec", "bonded", "--", "cat", "/proc/net/bonding/bond0"); strings.Count(bond, "Slave Interface: net") != 2 {
		t.Errorf("the bond is %s", bond)
	}
	for _, name := range []string{"near", "untrusted", "bonded"} {
		checkSandbox(t, "worker01", name)
	}
	// Each pod has one network-status, each network one event, and one pod a warning.
	behind := countWrites(auditLog(t)[asked:], "near", "far", "untrusted", "bonded")
	t.Logf("behind 13 networks of 4 pods the nodes write: %v", behind)
	// A sandbox that the kubelet makes again, as on a machine that is too busy, has its events again.
	again := kubectl(t, "get", "events", "-o", `jsonpath={range .items[?(@.reason=="FailedCreatePodSandBox")]}{.involvedObject.name}: {.message}{"\n"}{end}`)
	if again != "" {
		t.Logf("sandboxes were made again: %s", again)
	}
	if behind["pods"] == 0 || behind["events"] == 0 || again == "" && (behind["pods"] > 4 || behind["events"] > 13+1) {
		t.Errorf("the nodes wrote %v for 13 networks of 4 pods", behind)
	}
	feed(t, pods, "delete", "--wait", "-f", "-")
	allFree(t, allVFs)
	if after := pfs(); after != before {
		t.Errorf("I2: the PFs hold\n%s\nand held\n%s", after, before)
	}
	calls := on(t, "worker01", "cat /run/standin-cni.log")
	for _, want := range []string{
		`untrusted ADD rdma net4 device=0000:\S+ after=net4 links=\n`, `untrusted CHECK rdma net4 device=0000:\S+ after=net4 `, `untrusted DEL rdma net4 device=0000:\S+ after=net4 `,
		`bonded ADD bond bond0 device=- after=- links=net1 net2\n`, `bonded CHECK bond bond0 device=- after=bond0 links=net1 net2\n`, `bonded DEL bond bond0 device=- after=bond0 links=net1 net2\n`,
	} {
		if !regexp.MustCompile(want).MatchString(calls) {
			t.Errorf("no call of a stand-in is %q:\n%s", want, calls)
		}
	}
}

// putStandIns puts the stand-in for CNI plugins on both nodes, under these names.
func putStandIns(t *testing.T, plugins ...string) {
	t.Helper()
	for _, node := range twoNodes.names {
		if err := k8s.Lab.Copy(t.Context(), node, "testdata/standin-cni", "/opt/cni/bin/"+plugins[0]); err != nil {
			t.Fatal(err)
		}
		for _, name := range plugins[1:] {
			on(t, node, "cp /opt/cni/bin/"+plugins[0]+" /opt/cni/bin/"+name)
		}
		t.Cleanup(func() { on(t, node, "cd /opt/cni/bin && rm -f /run/standin-cni.log "+strings.Join(plugins, " ")) })
	}
}

// checkSandbox calls CHECK for a pod, as some runtimes do.
func checkSandbox(t *testing.T, node, name string) {
	t.Helper()
	on(t, node, `
		export CNI_COMMAND=CHECK CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin CNI_CONTAINERID CNI_NETNS
		read -r CNI_CONTAINERID CNI_NETNS < <(culvert vf list -o json | jq -r '[.. | objects | select(.owner?.name == "default/`+name+`")][0] | "\(.owner.uid) \(.netns)"')
		export CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=`+name+`;K8S_POD_INFRA_CONTAINER_ID=$CNI_CONTAINERID"
		jq -c '.plugins[0] + {name, cniVersion}' /etc/cni/net.d/00-culvert.conflist | /opt/cni/bin/culvert`)
}

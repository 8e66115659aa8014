//go:build kubernetes

package kubernetes

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/parts"
	"github.com/culvert-net/culvert/test/soak"
)

// moved is a network of the CNI project's host-device plugin, which moves a VF of Culvert's pool.
const moved = `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: moved, annotations: {k8s.v1.cni.cncf.io/resourceName: ` + intel + `}}
spec:
  config: '{"cniVersion": "0.3.1", "name": "moved", "type": "host-device"}'
`

// I2: a pod gets a VF of Culvert's pool from the kubelet, and uses it by another plugin. It keeps
// its interface while culvertd makes free VFs ready, after a change of the VF's settings, and after
// kill -9. The NodeState names the pod, and an event of culvertd says that it uses the VF outside
// Culvert. The VF stays healthy for the kubelet. When the pod has gone, the VF is free and as before.
func TestI2AnotherPluginKeepsItsVF(t *testing.T) {
	soak.Only(t, "five more pods and a killed culvertd; test/e2e TestI2UsersOutsideKeepTheirVFs does without a cluster")
	need(t, besideMultus)
	offered(t, intel, "7")
	dir, err := parts.Find(t.Context(), top, "host-device", quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := k8s.Lab.Copy(t.Context(), "worker1", filepath.Join(dir, "host-device"), "/opt/cni/bin/host-device"); err != nil {
		t.Fatal(err)
	}
	apply(t, moved)
	feed(t, podWith("outside", "moved", intel), "apply", "-f", "-")
	ready(t, "pod/outside")
	address := strings.TrimSpace(kubectl(t, "exec", "outside", "--", "bash", "-c", "echo $PCIDEVICE_INTEL_COM_INTEL_SRIOV_NETDEVICE"))
	link := func() string { return kubectl(t, "exec", "outside", "--", "cat", "/sys/class/net/net1/ifindex") }
	before := link()
	// culvertd gives a VF to another pod meanwhile: it runs, and its upkeep has had the time. The
	// kubelet refuses pods with VFs for good until a culvertd that was killed has registered again.
	serves := func(when string) {
		t.Helper()
		eventually(t, when+" another pod runs", func() error {
			feed(t, podWith("beside", "", intel), "apply", "-f", "-")
			_, err := k8s.Kubectl(t.Context(), "wait", "--for=condition=Ready", "--timeout=90s", "pod/beside")
			feed(t, podWith("beside", "", intel), "delete", "-f", "-")
			return err
		})
		if after := link(); after != before {
			t.Fatalf("%s: interface net1 of the pod is %s, and was %s", when, after, before)
		}
	}
	told := func(when string) {
		t.Helper()
		requireState(t, address, "given", "default/outside")
		serves(when)
	}
	told("after the pod had started")
	index := `for i in 0 1 2 3 4 5 6; do [ "$(basename "$(readlink /sys/class/net/enp1s0/device/virtfn$i)")" != ` + address + ` ] || `
	on(t, "worker1", index+"ip link set enp1s0 vf $i trust on; done")
	told("after its settings had changed")
	on(t, "worker1", "pkill -KILL -x culvertd")
	if err := k8s.AwaitCulvert(t.Context()); err != nil {
		t.Fatal(err)
	}
	told("after kill -9")
	offered(t, intel, "7") // also the VF that its pod has moved
	if said := on(t, "worker1", "culvert events"); !strings.Contains(strings.Join(strings.Fields(said), " "), "used outside Culvert: given by the kubelet to pod default/outside") {
		t.Errorf("no event names the pod:\n%s", said)
	}
	kubectl(t, "delete", "pod", "outside", "--grace-period=1", "--wait")
	kubectl(t, "delete", "network-attachment-definitions", "moved")
	allFree(t, allVFs/2)
	offered(t, intel, "7")
}

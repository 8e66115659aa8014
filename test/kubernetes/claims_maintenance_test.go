//go:build kubernetes

package kubernetes

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// setMaintenance applies a NodePolicy with a maintenance of all PFs of a node.
func setMaintenance(t *testing.T, node, effect string) {
	t.Helper()
	apply(t, fmt.Sprintf(`
apiVersion: culvert.dev/v1alpha1
kind: NodePolicy
metadata: {name: maintenance}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  maintenance: {effect: %s}
`, node, effect))
}

// awaitMaintenance waits until the policy's condition has a reason, and a text in its message.
func awaitMaintenance(t *testing.T, reason, text string) {
	t.Helper()
	eventually(t, "the maintenance has reason "+reason+" and says "+text, func() error {
		got := kubectl(t, "get", "nodepolicy", "maintenance", "--output", `jsonpath={.status.conditions[?(@.type=="Maintenance")].reason}: {.status.conditions[?(@.type=="Maintenance")].message}`)
		if !strings.HasPrefix(got, reason+": ") || !strings.Contains(got, text) {
			return fmt.Errorf("it has %s", got)
		}
		t.Logf("maintenance: %s", got)
		return nil
	})
}

// wantMaintenance takes a node into maintenance, of which one pod has VFs by a claim. The dry run counts that
// pod and changes nothing. Then no new pod gets a VF there, then Kubernetes evicts the pod. After the end a
// new pod gets a VF.
func wantMaintenance(t *testing.T, pod, node string) {
	t.Helper()
	setMaintenance(t, node, "None")
	awaitMaintenance(t, "DryRun", "enp1s0: 7 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if")
	ready(t, "pod/"+pod)

	setMaintenance(t, node, "NoSchedule")
	awaitMaintenance(t, "NoSchedule", "Eviction only happens for the NoExecute effect")
	late := claimingPod("late", node, "resourceClaimTemplateName: keys")
	apply(t, late)
	eventually(t, "the scheduler refuses pod late", func() error {
		got := kubectl(t, "get", "pod", "late", "--output", `jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`)
		if !strings.Contains(got, "cannot allocate all claims") {
			return fmt.Errorf("it is told %q", got)
		}
		return nil
	})
	ready(t, "pod/"+pod)
	out, err := exec.CommandContext(t.Context(), top+"/build/bin/culvert", "why", "pod/late", "--kubeconfig", k8s.Kubeconfig).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "NodePolicy maintenance") {
		t.Errorf("culvert why does not name the maintenance: %v\n%s", err, out)
	}

	setMaintenance(t, node, "NoExecute")
	eventually(t, "pod "+pod+" is evicted", func() error {
		if got := kubectl(t, "get", "pod", pod, "--ignore-not-found", "--output", "name"); got != "" {
			return fmt.Errorf("it is there: %s", got)
		}
		return nil
	})
	awaitMaintenance(t, "NoExecute", "1 pod evicted since starting the controller")

	kubectl(t, "delete", "nodepolicy", "maintenance")
	ready(t, "pod/late")
	eventually(t, "the DeviceTaintRules go with their policy", func() error {
		if got := kubectl(t, "get", "devicetaintrules", "--output", "name"); got != "" {
			return fmt.Errorf("there is %s", got)
		}
		return nil
	})
	feed(t, late, "delete", "--wait", "-f", "-")
}

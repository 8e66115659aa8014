//go:build kubernetes

package kubernetes

import (
	"fmt"
	"strings"
	"testing"
)

// The cluster runs the version of Kubernetes that the flag names, with all of Dynamic Resource
// Allocation that docs/design/0053-kubernetes-1.37.md says of it.
func TestKubernetesVersion(t *testing.T) {
	need(t, twoNodes)
	if got := kubectl(t, "version"); !strings.Contains(got, "Server Version: v"+*kubernetesVersion+"\n") {
		t.Errorf("%s, want version %s", got, *kubernetesVersion)
	}
	metrics := map[string]string{"kube-apiserver": kubectl(t, "get", "--raw", "/metrics")}
	for _, node := range twoNodes.names {
		if got := kubectl(t, "get", "node", node, "--output", "jsonpath={.status.nodeInfo.kubeletVersion}"); got != "v"+*kubernetesVersion {
			t.Errorf("the kubelet of %s is %s, want v%s", node, got, *kubernetesVersion)
		}
		metrics["the kubelet of "+node] = kubectl(t, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/metrics")
	}
	for program, text := range metrics {
		for _, gate := range []string{
			"DynamicResourceAllocation", "DRAConsumableCapacity", "DRADeviceTaints", "DRAExtendedResource", "DRAPartitionableDevices",
			"DRAPrioritizedList", "DRAResourceClaimDeviceStatus", "ResourceHealthStatus",
		} {
			if err := isOn(text, gate); err != nil {
				t.Errorf("%s: %v", program, err)
			}
		}
	}
	served := kubectl(t, "api-resources", "--api-group", "resource.k8s.io", "--no-headers")
	for _, kind := range []string{"DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"} {
		if !strings.Contains(served, " "+kind+"\n") {
			t.Errorf("no %s is served, but\n%s", kind, served)
		}
	}
}

// isOn returns an error unless a program's metrics say that a gate is on.
func isOn(metrics, gate string) error {
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, `kubernetes_feature_enabled{name="`+gate+`",`) {
			if !strings.HasSuffix(line, " 1\n") {
				return fmt.Errorf("the gate is off: %s", line)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no gate %s", gate)
}

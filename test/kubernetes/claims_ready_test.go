//go:build kubernetes

package kubernetes

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// r0ByClaim runs a pod of report R0 that the scheduler places, with its network and unchanged, while its
// resource is offered to claims only.
func r0ByClaim(t *testing.T) {
	t.Helper()
	all, err := os.ReadFile(top + "/lab/demo/testdata/r0-xl710.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var objects []string
	for _, o := range strings.Split(string(all), "\n---\n") {
		if strings.Contains(o, "kind: NetworkAttachmentDefinition") || strings.Contains(o, "name: hello-world\n") && strings.Contains(o, "kind: Pod") {
			objects = append(objects, o)
		}
	}
	apply(t, strings.Join(objects, "\n---\n"))
	ready(t, "pod/hello-world")
	request := kubectl(t, "get", "pod", "hello-world", "-o", "jsonpath={.status.extendedResourceClaimStatus.requestMappings[0].requestName}")
	wantClaimed(t, "hello-world", "net1", "resourceclaims/"+claimOf(t, "hello-world")+"/"+request)
	if env := kubectl(t, "exec", "hello-world", "--", "env"); !strings.Contains(env, "PCIDEVICE_INTEL_COM_INTEL_SRIOV_NETDEVICE=0000:") {
		t.Errorf("pod hello-world has no PCIDEVICE_ variable:\n%s", env)
	}
	kubectl(t, "delete", "pod", "hello-world", "--grace-period=1", "--wait")
}

// compareReady logs the time from the creation of a pod until it is ready, and culvertd's writes to the API
// server, with a VF by a claim and by the device plugin. The pods come one after the other.
func compareReady(t *testing.T) {
	t.Helper()
	const times = 5
	byPlugin := pod("ready", "", "plugged")
	byClaim := claimingPod("ready", "worker02", "resourceClaimTemplateName: keys")
	for name, objects := range map[string]string{"claim": byClaim, "device plugin": byPlugin} {
		var took []time.Duration
		before := len(auditLog(t))
		for range times {
			began := time.Now()
			feed(t, objects, "create", "-f", "-")
			ready(t, "pod/ready")
			took = append(took, time.Since(began))
			feed(t, objects, "delete", "--wait", "-f", "-")
		}
		slices.Sort(took)
		writes := map[string]int{}
		for _, r := range auditLog(t)[before:] {
			if strings.HasSuffix(r.User.Username, ":culvertd") && slices.Contains([]string{"create", "update", "patch"}, r.Verb) {
				writes[r.Object.Resource+"/"+r.Object.Subresource]++
			}
		}
		t.Logf("%d pods by %s: ready after %.2f s in the median, from %.2f s to %.2f s; culvertd wrote %v", times, name,
			took[times/2].Seconds(), took[0].Seconds(), took[times-1].Seconds(), writes)
	}
}

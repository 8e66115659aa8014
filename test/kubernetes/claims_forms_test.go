//go:build kubernetes

package kubernetes

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/soak"
)

// I1, I4: forms of claims that the examples of other drivers have: a network by the DeviceClass, two VFs by
// one request, two claims in a pod with a container each, alternatives in a request, and a Deployment. Each
// VF is a network interface with an address of its own, and all of them reach each other.
func TestClaimsOfOtherExamples(t *testing.T) {
	soak.Only(t, "forms of claims of other drivers' examples")
	need(t, twoNodes)
	offerClaims(t)
	objects, err := os.ReadFile("testdata/claims-forms.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, string(objects)+"---\n"+claimingPod("two-vfs", "worker02", "resourceClaimTemplateName: count"))
	kubectl(t, "wait", "--for=condition=Available", "--timeout="+soon.String(), "deployment/deployed")
	ready(t, "pod/two-vfs", "pod/two-claims")
	interfaces := map[string]int{"two-vfs": 2, "two-claims": 2}
	for _, p := range strings.Fields(kubectl(t, "get", "pods", "--selector", "app=deployed", "--output", "jsonpath={.items[*].metadata.name}")) {
		interfaces[p] = 1
	}
	owner := map[string]string{} // of each address
	for p, want := range interfaces {
		for n := range want {
			out := kubectl(t, "exec", p, "--", "ip", "-4", "-o", "addr", "show", "dev", fmt.Sprintf("net%d", n+1))
			found := regexp.MustCompile(`inet (10\.97\.\d+\.\d+)/24`).FindStringSubmatch(out)
			if len(found) == 0 || owner[found[1]] != "" {
				t.Fatalf("I4: pod %s has %q; there are %v", p, out, owner)
			}
			owner[found[1]] = p
		}
	}
	for address, p := range owner {
		if p != "two-vfs" { // its own answer in any case
			kubectl(t, "exec", "two-vfs", "--", "ping", "-c", "1", "-w", "300", address)
		}
	}
	for container, claim := range map[string]string{"main": "a", "other": "b"} {
		files := kubectl(t, "exec", "two-claims", "--container", container, "--", "ls", "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/")
		if strings.TrimSpace(files) != claim {
			t.Errorf("container %s has the files of the claims %q", container, files)
		}
	}
}

//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/test/soak"
)

// claimSite is a node whose VFs are for claims.
var claimSite = &site{names: []string{"worker01"}, install: twoNodes.install}

// I1, I8: a real kubelet prepares a claim of a netdevice and a VF of user space. Its pod has the device
// node and the variables. The claim keeps its VFs while culvertd and the kubelet are restarted, and they are
// free when the pod has gone.
func TestClaims(t *testing.T) {
	soak.Only(t, "a cluster of its own; internal/node/intake/claim has the kubelet's calls over its socket")
	need(t, claimSite)
	on(t, "worker01", "modprobe vfio-pci")
	objects, err := os.ReadFile("testdata/claims.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy, rest, _ := strings.Cut(string(objects), "---\n")
	apply(t, policy)
	eventually(t, "the VFs are made", func() error { return wantPhases("free", allVFs/len(twoNodes.names)) })
	offerVFs(t)
	apply(t, rest)
	ready(t, "pod/claimer")
	if err := wantPhases(`prepared.*claim default/two`, 2); err != nil {
		t.Error(err)
	}
	env := kubectl(t, "exec", "claimer", "--", "bash", "-c", "env; ls /dev/vfio")
	if !regexp.MustCompile(`(?s)PCIDEVICE_CLAIMS_EXAMPLE_NET=0000:.*\n\d+\n`).MatchString(env) || !strings.Contains(env, "PCIDEVICE_CLAIMS_EXAMPLE_USER_INFO=") {
		t.Errorf("pod claimer has %s", env)
	}
	kubectl(t, "-n", cluster.Namespace, "delete", "pod", "--selector", "app.kubernetes.io/name=culvertd", "--wait")
	eventually(t, "culvertd is back, and the VFs are the claim's", func() error { return wantPhases(`prepared.*claim default/two`, 2) })
	on(t, "worker01", "systemctl restart kubelet")
	eventually(t, "the kubelet prepares the claim again", func() error {
		out, err := tryOn("worker01", "ls /var/lib/kubelet/plugins_registry /var/run/cdi")
		if err == nil && (!strings.Contains(out, "culvert.dev-reg.sock") || !strings.Contains(out, "culvert.dev-claim_")) {
			err = errors.New(out)
		}
		return err
	})
	kubectl(t, "delete", "pod", "claimer", "--wait")
	eventually(t, "I2: the VFs are free", func() error { return wantPhases("free", allVFs/len(twoNodes.names)) })
	if left := on(t, "worker01", "ls /var/run/cdi | grep claim_ || true"); left != "" {
		t.Errorf("CDI files are left: %s", left)
	}
}

// wantPhases returns an error unless so many rows of culvert vf list match a pattern.
func wantPhases(pattern string, count int) error {
	out, err := tryOn("worker01", "culvert vf list")
	if got := len(regexp.MustCompile(`(?m)^.*`+pattern+`.*$`).FindAllString(out, -1)); err == nil && got != count {
		err = fmt.Errorf("%d rows match %q:\n%s", got, pattern, out)
	}
	return err
}

// offerVFs writes ResourceSlices with two VFs of each PF.
func offerVFs(t *testing.T) {
	t.Helper()
	var vfs []struct {
		ID    string `json:"id"`
		Pool  string `json:"pool"`
		Index int    `json:"index"`
	}
	if err := json.Unmarshal([]byte(on(t, "worker01", "culvert vf list -o json")), &vfs); err != nil {
		t.Fatal(err)
	}
	slices := map[string]string{}
	for _, v := range vfs {
		pf, _, _ := strings.Cut(v.ID, "#")
		pf = "worker01/" + strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(pf), ":", "-"), "/", ".")
		_, pool, _ := strings.Cut(v.Pool, "/")
		if v.Index < 2 {
			slices[pf] += fmt.Sprintf("  - {name: vf-%d, attributes: {pool: {string: %s}}}\n", v.Index, pool)
		}
	}
	if len(slices) != 2 {
		t.Fatalf("the VFs are %+v", vfs)
	}
	all, n := "", 0
	for pool, devices := range slices {
		n++
		all += fmt.Sprintf("---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: by-hand-%d}\nspec:\n  driver: culvert.dev\n  nodeName: worker01\n"+
			"  pool: {name: %s, generation: 1, resourceSliceCount: 1}\n  devices:\n%s", n, pool, devices)
	}
	apply(t, all)
}

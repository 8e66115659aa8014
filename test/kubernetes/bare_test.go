//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/test/promises"
)

// bare is the cluster of twoNodes before Culvert is installed.
var bare = &site{names: twoNodes.names}

// make demo-k8s installs Culvert on a bare cluster, gives VFs to pods, measures, and finds
// nothing wrong. It is the first test, since the others go on with its installation.
func TestDemo(t *testing.T) {
	need(t, bare)
	dir := t.TempDir()
	cmd := promises.Make(t.Context(), top, "demo-k8s", "PODS=2", "DEMO=--up --name "+k8s.Lab.Name()+" --out "+dir)
	if out, err := promises.Run(cmd); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	body, err := os.ReadFile(filepath.Join(dir, "demo-k8s.json"))
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Pods    int `json:"pods"`
		VFs     int `json:"vfs_created"`
		Leaked  int `json:"leaked"`
		FloorMS struct {
			P50 float64 `json:"p50"`
		} `json:"floor_ms"`
	}
	if err := json.Unmarshal(body, &found); err != nil {
		t.Fatal(err)
	}
	if found.Pods != 2 || found.VFs != allVFs || found.Leaked != 0 || found.FloorMS.P50 <= 0 {
		t.Errorf("%s", body)
	}
	kubectl(t, "delete", "net-attach-def", "first", "second")
	kubectl(t, "delete", "nodepolicy", "demo")
	kubectl(t, "apply", "-f", "testdata/policy.yaml")
	there = twoNodes
}

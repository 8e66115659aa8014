//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/test/promises"
	"github.com/culvert-net/culvert/test/soak"
)

// bare is the cluster of twoNodes before Culvert is installed.
var bare = &site{names: twoNodes.names}

// make demo-k8s installs Culvert on a bare cluster, gives VFs to pods, measures, and finds
// no fault. It is the first test, so that the others can continue with its installation.
func TestDemo(t *testing.T) {
	soak.Only(t, "measurements between pods, and a Service under load; the other tests install Culvert by themselves")
	need(t, bare)
	playDemo(t, cluster.Flannel)
	there = twoNodes
}

// playDemo runs make demo-k8s on the cluster that is up, without Culvert, and leaves Culvert installed
// with the policy of the other tests.
func playDemo(t *testing.T, cni cluster.CNI) {
	t.Helper()
	dir := t.TempDir()
	cmd := promises.Make(t.Context(), top, "demo-k8s", "CNI="+string(cni), "PODS=2", "DEMO=--quick --up --name "+k8s.Lab.Name()+" --out "+dir)
	if out, err := promises.Run(cmd); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	body, err := os.ReadFile(filepath.Join(dir, "demo-k8s.json"))
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		CNI     cluster.CNI `json:"cni"`
		Pods    int         `json:"pods"`
		VFs     int         `json:"vfs_created"`
		Leaked  int         `json:"leaked"`
		FloorMS struct {
			P50 float64 `json:"p50"`
		} `json:"floor_ms"`
		Service struct {
			Headless       []string `json:"headless"`
			ClusterIPRatio float64  `json:"clusterip_ratio"`
			ErrorsOnDelete *int     `json:"errors_on_delete"`
			EndpointChange *float64 `json:"endpoint_change_ms"`
			PathProved     bool     `json:"path_proved"`
		} `json:"service"`
	}
	if err := json.Unmarshal(body, &found); err != nil {
		t.Fatal(err)
	}
	if found.CNI != cni || found.Pods != 2 || found.VFs != allVFs || found.Leaked != 0 || found.FloorMS.P50 <= 0 {
		t.Errorf("%s", body)
	}
	service := found.Service
	if len(service.Headless) != 1 || !strings.HasPrefix(service.Headless[0], "172.16.91.") || service.ClusterIPRatio <= 0 || !service.PathProved ||
		service.ErrorsOnDelete == nil || service.EndpointChange == nil { // the demo itself judges the errors, by the slowest change of its run
		t.Errorf("Services over the VF network: %s", body)
	}
	kubectl(t, "delete", "net-attach-def", "first", "second")
	kubectl(t, "delete", "nodepolicy", "demo")
	kubectl(t, "apply", "-f", "testdata/policy.yaml")
}

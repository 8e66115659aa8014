//go:build kubernetes

package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/test/soak"
)

// I2: culvert bench measures between pods that it creates itself, and leaves no pod and
// no VF behind. It measures over VFs, over the cluster's own network and to a Service,
// and names each path.
func TestI2BenchOnACluster(t *testing.T) {
	soak.Only(t, "measurements between pods")
	networks(t)
	file := filepath.Join(t.TempDir(), "result.json")
	cmd := exec.CommandContext(t.Context(), top+"/build/bin/culvert", "bench", "run", "--quick", "--repeats", "1",
		"--kubeconfig", k8s.Kubeconfig, "--nodes", "worker01,worker02", "--network", "default/first", "--out", file)
	cmd.Env = append(os.Environ(), "PATH="+k8s.Parts.Kubernetes+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"VF", "overlay", "service"} {
		i := slices.IndexFunc(r.Arms, func(a bench.Arm) bool { return a.Path.Network == network && a.Path.Place == "other node" })
		if i < 0 || len(r.Counted(i)) == 0 {
			t.Errorf("nothing counts over the %s: %+v", network, r.Arms)
		}
	}
	allFree(t, allVFs)
}

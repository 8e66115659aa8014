//go:build kubernetes

package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	r := benchRun(t, "--nodes", "worker01,worker02", "--network", "default/first")
	for _, network := range []string{"VF", "overlay", "service"} {
		expectCounted(t, r, func(p bench.Path) bool { return p.Network == network && p.Place == "other node" })
	}
	allFree(t, allVFs)
}

// I2: M12 in a cluster: a pod that the program makes routes between two networks, and no route, pod or VF is
// left. The NIC's VFs take no bridge, so m13 is refused before a pod is made.
func TestI2BenchThroughAPod(t *testing.T) {
	soak.Only(t, "measurements between pods")
	networks(t)
	ends := []string{"--nodes", "worker01", "--via", "worker02", "--network", "first", "--network", "second"}
	r := benchRun(t, append([]string{"m12"}, ends...)...)
	expectCounted(t, r, func(p bench.Path) bool {
		return p.Network == "VF" && p.Via.How == bench.Routes && p.Via.Machine == "worker02" && p.Via.In == "net1" && p.Via.Out == "net2"
	})
	allFree(t, allVFs)
	out, err := benchCommand(t, append([]string{"m13", "--out", "none.json"}, ends...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cannot bridge") {
		t.Errorf("m13: %v: %s", err, out)
	}
}

// I2: M14 measures the overlay's VXLAN, and M17 has the culvertd of the sender's node lend the pod's VF
// rates, which igb does not enforce. The VF has its own rate again.
func TestI2BenchOfVXLANAndRates(t *testing.T) {
	soak.Only(t, "measurements between pods")
	networks(t)
	r := benchRun(t, "m14", "m17", "--nodes", "worker01,worker02", "--network", "first")
	expectCounted(t, r, func(p bench.Path) bool { return p.Network == "overlay" && p.Ends == "pod-pod" })
	expectCounted(t, r, func(p bench.Path) bool { return p.Network == "VF" && p.Ends == "pod-pod" })
	var rates, unenforced int
	for _, a := range r.Arms {
		if a.Workload.RateLimit > 0 && a.RateMbps > 0 {
			rates++
		}
	}
	for _, note := range r.Notes {
		if strings.Contains(note, "the NIC does not enforce it") {
			unenforced++
		}
	}
	if rates != 3 || unenforced == 0 {
		t.Errorf("%d rates were lent; notes %q", rates, r.Notes)
	}
	allFree(t, allVFs)
}

// benchCommand returns culvert bench run in the cluster, in its shortest form.
func benchCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), top+"/build/bin/culvert", append([]string{"bench", "run", "--quick", "--repeats", "1", "--kubeconfig", k8s.Kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+k8s.Parts.Kubernetes+":"+os.Getenv("PATH"))
	return cmd
}

// benchRun measures in the cluster, and returns the result.
func benchRun(t *testing.T, args ...string) bench.Result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "result.json")
	out, err := benchCommand(t, append(args, "--out", file)...).CombinedOutput()
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
	return r
}

// expectCounted fails unless there is an arm over such a path, and each has a run that counts.
func expectCounted(t *testing.T, r bench.Result, is func(bench.Path) bool) {
	t.Helper()
	found := false
	for i, a := range r.Arms {
		if is(a.Path) {
			found = true
			if len(r.Counted(i)) == 0 {
				t.Errorf("nothing counts of %s", a.Name)
			}
		}
	}
	if !found {
		t.Errorf("there is no such arm: %+v", r.Arms)
	}
}

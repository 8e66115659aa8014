//go:build kubernetes

package kubernetes

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/test/soak"
)

// I2: the sides of an A/B measurement in a cluster are set up by kubectl on this host. They are undone
// when culvert bench is interrupted, and when it is killed; then the pods stay until their lease ends, or
// the command of docs/bench.md removes them.
func TestI2SidesOnACluster(t *testing.T) {
	soak.Only(t, "pods that a measurement creates")
	networks(t)
	const key = "bench.culvert.dev/side"
	for name, signal := range map[string]os.Signal{"Ctrl-C": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			side := "kubectl --kubeconfig " + k8s.Kubeconfig + " annotate --overwrite node worker01 " + key
			cmd := exec.CommandContext(t.Context(), top+"/build/bin/culvert", "bench", "run", "--quick", "--rough", "--path", "overlay,pod-pod",
				"--kubeconfig", k8s.Kubeconfig, "--nodes", "worker01,worker02", "--network", "default/first", "--out", filepath.Join(t.TempDir(), "r.json"),
				"--ab", side+"=$CULVERT_SIDE", side+"=$CULVERT_SIDE", "--ab-undo", side+"-")
			cmd.Env = append(os.Environ(), "PATH="+k8s.Parts.Kubernetes+":"+os.Getenv("PATH"))
			said, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for lines := bufio.NewScanner(said); lines.Scan(); {
				fmt.Fprintln(&all, lines.Text())
				if !strings.Contains(lines.Text(), "side B, when it was set up first") {
					continue
				}
				if out := kubectl(t, "get", "node", "worker01", "--output", "jsonpath={.metadata.annotations}"); !strings.Contains(out, key) {
					t.Errorf("no side is set up: %s", out)
				}
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the exit status is 0")
			}
			t.Logf("%s", all.String())
			left := ""
			for range 60 {
				if left = kubectl(t, "get", "node", "worker01", "--output", "jsonpath={.metadata.annotations}"); !strings.Contains(left, key) {
					break
				}
				time.Sleep(time.Second)
			}
			if strings.Contains(left, key) {
				t.Errorf("the side is left: %s", left)
			}
			if signal == os.Kill {
				for _, namespace := range []string{"default", "culvert-system"} {
					kubectl(t, "delete", "pods,services", "-l", "app.kubernetes.io/managed-by=culvert-bench", "-n", namespace)
				}
			}
			allFree(t, allVFs)
		})
	}
}

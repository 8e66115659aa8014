//go:build lab

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab"
)

const testLab = "t-cluster"

// podTime bounds the start of a pod, on a host with much else to do.
const podTime = "5m"

// TestCluster: a lab with Kubernetes has Ready nodes of the names that were
// asked for, pods that reach each other over Flannel's overlay and by name, and
// leaves nothing.
func TestCluster(t *testing.T) {
	before := traces(t)
	c, err := Up(t.Context(), Options{Source: "../..", Lab: lab.Options{Name: testLab, Names: []string{"worker01", "worker1"}, Progress: os.Stderr, Bound: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Lab.Down(context.Background()); err != nil {
			t.Error(err)
		}
		if after := traces(t); after != before {
			t.Errorf("the cluster leaves something:\n%s\nbefore:\n%s", after, before)
		}
	})
	if again, err := Open(testLab); err != nil || again.Kubeconfig != c.Kubeconfig || again.Parts != c.Parts {
		t.Errorf("opened again: %+v, %v", again, err)
	}
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := c.Kubectl(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	const ready = `jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status} {end}`
	if got := kubectl("get", "nodes", "--output", ready); got != "worker01 True worker1 True" {
		t.Fatalf("nodes: %s", got)
	}

	if _, err := c.KubectlIn(t.Context(), strings.NewReader(testPods), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	kubectl("wait", "--for=condition=Ready", "pod/near", "pod/far", "--timeout="+podTime)
	far := kubectl("get", "pod", "far", "--output", "jsonpath={.status.podIP}")
	if out := kubectl("exec", "near", "--", "ping", "-c", "3", "-W", "10", far); !strings.Contains(out, " 0% packet loss") {
		t.Errorf("ping over the overlay:\n%s", out)
	}
	if out := kubectl("exec", "near", "--", "getent", "hosts", "far.default.svc.cluster.local"); !strings.HasPrefix(out, far) {
		t.Errorf("the name of the far pod is %q, and not %s", out, far)
	}
	if out := kubectl("exec", "near", "--", "curl", "--silent", "--max-time", "20", "http://clusterip"); !strings.Contains(out, "Hello") {
		t.Errorf("through kube-proxy: %q", out)
	}
	t.Run("host", func(t *testing.T) { testReach(t, c, far) })
	t.Run("audit", func(t *testing.T) { testAudit(t, c) })
	t.Run("control plane", func(t *testing.T) { testRestart(t, c) })
}

// testReach: the control plane's namespace has a way to pods, which webhooks
// need.
func testReach(t *testing.T, c *Cluster, pod string) {
	address, err := c.Lab.Relay(t.Context(), pod+":8080")
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), "Hello") {
		t.Errorf("%q, %v", body, err)
	}
}

// testAudit: who asks the API server is in its audit log, once for each
// request.
func testAudit(t *testing.T, c *Cluster) {
	body, err := os.ReadFile(c.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	requests := make(map[string]int)
	for in := bufio.NewScanner(bytes.NewReader(body)); in.Scan(); {
		var event struct {
			User struct{ Username string }
			Verb string
		}
		if err := json.Unmarshal(in.Bytes(), &event); err != nil {
			t.Fatalf("%s: %v", in.Text(), err)
		}
		requests[event.User.Username]++
	}
	for _, who := range []string{"admin", "flannel", "system:kube-proxy", "system:node:worker01", "system:node:worker1"} {
		if requests[who] == 0 {
			t.Errorf("no request of %s among %v", who, requests)
		}
	}
}

// testRestart: a part of the control plane can be gone for a while.
func testRestart(t *testing.T, c *Cluster) {
	if err := c.StopProgram(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Kubectl(t.Context(), "get", "nodes", "--request-timeout=5s"); err == nil {
		t.Errorf("without an API server: %s", out)
	}
	if err := c.StartProgram(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(apiTime); ; time.Sleep(time.Second) {
		out, err := c.Kubectl(t.Context(), "get", "nodes", "--request-timeout=5s")
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after its start: %v: %s", err, out)
		}
	}
}

// traces lists what the test's lab could leave on the host.
func traces(t *testing.T) string {
	t.Helper()
	var out []string
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, proc := range procs {
		if line, _ := os.ReadFile(proc); strings.Contains(string(line), "/"+testLab) {
			out = append(out, "process "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/run/culvert-lab/" + testLab, filepath.Join(cache, "culvert/labs", testLab)} {
		if _, err := os.Lstat(dir); err == nil {
			out = append(out, "file "+dir)
		}
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	temps, _ := filepath.Glob(filepath.Join(os.TempDir(), "culvert-images-*"))
	return fmt.Sprintf("%s\n%d mounts\n%s", strings.Join(out, "\n"), bytes.Count(mounts, []byte("\n")), strings.Join(temps, "\n"))
}

const testPods = `
apiVersion: v1
kind: Pod
metadata: {name: near}
spec:
  nodeName: worker01
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: centos/tools, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}
---
apiVersion: v1
kind: Pod
metadata: {name: far, labels: {app: far}}
spec:
  nodeName: worker1
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: "gcr.io/google-samples/node-hello:1.0", imagePullPolicy: IfNotPresent}
---
apiVersion: v1
kind: Service
metadata: {name: far}
spec: {clusterIP: None, selector: {app: far}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: clusterip}
spec: {selector: {app: far}, ports: [{port: 80, targetPort: 8080}]}
`

package place

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Two networks give each of two pods a VF of its own network, in that network's namespace. The pod in
// the middle has one of both, and its node a pod in the node's own network. All carry the labels, and
// Close removes them.
func (w *world) opensThree(t *testing.T) {
	defer w.runKubelet(t, true)()
	w.Must(http.MethodPost, "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: far}}")
	w.Must(http.MethodPost, "/api/v1/namespaces/far/serviceaccounts", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}")
	c := w.Cluster
	c.To = Seat{"n1", "far", "b"}
	for via, want := range map[string][]string{
		"":   {"default/from on n1: vfs", "far/to on n1: b", "culvert-system/to-host on n1: "},
		"n1": {"default/from on n1: vfs", "far/to on n1: b", "culvert-system/to-host on n1: ", "default/via on n1: default/vfs@net1,far/b@net2"},
		"n3": {"default/from on n1: vfs", "far/to on n1: b", "culvert-system/to-host on n1: ", "default/via on n3: default/vfs@net1,far/b@net2", "culvert-system/via-host on n3: "},
	} {
		c.Via = via
		p, err := c.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pod := range w.listPods(t).Items {
			m := pod.Metadata
			if m.Labels["app.kubernetes.io/managed-by"] != "culvert-bench" || m.Labels[labelRun] != p.run || m.Annotations[leaseKey] == "" {
				t.Errorf("%s has labels %v, annotations %v", m.Name, m.Labels, m.Annotations)
			}
			got = append(got, fmt.Sprintf("%s/%s on %s: %s", m.Namespace, strings.TrimPrefix(m.Name, "culvert-bench-"+p.run+"-"), pod.Spec.NodeName, m.Annotations["k8s.v1.cni.cncf.io/networks"]))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("via %q: pods %q, want %q", via, got, want)
		}
		if err := w.Do(http.MethodGet, "/api/v1/namespaces/far/services/"+p.serviceName(), "", nil); err != nil {
			t.Errorf("the Service is not where its pod is: %v", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n := len(w.listPods(t).Items); n != 0 {
			t.Errorf("via %q: %d pods are left", via, n)
		}
		if err := w.Do(http.MethodGet, "/api/v1/namespaces/far/services/"+p.serviceName(), "", nil); err == nil {
			t.Error("the Service is left")
		}
	}
}

// The agent that asks for rates is in the pod of that node's culvertd, whoever labels others so.
func (w *world) opensCulvertd(t *testing.T) {
	stop := w.runKubelet(t, true)
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *\" exec \"*) echo \"$*\" >> %[2]s/exec;; esac\nexec %[1]s \"$@\"\n", w.Kubectl[0], dir)
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := w.Cluster
	c.Kubectl = []string{filepath.Join(dir, "kubectl")}
	pod := func(path, name, node string) {
		w.Must(http.MethodPost, path, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app.kubernetes.io/name: culvertd}}, spec: {nodeName: %s, containers: [{name: culvertd, image: b}]}}", name, node))
	}
	pod(podsPath, "hostile", "n1")
	if _, err := c.OpenCulvertd(t.Context(), "n1"); err == nil || !strings.Contains(err.Error(), "no pod of culvertd runs on n1") || !strings.Contains(err.Error(), "--system-namespace") {
		t.Errorf("a tenant's pod: %v", err)
	}
	pod(systemPods, "culvertd-a", "n1")
	pod(systemPods, "culvertd-b", "n2")
	var pipe *Pipe
	eventually(t, func() (err error) {
		pipe, err = c.OpenCulvertd(t.Context(), "n2")
		return err
	})
	checkHello(t, pipe)
	if err := pipe.Close(); err != nil {
		t.Error(err)
	}
	const want = "--namespace culvert-system exec --stdin --quiet culvertd-b -- culvert-bench agent --expendable\n"
	if got, err := os.ReadFile(filepath.Join(dir, "exec")); err != nil || string(got) != want {
		t.Errorf("kubectl was called with %q, want %q (%v)", got, want, err)
	}
	for _, path := range []string{podsPath + "/hostile", systemPods + "/culvertd-a", systemPods + "/culvertd-b"} {
		w.Must(http.MethodDelete, path, "{apiVersion: v1, kind: DeleteOptions, gracePeriodSeconds: 0}")
	}
	stop()
}

// eventually calls f until it returns no error, for a minute.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

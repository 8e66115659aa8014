package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/test/apiserver"
)

// world is a real API server with a kubelet that does as it is told.
type world struct {
	*apiserver.Server
	Cluster
}

type podList struct {
	Items []struct {
		Metadata struct {
			Name        string            `json:"name"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
			Deleted     *time.Time        `json:"deletionTimestamp"`
		} `json:"metadata"`
		Spec struct {
			NodeName string `json:"nodeName"`
			HostPID  bool   `json:"hostPID"`
		} `json:"spec"`
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	} `json:"items"`
}

const (
	podsPath     = "/api/v1/namespaces/default/pods"
	servicesPath = "/api/v1/namespaces/default/services"
)

func newCluster(t *testing.T) *world {
	t.Helper()
	s := apiserver.New(t)
	text, err := os.ReadFile(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	admin := strings.ReplaceAll(string(text), `"token": "viewer"`, `"token": "admin"`)
	// kubectl with an exec of its own: there is no kubelet that could.
	script := fmt.Sprintf(`#!/bin/sh
case " $* " in *" exec "*) exec %s agent;; esac
exec %s --kubeconfig %s "$@"
`, ourselves(t).Path, apiserver.Program(t, "kubernetes", "kubectl"), config)
	if err := errors.Join(os.WriteFile(config, []byte(admin), 0o600), os.WriteFile(dir+"/kubectl", []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	s.Must(http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}")
	return &world{s, Cluster{Kubectl: []string{dir + "/kubectl"}, Namespace: "default", Network: "vfs", Image: "culvert:test", From: "n1", To: "n2"}}
}

func (w *world) pods(t *testing.T) podList {
	t.Helper()
	return w.get(t, podsPath)
}

func (w *world) get(t *testing.T, path string) podList {
	t.Helper()
	var all podList
	if err := w.Do(http.MethodGet, path, "", &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// services are the names of those that measurements made.
func (w *world) services(t *testing.T) (names []string) {
	t.Helper()
	for _, s := range w.get(t, servicesPath).Items {
		if strings.HasPrefix(s.Metadata.Name, "culvert-bench-") {
			names = append(names, s.Metadata.Name)
		}
	}
	return names
}

// kubelet lets pods go that are to, and if starts is true makes others ready, until
// stop is called.
func (w *world) kubelet(t *testing.T, starts bool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error {
		for ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			var all podList
			if w.Do(http.MethodGet, podsPath, "", &all) != nil {
				continue // the API server is away, or the test ends
			}
			for _, p := range all.Items {
				if p.Metadata.Deleted != nil {
					_ = w.Do(http.MethodDelete, podsPath+"/"+p.Metadata.Name, `{apiVersion: v1, kind: DeleteOptions, gracePeriodSeconds: 0}`, nil)
				} else if starts && p.Status.Phase != "Running" {
					w.setReady(p.Metadata.Name)
				}
			}
		}
		return nil
	})
	return sync.OnceFunc(func() { cancel(); _ = g.Wait() })
}

func (w *world) setReady(pod string) {
	var whole map[string]any
	if w.Do(http.MethodGet, podsPath+"/"+pod, "", &whole) != nil {
		return
	}
	whole["status"] = object{"phase": "Running", "conditions": []object{{"type": "Ready", "status": "True"}}}
	status, err := json.Marshal(whole)
	if err != nil {
		panic(err) // it was JSON
	}
	_ = w.Do(http.MethodPut, podsPath+"/"+pod+"/status", string(status), nil)
}

func TestCluster(t *testing.T) {
	w := newCluster(t)
	t.Run("SaysWhatIsWrong", w.saysWhatIsWrong)
	t.Run("Opens", w.opens)
	t.Run("LeavesNothing", w.leavesNothing)
}

func (w *world) opens(t *testing.T) {
	defer w.kubelet(t, true)()
	w.Must(http.MethodPost, podsPath, `{apiVersion: v1, kind: Pod, metadata: {name: somebodys}, spec: {containers: [{name: a, image: b}]}}`)
	p, err := w.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pod := range w.pods(t).Items {
		if pod.Metadata.Name == "somebodys" {
			continue
		}
		if pod.Metadata.Labels["app.kubernetes.io/managed-by"] != "culvert-bench" {
			t.Errorf("%s has the labels %v", pod.Metadata.Name, pod.Metadata.Labels)
		}
		if pod.Spec.HostPID != strings.HasSuffix(pod.Metadata.Name, "-host") {
			t.Errorf("%s is in the node's PID namespace: %v", pod.Metadata.Name, pod.Spec.HostPID)
		}
		name := strings.ReplaceAll(pod.Metadata.Name, p.run, "RUN")
		got = append(got, fmt.Sprintf("%s on %s, network %q", name, pod.Spec.NodeName, pod.Metadata.Annotations["k8s.v1.cni.cncf.io/networks"]))
	}
	slices.Sort(got)
	want := []string{
		`culvert-bench-RUN-from on n1, network "vfs"`, `culvert-bench-RUN-from-host on n1, network ""`,
		`culvert-bench-RUN-to on n2, network "vfs"`, `culvert-bench-RUN-to-host on n2, network ""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := w.services(t); !p.Service.IsValid() || len(got) != 1 {
		t.Errorf("Service %s; there are %q", p.Service, got)
	}
	for _, pod := range p.All {
		hello(t, pod.Pipe)
	}
	// The lease of another invocation runs: its pods stay.
	if err := w.reap(t.Context(), time.Now()); err != nil || len(w.pods(t).Items) != 5 {
		t.Errorf("%v, %d pods", err, len(w.pods(t).Items))
	}
	if len(w.services(t)) != 1 {
		t.Error("its Service does not")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if left := w.pods(t).Items; len(left) != 1 || left[0].Metadata.Name != "somebodys" {
		t.Errorf("%d pods are left", len(left))
	}
	if left := w.services(t); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	w.Must(http.MethodDelete, podsPath+"/somebodys", "{apiVersion: v1, kind: DeleteOptions, gracePeriodSeconds: 0}")
}

// What somebody left who died goes when its lease has run out; what it made before the
// API server went away goes when that is back.
func (w *world) leavesNothing(t *testing.T) {
	stop := w.kubelet(t, true)
	dead := &Pods{cluster: w.Cluster, run: "dead"}
	for _, pod := range dead.wanted() {
		w.Must(http.MethodPost, podsPath, text(t, dead.manifest(pod, time.Now().Add(-time.Hour))))
	}
	w.Must(http.MethodPost, servicesPath, text(t, dead.service(time.Now().Add(-time.Hour))))
	p, err := w.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(w.pods(t).Items); n != 4 {
		t.Errorf("%d pods: those of a dead one are left", n)
	}
	if got := w.services(t); len(got) != 1 {
		t.Errorf("%q: that of a dead one is left", got)
	}
	w.Stop()
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	time.Sleep(2 * time.Second) // Close has tried by now
	w.Start()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if n := len(w.pods(t).Items); n != 0 {
		t.Errorf("%d pods are left", n)
	}
	stop()
	// Without a kubelet nothing is ever ready; an interrupt takes all back.
	ctx, interrupt := context.WithTimeout(t.Context(), 5*time.Second)
	defer interrupt()
	defer w.kubelet(t, false)()
	if _, err := w.Open(ctx); err == nil {
		t.Error("pods that nobody started are ready")
	}
	if n := len(w.pods(t).Items); n != 0 {
		t.Errorf("%d pods are left after an interrupt", n)
	}
}

func text(t *testing.T, o object) string {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (w *world) saysWhatIsWrong(t *testing.T) {
	without := w.Cluster
	without.Image = ""
	if _, err := without.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "--image") {
		t.Errorf("no image: %v", err)
	}
	c := Cluster{Kubectl: []string{"no-such-kubectl"}, Namespace: "default"}
	if _, err := c.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "install it") {
		t.Errorf("no kubectl: %v", err)
	}
}

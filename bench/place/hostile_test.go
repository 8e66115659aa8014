package place

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// tenant has all rights in the namespace default and none elsewhere.
const tenant = `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: tenant},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]}`

// A tenant may enter every pod of its namespace, and none in which it would be root on the node.
func (w *world) keepsNodesFromTenants(t *testing.T) {
	defer w.runKubelet(t, true)()
	w.Must(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", tenant)
	p, err := w.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, pod := range p.All {
		out, err := w.runKubectl(t.Context(), pod.Namespace, nil, "auth", "can-i", "create", "pods/"+pod.Name, "--subresource=exec", "--as", "tenant", "--quiet")
		if enters := err == nil; enters == pod.Host {
			t.Errorf("the tenant may enter %s/%s, in the node's network %t: %t, %v: %s", pod.Namespace, pod.Name, pod.Host, enters, err, out)
		}
	}
}

// A tenant gives the label of a running measurement to a pod of its own, with a lease that has run out.
// The next measurement removes that pod, and neither the nodes' pods of the other one nor the others.
func (w *world) keepsRunsOfOthers(t *testing.T) {
	defer w.runKubelet(t, true)()
	p, err := w.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	w.Must(http.MethodPost, podsPath, fmt.Sprintf(`{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, image: b}]},
  metadata: {name: hostile, labels: {app.kubernetes.io/managed-by: culvert-bench, culvert.dev/bench-run: %q}, annotations: {culvert.dev/bench-until: "2026-01-01T00:00:00Z"}}}`, p.run))
	if err := w.removeExpired(t.Context(), time.Now()); err != nil {
		t.Error(err)
	}
	if n := len(w.listPods(t).Items); n != len(p.All) {
		t.Errorf("%d pods are left of %d", n, len(p.All))
	}
	if got := w.listServices(t); len(got) != 1 {
		t.Errorf("Services are %q", got)
	}
}

// A tenant that sees a measurement begin takes the name of its next pod or of its Service. The
// measurement ends: it enters no pod, removes its own objects, and leaves the tenant's alone.
func (w *world) entersNoPodOfAnother(t *testing.T) {
	defer w.runKubelet(t, true)()
	for taken, left := range map[string][2]int{"-to": {1, 0}, "": {0, 1}} { // pods and Services, the tenant's
		dir := t.TempDir()
		// This kubectl creates the object with that name first, as the tenant does, with another image
		// and other labels. It notes each command that is run in a pod.
		script := fmt.Sprintf(`#!/bin/sh
case " $* " in
*" exec "*) echo "$*" >> %[2]s/exec; exit 1 ;;
*" create "*)
	in=$(cat)
	case $in in *'"name":"culvert-bench-'????????'%[3]s"'*) printf %%s "$in" | sed 's/culvert:test/hostile/; s/culvert-bench"/tenant"/; s/bench-run/x/' | %[1]s "$@" >/dev/null ;; esac
	printf %%s "$in" | exec %[1]s "$@" ;;
*) exec %[1]s "$@" ;;
esac
`, w.Kubectl[0], dir, taken)
		if err := os.WriteFile(dir+"/kubectl", []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		other := w.Cluster
		other.Kubectl = []string{dir + "/kubectl"}
		p, err := other.Open(t.Context())
		if err == nil || p != nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("the name with %q is taken: %v", taken, err)
		}
		if entered, err := os.ReadFile(dir + "/exec"); err == nil {
			t.Errorf("the measurement ran %s", entered)
		}
		if pods, services := len(w.listPods(t).Items), w.listServices(t); pods != left[0] || len(services) != left[1] {
			t.Errorf("the name with %q is taken: %d pods and the Services %q are left", taken, pods, services)
		}
		if _, err := w.runKubectl(t.Context(), w.To.Namespace, nil, "delete", made, "--selector", "app.kubernetes.io/managed-by=tenant"); err != nil {
			t.Fatal(err)
		}
	}
}

// A tenant gives the label of a running measurement to a pod that never starts and that a finalizer keeps.
// The measurement neither waits for that pod nor removes it.
func (w *world) waitsForNoPodOfOthers(t *testing.T) {
	defer w.runKubelet(t, true)()
	p, err := w.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Must(http.MethodPost, podsPath, fmt.Sprintf(`{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, image: b}]},
  metadata: {name: %s, labels: {app.kubernetes.io/managed-by: culvert-bench, culvert.dev/bench-run: %q}, finalizers: [example.com/x]}}`, neverReady, p.run))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(p.waitReady(ctx), p.Close()); err != nil {
		t.Error(err)
	}
	if left := w.listPods(t).Items; len(left) != 1 || left[0].Metadata.Deleted != nil {
		t.Errorf("%d pods are left", len(left))
	}
	if _, err := w.runKubectl(t.Context(), w.To.Namespace, nil, "patch", "pod", neverReady, "--type=merge", "--patch", `{"metadata":{"finalizers":null}}`); err != nil {
		t.Fatal(err)
	}
	w.Must(http.MethodDelete, podsPath+"/"+neverReady, "{apiVersion: v1, kind: DeleteOptions, gracePeriodSeconds: 0}")
}

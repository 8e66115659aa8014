//go:build lab

package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/culvert-net/culvert/test/apiserver"
)

const (
	top   = "../.."
	chart = top + "/dist/kubernetes/chart"
)

// helm runs Helm with settings of its own, and returns what it printed. The error has what it wrote on
// standard error.
func helm(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir() // what helm cached about another server at that port is of no use
	cmd := exec.CommandContext(t.Context(), apiserver.Program(t, "helm", "helm"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, failed.String())
	}
	return out.String(), nil
}

// tryTemplate renders a chart without a cluster.
func tryTemplate(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	return helm(t, "", append([]string{"template", "culvert", folder, "--namespace", "culvert-system", "--kube-version", "1.30.0"}, args...)...)
}

// template renders the chart of the tree.
func template(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryTemplate(t, chart, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// decode reads the documents of a YAML text.
func decode(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	documents := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// workloads are the objects of the chart that make pods.
type workloads struct {
	node       appsv1.DaemonSet
	controller appsv1.Deployment
	release    batchv1.Job
}

// findWorkloads returns the workloads among the objects of a YAML text.
func findWorkloads(t *testing.T, text string) (w workloads) {
	t.Helper()
	for _, o := range decode(t, text) {
		into := map[string]any{"DaemonSet": &w.node, "Deployment": &w.controller, "Job": &w.release}[o.GetKind()]
		if into == nil {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

//go:build lab

package chart

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// kubectl builds the base, which has the objects of the one manifest, and the overlay of the examples,
// whose three changes reach the pods and nothing else.
func TestKustomize(t *testing.T) {
	manifest, err := os.ReadFile(top + "/dist/kubernetes/culvert.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	for _, o := range decode(t, string(manifest)) {
		want[o.GetKind()+" "+o.GetName()] = joinSpace(o.Object)
	}
	build := func(folder string) (string, map[string]any) {
		text, got := kubectl(t, "", "kustomize", folder), map[string]any{}
		for _, o := range decode(t, text) {
			got[o.GetKind()+" "+o.GetName()] = joinSpace(o.Object)
		}
		return text, got
	}
	_, base := build(top + "/dist/kubernetes")
	if diff := cmp.Diff(want, base); diff != "" {
		t.Errorf("the base (-manifest +kustomize):\n%s", diff)
	}
	text, overlay := build(top + "/examples/kustomize")
	w := findWorkloads(t, text)
	for name, pod := range map[string]corev1.PodSpec{"culvertd": w.node.Spec.Template.Spec, "culvert-controller": w.controller.Spec.Template.Spec} {
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			if c.Image != "registry.example.org/culvert:v0.1.0" {
				t.Errorf("container %s of %s has the image %s", c.Name, name, c.Image)
			}
		}
		if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "registry"}}, pod.ImagePullSecrets); diff != "" {
			t.Errorf("%s: secrets (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"kubernetes.io/os": "linux", "example.org/sriov": "true"}, w.node.Spec.Template.Spec.NodeSelector); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	for _, changed := range []string{"DaemonSet culvertd", "Deployment culvert-controller"} {
		delete(want, changed)
		delete(overlay, changed)
	}
	if diff := cmp.Diff(want, overlay); diff != "" {
		t.Errorf("other objects of the overlay (-manifest +kustomize):\n%s", diff)
	}
}

// joinSpace returns a value whose texts have single spaces. Kustomize adds empty lines to the folded
// expressions of policies, in which space has no meaning.
func joinSpace(value any) any {
	switch v := value.(type) {
	case string:
		return strings.Join(strings.Fields(v), " ")
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = joinSpace(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name := range v {
			out[name] = joinSpace(v[name])
		}
		return out
	}
	return value
}

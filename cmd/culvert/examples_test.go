package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/verdict"
	"github.com/culvert-net/culvert/internal/guest"
)

const examples = "../../examples"

// Each example works as it stands: culvert net check accepts the objects without a warning, and they
// have no unknown key. host.yaml is one that culvert host validate accepts, and guest.xml a
// definition of a guest. test/kubernetes applies the objects to a cluster.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(examples + "/*.yaml")
	if err != nil || len(files) < 9 {
		t.Fatal(files, err)
	}
	out, status := netCheck("", append(slices.Clone(files), "-o", "json")...)
	var all []verdict.Verdict
	if err := json.Unmarshal([]byte(out), &all); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	judged := map[string]bool{"service.yaml": true} // whose annotation the webhook judges
	for _, v := range all {
		file, _, _ := strings.Cut(filepath.Base(v.From), ":")
		judged[file] = true
		if v.Outcome != verdict.Works {
			t.Errorf("%+v", v)
		}
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !judged[filepath.Base(name)] || !bytes.HasPrefix(text, []byte("# ")) {
			t.Errorf("%s: want a comment at its top, and objects that culvert net check knows", name)
		}
		if filepath.Base(name) != "host.yaml" {
			decodeStrictly(t, name, text)
		}
	}
	var printed bytes.Buffer
	root := newRoot()
	root.SetOut(&printed)
	root.SetErr(io.Discard)
	root.SetArgs([]string{"host", "validate", examples + "/host.yaml"})
	if status := cli.Run(root); status != 0 {
		t.Errorf("culvert host validate: status %d: %s", status, printed.String())
	}
	text, err := os.ReadFile(examples + "/guest.xml")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("</name>"), []byte("</name><uuid>0b5c1f5e-6f0a-4c53-9a53-0c1e3a3c7d11</uuid>"), 1) // as virsh define does
	if d, err := guest.Parse(text); err != nil || d.Name != "db1" || len(d.Uses) != 0 {
		t.Errorf("guest.xml: %+v, %v", d, err)
	}
}

// decodeStrictly fails the test for an unknown key or kind in a file of objects.
func decodeStrictly(t *testing.T, name string, text []byte) {
	t.Helper()
	for _, document := range strings.Split(string(text), "\n---\n") {
		var kind struct{ Kind string }
		err := yaml.Unmarshal([]byte(document), &kind)
		into := map[string]any{
			"NodePolicy": &v1alpha1.NodePolicy{}, "Pod": &corev1.Pod{}, "Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{},
			"NetworkAttachmentDefinition": &struct {
				APIVersion, Kind string
				Metadata         struct {
					Name        string
					Annotations map[string]string
				}
				Spec struct{ Config string }
			}{},
		}[kind.Kind]
		if into == nil {
			err = errors.Join(err, errors.New("a kind that this test does not know: "+kind.Kind))
		} else {
			err = errors.Join(err, yaml.UnmarshalStrict([]byte(document), into))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

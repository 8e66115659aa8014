//go:build lab

package chart

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/test/apiserver"
	"github.com/culvert-net/culvert/test/soak"
)

// writeFile writes a file into a folder of its own, and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// copyChart copies the chart with other values. Helm does the same for an upgrade with
// --reuse-values: the values of the earlier release take the place of the chart's.
func copyChart(t *testing.T, values string) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(chart, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(chart, name)
		if err != nil {
			return err
		}
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			if d.Type()&fs.ModeSymlink != 0 {
				return os.CopyFS(filepath.Join(dir, below), os.DirFS(name))
			}
			return os.MkdirAll(filepath.Join(dir, below), 0o755)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, below), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "values.yaml"), []byte(values), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The chart with the values of an earlier chart alone, as helm upgrade --reuse-values renders it, gives
// what the present defaults give, but for defaults that have changed. Of namespace isolation "auto" a
// person decides.
func TestReusedValuesOfEarlierCharts(t *testing.T) {
	const before = "image.name=culvert.dev/culvert:dev,networkAttachmentDefinitions=true"
	for commit, changed := range map[string]string{
		"0ef8926d": before + ",node.resources.limits=null",
		"2dafcb24": before,
		"d24e0184": before,
		"ba8c494a": "image.name=culvert.dev/culvert:v0.1.0",
		"9ebb0f60": "image.name=culvert.dev/culvert:v0.1.0",
		"23eae815": "image.name=culvert.dev/culvert:v0.1.0",
	} {
		values, err := os.ReadFile("testdata/values/" + commit + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		folder, args := copyChart(t, string(values)), []string(nil)
		if strings.Contains(string(values), "namespaceIsolation: auto") {
			if _, err := tryTemplate(t, folder); err == nil || !strings.Contains(err.Error(), "set it to true (") {
				t.Errorf("%s: isolation auto: %v", commit, err)
			}
			args = []string{"--set", "node.namespaceIsolation=true"}
		}
		got, err := tryTemplate(t, folder, args...)
		if err != nil {
			t.Errorf("%s: %v", commit, err)
			continue
		}
		if diff := cmp.Diff(template(t, "--set", changed), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", commit, diff)
		}
	}
}

// Values that are absent, one by one or with all of their section, have their defaults.
func TestAbsentValuesHaveDefaults(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	want := template(t)
	for name, file := range map[string]string{"one by one": marshal(t, nullify(values, false)), "by section": marshal(t, nullify(values, true))} {
		if diff := cmp.Diff(want, template(t, "--values", writeFile(t, "null.yaml", file))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got, err := tryTemplate(t, copyChart(t, "{}\n")); err != nil || got != want {
		t.Errorf("a chart without values.yaml: %v\n%s", err, cmp.Diff(want, got))
	}
}

func marshal(t *testing.T, values any) string {
	t.Helper()
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sections are the maps of values.yaml that have values of the chart, and are none themselves.
var sections = map[string]bool{"image": true, "node": true, "devicePlugin": true, "metrics": true, "controller": true, "monitoring": true, "networkPolicies": true}

// nullify returns values with null for each value, or for each section at the top.
func nullify(values map[string]any, bySection bool) map[string]any {
	out := map[string]any{}
	for name, v := range values {
		out[name] = nil
		if below, is := v.(map[string]any); is && sections[name] && !bySection {
			out[name] = nullify(below, false)
		}
	}
	return out
}

// An upgrade from the first chart that this repository had, and from a later one, by the documented
// command on a real API server: it keeps the values that a person gave, and all others are the new
// chart's. helm rollback goes back. An upgrade with --reuse-values turns nothing off, either.
func TestUpgradeFromTheFirstChart(t *testing.T) {
	s := apiserver.New(t, "--allow-privileged") // the first culvertd was privileged
	kubeconfig := s.AdminKubeconfig()
	t.Run("first", func(t *testing.T) { upgradeFrom(t, kubeconfig, "0ef8926d", "") })
	t.Run("later", func(t *testing.T) {
		soak.Only(t, "five commands of Helm more")
		upgradeFrom(t, kubeconfig, "ba8c494a", ",node.namespaceIsolation=false")
	})
}

// upgradeFrom installs the chart of a commit, upgrades it and goes back. decided has the values for
// which the upgrade asks a person.
func upgradeFrom(t *testing.T, kubeconfig, commit, decided string) {
	old := checkOut(t, commit)
	run := func(args ...string) string {
		t.Helper()
		out, err := helm(t, kubeconfig, append(args, "--namespace", "culvert-system")...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	given := "controller.drainNodes=3,image.name=registry.example.org/culvert:v1" + decided
	run("install", "culvert", old, "--create-namespace", "--set", given)
	before := run("get", "manifest", "culvert")
	want := run("template", "culvert", chart, "--kube-version", "1.37.0", "--api-versions", "resource.k8s.io/v1/DeviceClass", "--set", given+",controller.releaseServices=false,node.extraArgs={--debug}")
	run("upgrade", "culvert", chart, "--reset-then-reuse-values", "--set", "node.extraArgs={--debug}")
	if diff := cmp.Diff(decode(t, want), decode(t, run("get", "manifest", "culvert"))); diff != "" {
		t.Errorf("upgraded (-want +got):\n%s", diff)
	}
	run("rollback", "culvert", "1")
	if diff := cmp.Diff(before, run("get", "manifest", "culvert")); diff != "" {
		t.Errorf("rolled back (-want +got):\n%s", diff)
	}
	run("upgrade", "culvert", chart, "--reuse-values", "--set", "node.extraArgs={--debug}")
	if got := run("get", "manifest", "culvert"); !strings.Contains(got, "--drain-nodes=3\n") || !strings.Contains(got, "--pod-networks=auto\n") || !strings.Contains(got, "kind: NetworkPolicy\n") {
		t.Errorf("with --reuse-values:\n%s", got)
	}
	run("uninstall", "culvert", "--no-hooks")
}

// checkOut writes the chart of a commit into a folder.
func checkOut(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `git archive "$1" dist/kubernetes | tar -x -C "$2"`, "sh", commit, dir)
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("this clone has no commit %s: %v: %s", commit, err, out)
	}
	return filepath.Join(dir, "dist/kubernetes/chart")
}

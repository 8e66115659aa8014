package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/clusterview"
	"github.com/culvert-net/culvert/internal/admin/migrate"
)

// migrateConvert runs culvert migrate convert with a file of that text.
func migrateConvert(t *testing.T, text string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "operator.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errors bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&errors)
	root.SetIn(strings.NewReader(text))
	if len(args) == 0 || args[0] != "-" {
		args = append([]string{file}, args...)
	}
	root.SetArgs(append([]string{"migrate", "convert"}, args...))
	status = cli.Run(root)
	return out.String(), errors.String(), status
}

const operatorNetwork = "kind: SriovNetwork\nmetadata: {name: n, namespace: op}\nspec: {resourceName: r, vlan: 7}\n"

// TestMigrateConvert: the objects to apply go to standard output, remarks go to standard error, and
// the exit status says whether an object or field has no equivalent.
func TestMigrateConvert(t *testing.T) {
	out, said, status := migrateConvert(t, operatorNetwork)
	if status != 0 || !strings.HasPrefix(out, "---\napiVersion: k8s.cni.cncf.io/v1\n") || !strings.Contains(said, "SriovNetwork op/n: becomes NetworkAttachmentDefinition op/n\n") {
		t.Errorf("status %d\n%s\n%s", status, out, said)
	}
	out, said, status = migrateConvert(t, operatorNetwork+"---\nkind: SriovIBNetwork\nmetadata: {name: i}\nspec: {resourceName: r}\n", "--resource-prefix", "example.org")
	if status != exitLoss || strings.Count(out, "kind:") != 1 || !strings.Contains(out, "example.org/r") || !strings.Contains(said, "SriovIBNetwork i: not converted") {
		t.Errorf("status %d\n%s\n%s", status, out, said)
	}
	if out, said, status = migrateConvert(t, "kind: ["); status != 1 || out != "" || !strings.Contains(said, "operator.yaml: invalid") {
		t.Errorf("status %d\n%s\n%s", status, out, said)
	}
	if _, said, status = migrateConvert(t, "", filepath.Join(t.TempDir(), "none")); status != 1 || !strings.Contains(said, "no such file") {
		t.Errorf("status %d\n%s", status, said)
	}
}

// TestMigrateConvertJSON: the output is one list that kubectl accepts, also for standard input and
// for no objects.
func TestMigrateConvertJSON(t *testing.T) {
	for text, items := range map[string]int{operatorNetwork: 1, "": 0} {
		out, said, status := migrateConvert(t, text, "-", "-o", "json")
		var list struct {
			Kind  string
			Items []map[string]any
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil || status != 0 || list.Kind != "List" || list.Items == nil || len(list.Items) != items {
			t.Errorf("%v, status %d\n%s\n%s", err, status, out, said)
		}
	}
}

// TestMigrationJudges: networks and pods of a cluster are judged as culvert net check judges files.
// A warning of a pod counts as remaining work, a warning of a network does not.
func TestMigrationJudges(t *testing.T) {
	asks := func(name, networks string) clusterview.StackPod {
		return clusterview.StackPod{Namespace: "d", Name: name, Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": networks}}
	}
	c, err := migrationOf(clusterview.Stack{
		Networks: []clusterview.StackNetwork{
			{Namespace: "d", Name: "good", Config: `{"type": "sriov"}`},
			{Namespace: "d", Name: "odd", Config: `{"type": "sriov", "master": "eth1"}`},
			{Namespace: "d", Name: "bad", Config: `{"type": "sriov", "vlan": 5000}`},
			{Namespace: "d", Name: "other", Config: `{"type": "macvlan"}`},
			{Namespace: "d", Name: "theirs", Config: `{"type": "macvlan", "ipam": {"type": "nv-ipam"}}`},
			{Namespace: "d", Name: "chain", Config: `{"type": "ptp", "ipam": {"type": "ptp"}}`},
		},
		Pods: []clusterview.StackPod{asks("a", "good"), asks("b", "missing"), asks("c", `[{"name": "good", "mac": "02:00:00:00:00:01"}]`), asks("e", "A")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, n := range c.Judged {
		text, _, _ := strings.Cut(n.Text, ":")
		got[n.Object+": "+text] = n.Lost
	}
	want := map[string]bool{
		"NetworkAttachmentDefinition d/good: works as it is":          false,
		"NetworkAttachmentDefinition d/odd: works, with a warning":    false,
		"NetworkAttachmentDefinition d/bad: would be refused":         true,
		"NetworkAttachmentDefinition d/other: works as it is":         false,
		"NetworkAttachmentDefinition d/theirs: works, with a warning": false, // the plan adds its IPAM plugin
		"NetworkAttachmentDefinition d/chain: would be refused":       true,
		"Pod d/b: works, with a warning":                              true, // its network does not exist
		"Pod d/e: would be refused":                                   true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s\n%v", diff, c.Judged)
	}
	p := migrate.MakePlan(c, migrate.Options{})
	if text := fmt.Sprint(p.Steps); !strings.Contains(text, "--ipam-types=nv-ipam|") || strings.Contains(text, "ptp") {
		t.Error(text)
	}
	if text := fmt.Sprint(p.Problems); !strings.Contains(text, "NetworkAttachmentDefinition d/chain: would be refused: spec.config: ipam.type ptp: ") {
		t.Error(text)
	}
}

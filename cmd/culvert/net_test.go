package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/verdict"
)

// netCheck runs culvert net check.
func netCheck(stdin string, args ...string) (stdout string, status int) {
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(append([]string{"net", "check"}, args...))
	status = cli.Run(root)
	return out.String(), status
}

const checkedNetwork = "kind: NetworkAttachmentDefinition\nmetadata: {name: net}\nspec: {config: '{\"type\":\"sriov\",\"max-tx-rate\":5}'}\n"

// TestNetCheck: the exit status is 1 if an object is refused, the reasons fit 100 columns,
// and a pod's network is found in another file.
func TestNetCheck(t *testing.T) {
	dir := t.TempDir()
	network, pod := filepath.Join(dir, "network.yaml"), filepath.Join(dir, "pod.yaml")
	for file, text := range map[string]string{network: checkedNetwork, pod: "kind: Pod\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: net}}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, status := netCheck("", network, pod)
	if status != 0 || !strings.Contains(out, "\n  warning: spec.config: max-tx-rate 5: unknown key, ignored: did you mean max_tx_rate?\n") ||
		strings.Contains(out, "was not judged") || !strings.Contains(out, "Pod p") {
		t.Errorf("status %d:\n%s", status, out)
	}
	for line := range strings.Lines(out) {
		if len(strings.TrimRight(line, "\n")) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	refused := strings.Replace(checkedNetwork, `"type":"sriov"`, `"type":"culvert"`, 1)
	for name, tc := range map[string]struct {
		stdin string
		want  int
	}{"refused": {refused, 1}, "works": {checkedNetwork, 0}, "nothing": {"kind: Service\n", 0}, "no YAML": {"a: [", 1}} {
		if _, status := netCheck(tc.stdin, "-"); status != tc.want {
			t.Errorf("%s: status %d, want %d", name, status, tc.want)
		}
	}
}

// I10: names in a file cannot act upon the terminal.
func TestI10NetCheckCleansNames(t *testing.T) {
	evil := strings.Replace(checkedNetwork, "{name: ", `{name: "a\e]0;x\ab\e[2J", namespace: "b\e[31mc" }`+"\nx: {name: ", 1)
	for _, text := range []string{evil, strings.Replace(evil, `"type":"sriov"`, `"type":"culvert","pool":"\u001b[1m"`, 1)} {
		out, _ := netCheck(text, "-")
		if strings.ContainsAny(out, "\x1b\a") || !strings.Contains(out, `\x1b]0;x`) {
			t.Errorf("%q of %q", out, text)
		}
	}
}

// A file that cannot be read does not hide the verdicts on other files.
func TestNetCheckOfManyFiles(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{good: checkedNetwork, bad: "a: ["} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, status := netCheck("", filepath.Join(dir, "none.yaml"), bad, good, "-o", "json")
	var all []verdict.Verdict
	if err := json.Unmarshal([]byte(out), &all); err != nil || status != 1 || len(all) != 3 {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	for i, want := range []verdict.Outcome{verdict.Refused, verdict.Refused, verdict.Works} {
		if v := all[i]; v.Outcome != want && !(want == verdict.Works && v.Outcome == verdict.Warned) {
			t.Errorf("%+v, want %s", v, want)
		}
	}
	if !strings.Contains(out, "no such file") {
		t.Error(out)
	}
}

func TestNetCheckForPrograms(t *testing.T) {
	for stdin, want := range map[string]int{checkedNetwork: 1, "kind: Service\n": 0} {
		out, status := netCheck(stdin, "-", "-o", "json")
		var all []verdict.Verdict
		if status != 0 || json.Unmarshal([]byte(out), &all) != nil || all == nil || len(all) != want {
			t.Errorf("%s: status %d, %s", stdin, status, out)
		}
	}
}

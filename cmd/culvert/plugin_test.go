package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// apiServer runs an API server with Culvert's objects for two nodes, and returns a kubeconfig
// for it. pods has the pods that it lists.
func apiServer(t *testing.T, pods string) (kubeconfig string) {
	t.Helper()
	state, err := os.ReadFile("../../internal/node/status/testdata/nodestate.json")
	if err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf(`{"metadata": {"name": "worker01"}, "status": %s}`, state)
	two := `{"metadata": {"name": "worker02"}, "status": {"version": "v0.1.0", "conditions": [{"type": "Ready", "status": "True"}],
		"pfs": [{"name": "enp1s0f0", "id": "90:e2:ba:00:00:11", "pciAddress": "0000:01:00.0", "driver": "igb", "carrier": true, "speedMbps": 1000, "mtu": 1500, "totalVFs": 7, "numVFs": 1}],
		"vfs": [{"name": "enp1s0f0#0", "pciAddress": "0000:01:10.0", "phase": "attached", "pool": "culvert.dev/a", "owner": {"kind": "pod", "name": "default/c", "interface": "net1"}, "network": "sriov"}],
		"pools": [{"name": "culvert.dev/a", "deviceType": "netdevice"}]}}`
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/culvert.dev/v1alpha1/nodestates", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // nothing changes
			return
		}
		items := one + "," + two
		switch r.URL.Query().Get("fieldSelector") {
		case "metadata.name=worker02":
			items = two
		case "metadata.name=worker09":
			items = ""
		}
		fmt.Fprintf(w, `{"items": [%s]}`, items)
	})
	answer := func(path, items string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"items": [%s]}`, items) })
	}
	answer("/apis/culvert.dev/v1alpha1/nodepolicies", `{"metadata": {"name": "intel"}, "spec": {"priority": 10}, "status": {"nodes": 2, "appliedNodes": 2}}`)
	answer("/apis/culvert.dev/v1alpha1/addresspools", `{"metadata": {"name": "sriov"}, "spec": {"network": "sriov", "blocks": [{"node": "worker02"}]}, "status": {"addresses": 253, "granted": 32}}`)
	answer("/api/v1/pods", pods)
	mux.HandleFunc("/api/v1/namespaces/default/pods/d", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"metadata": {"namespace": "default", "name": "d", "uid": "u1"}, "spec": {"containers": [{"resources": {"requests": {"culvert.dev/a": "1"}}}]}, "status": {"phase": "Pending"}}`)
	})
	answer("/api/v1/namespaces/default/pods", `{"metadata": {"name": "d"}}`)
	answer("/api/v1/namespaces/default/events", "")
	answer("/api/v1/nodes", `{"metadata": {"name": "worker01"}}`)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	config := fmt.Sprintf(`{"current-context": "main", "contexts": [{"name": "main", "context": {"cluster": "prod"}}, {"name": "gone", "context": {"cluster": "old"}}],
		"clusters": [{"name": "prod", "cluster": {"server": %q}}, {"name": "old", "cluster": {"server": "http://127.0.0.1:1"}}]}`, srv.URL)
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// timeLine matches the time of the status.
var timeLine = regexp.MustCompile(`time: .*`)

const daemonPods = `{"metadata": {"namespace": "culvert-system", "name": "culvertd-a"}, "spec": {"nodeName": "worker01"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
	{"metadata": {"namespace": "culvert-system", "name": "culvertd-b"}, "spec": {"nodeName": "worker02"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}],
		"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}`

// called runs the program by one of its names.
func called(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	root := newCommand(program, args)
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetErr(&b)
	err := root.ExecuteContext(t.Context())
	return b.String(), err
}

// completed runs the program that kubectl runs for completions. On a busy machine, it repeats
// runs that took longer than the program may take.
func completed(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	for range 20 {
		begun := time.Now()
		out, err = called(t, completionName, args...)
		if time.Since(begun) < completionBound {
			break
		}
	}
	return out, err
}

// TestPlugin compares a session with kubectl's plugin with testdata/cluster.txt.
func TestPlugin(t *testing.T) {
	t.Setenv("KUBECONFIG", apiServer(t, daemonPods))
	var got strings.Builder
	for _, line := range []string{
		"",
		"status",
		"status --node worker02",
		"status --node worker02 -o yaml",
		"status --node worker09",
		"vf list --phase attached",
		"vf list --node worker02 -o json",
		"vf show enp1s0f0#0",
		"vf show default/nobody",
		"pool list",
		"pool list -o wide --node worker02",
		"why pod/d",
		"why pod e -o json",
		"why d -n other",
		"why guest/db1",
		"events",
		"vf show --help",
	} {
		out, err := called(t, pluginName, strings.Fields(line)...)
		fmt.Fprintf(&got, "$ kubectl culvert %s\n%s", line, out)
		if err != nil {
			fmt.Fprintf(&got, "kubectl culvert: %v\n", err)
		}
		got.WriteByte('\n')
	}
	session := timeLine.ReplaceAllString(got.String(), "time: NOW")
	if *update {
		if err := os.WriteFile("testdata/cluster.txt", []byte(session), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/cluster.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), session); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestClusterIsChosen: culvert reads the cluster if a flag selects it, and only then.
func TestClusterIsChosen(t *testing.T) {
	kubeconfig := apiServer(t, "")
	t.Setenv("KUBECONFIG", kubeconfig)
	socket := filepath.Join(t.TempDir(), "s")
	for line, want := range map[string]string{
		"status":                                 "--cluster asks a Kubernetes cluster instead",
		"vf list":                                "--cluster asks",
		"status --cluster":                       "cluster prod  2 nodes",
		"status --kubeconfig " + kubeconfig:      "cluster prod  2 nodes",
		"status --context main":                  "cluster prod  2 nodes",
		"status --node worker02":                 "worker02  ready",
		"status --context gone":                  "cluster old",
		"status --context none":                  `context "none" does not exist`,
		"vf list --cluster --pf enp1s0f0":        "worker02  enp1s0f0#0",
		"pool list --cluster":                    "worker02  culvert.dev/a",
		"status --cluster --kubeconfig /no/such": "/no/such",
	} {
		out, err := called(t, "culvert", append([]string{"--socket", socket}, strings.Fields(line)...)...)
		if got := fmt.Sprint(out, err); !strings.Contains(got, want) {
			t.Errorf("%s: %q is not in:\n%s", line, want, got)
		}
	}
}

// TestPluginCompletion: for completions, kubectl runs the program under another name, with
// the words of the line.
func TestPluginCompletion(t *testing.T) {
	t.Setenv("KUBECONFIG", apiServer(t, daemonPods))
	for line, want := range map[string]string{
		"":                     "status",
		"vf show ":             "default/c",
		"vf list --node ":      "worker02",
		"status --context ":    "gone",
		"vf list --pool ":      "culvert.dev/a",
		"vf list --node work":  "worker01",
		"pool list --node wo":  "worker01",
		"vf list --phase ":     "attached",
		"status --node no-one": ":4",
	} {
		out, err := completed(t, strings.Split(line, " ")...)
		if err != nil || !strings.Contains("\n"+strings.ReplaceAll(out, "\t", "\n"), "\n"+want+"\n") {
			t.Errorf("%q does not offer %s: %v\n%s", line, want, err, out)
		}
	}
}

// TestPluginHelp: the command lines in the plugin's help can be typed.
func TestPluginHelp(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.Long == "" || !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: a short line, a long text and an example are wanted", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			typed := strings.Fields(strings.Split(line, "#")[0])
			found, _, err := c.Root().Find(typed[2:])
			if typed[0] != "kubectl" || typed[1] != "culvert" || err != nil || !found.Runnable() {
				t.Errorf("%s shows an example that does not work: %s", c.CommandPath(), line)
			}
			for _, w := range typed {
				if name, ok := strings.CutPrefix(w, "--"); ok && found.Flag(name) == nil {
					t.Errorf("%s: no flag %s: %s", c.CommandPath(), w, line)
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newPlugin())
}

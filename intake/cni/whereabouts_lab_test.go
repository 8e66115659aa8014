//go:build lab

package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kube"
	"github.com/culvert-net/culvert/test/apiserver"
)

// installWhereabouts creates the types of whereabouts in a cluster, and returns the folder that
// has its plugin and the path of its configuration.
func installWhereabouts(t *testing.T, s *apiserver.Server) (plugins, config string) {
	t.Helper()
	module := exec.Command("../../../tools/go", "list", "-m", "-f", "{{.Dir}}", "github.com/k8snetworkplumbingwg/whereabouts")
	module.Dir = filepath.Join("..", "..", "test", "tools", "whereabouts")
	download := exec.Command("../../../tools/go", "mod", "download", "github.com/k8snetworkplumbingwg/whereabouts")
	download.Dir = module.Dir
	if out, err := download.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir, err := module.Output()
	if err != nil {
		t.Fatal(err)
	}
	crds, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "doc", "crds", "whereabouts.cni.cncf.io_*.yaml"))
	if err != nil || len(crds) == 0 {
		t.Fatalf("the types of whereabouts: %v, %v", crds, err)
	}
	for _, file := range crds {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s.Must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(text))
	}
	program, err := os.ReadFile(apiserver.Program(t, "whereabouts", "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(s.Kubeconfig()) // the viewer's
	if err != nil {
		t.Fatal(err)
	}
	plugins = t.TempDir()
	account := filepath.Join(plugins, "kubeconfig")
	config = filepath.Join(plugins, "whereabouts.conf")
	if err := errors.Join(
		os.WriteFile(filepath.Join(plugins, "whereabouts"), program, 0o755),
		os.WriteFile(config, fmt.Appendf(nil, `{"datastore":"kubernetes","kubernetes":{"kubeconfig":%q},"log_level":"error"}`, account), 0o600),
		os.WriteFile(account, []byte(strings.Replace(string(kubeconfig), `"token": "viewer"`, fmt.Sprintf(`"token": %q`, s.Config().BearerToken), 1)), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return plugins, config
}

// allocated returns which addresses whereabouts has given out of the range, by their offsets.
func allocated(s *apiserver.Server) ([]string, error) {
	var pool struct {
		Spec struct {
			Allocations map[string]json.RawMessage `json:"allocations"`
		} `json:"spec"`
	}
	err := s.Do("GET", "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools/10.5.0.0-24", "", &pool)
	var out []string
	for offset := range pool.Spec.Allocations {
		out = append(out, offset)
	}
	slices.Sort(out)
	return out, err
}

// The real whereabouts gives the addresses of a network to two pods, run by the real shim
// without Multus: culvertd finds by itself that it is installed. A DEL without the
// configuration gives the address back, also after culvertd died in the ADD.
func TestRealWhereaboutsIsDelegatedTo(t *testing.T) {
	s := apiserver.New(t)
	apiserver.Eventually(t, "namespace kube-system", func() error { return s.Do("GET", "/api/v1/namespaces/kube-system", "", nil) })
	plugins, file := installWhereabouts(t, s)
	apiserver.Eventually(t, "the types of whereabouts", func() error {
		return s.Do("GET", "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools", "", nil)
	})
	client, err := kube.New(s.Config(), "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	d := newDelegates(t)
	d.k.AddNetns("/run/netns/y")
	d.h.ServesWhereabouts = WhereaboutsAuto.Serves(client.HasGroup)
	socket := serveHandler(t, d.h, everybody)
	config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"n","type":"sriov","ipam":{"type":"whereabouts","range":"10.5.0.0/24","gateway":"10.5.0.254",
		"routes":[{"dst":"10.6.0.0/16"}],"configuration_path":%q}}`, file)
	call := func(command, container, netns, config string) string {
		t.Helper()
		out, exit, err := runtime(t.Context(), socket, config, "CNI_COMMAND="+command, "CNI_CONTAINERID="+container, "CNI_IFNAME=net1", "CNI_NETNS="+netns,
			"CNI_PATH="+plugins, "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME="+container, "PATH="+os.Getenv("PATH"))
		if err != nil || exit != 0 {
			t.Fatalf("%s %s: %v, exit %d\n%s", command, container, err, exit, out)
		}
		return out
	}
	wantAllocated := func(want ...string) {
		t.Helper()
		if got, err := allocated(s); err != nil || !slices.Equal(got, want) {
			t.Errorf("whereabouts has %v, %v; want %v", got, err, want)
		}
	}
	first := call("ADD", "c1", "/run/netns/x", config)
	if !strings.Contains(first, `"10.5.0.1/24"`) || !strings.Contains(first, `"10.5.0.254"`) {
		t.Errorf("the first pod: %s", first)
	}
	if second := call("ADD", "c2", "/run/netns/y", config); !strings.Contains(second, `"10.5.0.2/24"`) {
		t.Errorf("the second pod: %s", second)
	}
	wantAllocated("1", "2")
	call("CHECK", "c1", "/run/netns/x", strings.TrimSuffix(config, "}")+`,"prevResult":`+first+"}") // 0.9.2 has no CHECK
	call("DEL", "c1", "", `{"cniVersion":"1.0.0","name":"n","type":"sriov"}`)
	wantAllocated("2")

	err = d.ledger.Update(func(tx *journal.Tx) error { // as a culvertd leaves it that died in the ADD of c2
		for _, r := range tx.Records() {
			if r.Phase == journal.Attached {
				r.Phase = journal.Configuring
				return tx.Put(r)
			}
		}
		return errors.New("no pod has a VF")
	})
	if err := errors.Join(err, d.Engine.Replay(t.Context())); err != nil {
		t.Fatal(err)
	}
	wantAllocated("2")
	call("DEL", "c3", "", config) // of any other pod
	wantAllocated()
	d.wantFree(t)
}

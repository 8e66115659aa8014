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
	"syscall"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/apiserver"
)

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
// configuration gives the address back, also after culvertd died in the ADD. Then the real Multus
// calls the shim for two more pods.
func TestRealWhereaboutsIsDelegatedTo(t *testing.T) {
	s := apiserver.New(t)
	apiserver.Eventually(t, "namespace kube-system", func() error { return s.Do("GET", "/api/v1/namespaces/kube-system", "", nil) })
	plugins, file := s.InstallWhereabouts(s.Config().Host)
	client, err := kube.New(s.Config(), "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	d := newDelegates(t)
	d.k.AddNetns("/run/netns/y")
	d.h.ServesWhereabouts = WhereaboutsAuto.Serves(client.HasGroup)
	socket := serveHandler(t, d.h, everybody)
	// On a busy machine whereabouts loses its lease of 1.5 s in the middle of an ADD, and then waits until it is killed.
	config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"n","type":"sriov","ipam":{"type":"whereabouts","range":"10.5.0.0/24","gateway":"10.5.0.254",
		"routes":[{"dst":"10.6.0.0/16"}],"configuration_path":%q,"leader_lease_duration":15000,"leader_renew_deadline":10000,"leader_retry_period":500}}`, file)
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
			if r.Phase == vf.PhaseAttached {
				r.Phase = vf.PhaseConfiguring
				return tx.Put(r)
			}
		}
		return errors.New("no pod has a VF")
	})
	if err := errors.Join(err, d.Upkeep.Replay(t.Context())); err != nil {
		t.Fatal(err)
	}
	wantAllocated("2")
	apiserver.Eventually(t, "the address of c2 is free", func() error {
		call("DEL", "c3", "", config) // of another pod; each DEL tries for a few seconds to run the owed DELs
		if got, err := allocated(s); err != nil || len(got) > 0 {
			return fmt.Errorf("whereabouts has %v, %w", got, err)
		}
		return nil
	})
	d.wantFree(t)

	if os.Geteuid() != 0 {
		t.Skip("Multus enters the netns of a pod, which only root may")
	}
	m := newMultus(t, s, socket, plugins)
	netns := []string{realNetns(t), realNetns(t)}
	s.Must("POST", "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions",
		fmt.Sprintf(`{"apiVersion":"k8s.cni.cncf.io/v1","kind":"NetworkAttachmentDefinition","metadata":{"name":"n"},"spec":{"config":%q}}`, config))
	for i, pod := range []string{"m1", "m2"} {
		s.Must("POST", "/api/v1/namespaces/default/pods",
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"annotations":{"k8s.v1.cni.cncf.io/networks":"n"}},"spec":{"containers":[{"name":"c","image":"example.org/c"}]}}`, pod))
		d.k.AddNetns(netns[i])
		m.call("ADD", pod, netns[i])
		if got, want := m.addressOf(pod), fmt.Sprintf("10.5.0.%d", i+1); got != want {
			t.Errorf("pod %s beside Multus: %q, want %s", pod, got, want)
		}
	}
	wantAllocated("1", "2")
	m.call("DEL", "m1", netns[0])
	wantAllocated("2")
	m.call("DEL", "m2", "")
	wantAllocated()
	d.wantFree(t)
}

// realNetns returns a netns that exists, as Multus and whereabouts want it. Culvert's kernel is the
// fake.
func realNetns(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's context ends it
	return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
}

// multus is the real Multus, with a default network that is a script. Its plugin sriov is the shim.
type multus struct {
	*testing.T
	s                       *apiserver.Server
	program, config, socket string
}

func newMultus(t *testing.T, s *apiserver.Server, socket, plugins string) multus {
	t.Helper()
	const script = `#!/bin/sh
[ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}],"ips":[{"address":"10.7.0.1/24"}]}'
`
	crd, err := os.ReadFile("../../../../dist/kubernetes/network-attachment-definitions.yaml")
	if err := errors.Join(err, os.Symlink(shim, filepath.Join(plugins, "sriov")), os.WriteFile(filepath.Join(plugins, "script"), []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	s.Must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(crd))
	apiserver.Eventually(t, "the kind of networks", func() error {
		return s.Do("GET", "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions", "", nil)
	})
	return multus{t, s, apiserver.Program(t, "multus", "multus"), fmt.Sprintf(
		`{"cniVersion":"1.0.0","name":"multus-cni-network","type":"multus","kubeconfig":%q,"binDir":%q,"cniDir":%q,"logToStderr":true,"logLevel":"error",
		"delegates":[{"cniVersion":"1.0.0","name":"default","type":"script"}]}`, s.AdminKubeconfig(), plugins, t.TempDir()), socket}
}

// call makes a call for a pod as a container runtime does.
func (m multus) call(command, pod, netns string) {
	m.Helper()
	cmd := exec.CommandContext(m.Context(), m.program)
	cmd.Env = append(os.Environ(), "CULVERT_SOCKET="+m.socket, "CNI_COMMAND="+command, "CNI_CONTAINERID="+pod, "CNI_IFNAME=eth0", "CNI_NETNS="+netns,
		"CNI_PATH="+filepath.Dir(m.program), "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_INFRA_CONTAINER_ID="+pod+";K8S_POD_NAME="+pod)
	cmd.Stdin = strings.NewReader(m.config)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.Fatalf("Multus %s %s: %v\n%s", command, pod, err, out)
	}
}

// addressOf returns the address of a pod in the network n, as Multus reports it.
func (m multus) addressOf(pod string) string {
	m.Helper()
	var p struct {
		Metadata struct{ Annotations map[string]string }
	}
	var networks []struct {
		Name string
		IPs  []string
	}
	err := m.s.Do("GET", "/api/v1/namespaces/default/pods/"+pod, "", &p)
	if err := errors.Join(err, json.Unmarshal([]byte(p.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"]), &networks)); err != nil {
		m.Fatal(err)
	}
	for _, n := range networks {
		if n.Name == "default/n" {
			return strings.Join(n.IPs, " ")
		}
	}
	return ""
}

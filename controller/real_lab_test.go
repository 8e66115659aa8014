//go:build lab

package controller

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/kube"
)

// apiServer is a real one with its etcd, and Culvert's CRDs.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	dir, peer, etcd := t.TempDir(), "http://"+freeAddress(t), "http://"+freeAddress(t)
	program(t, "etcd", "server", "--data-dir", dir+"/etcd", "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--unsafe-no-fsync")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := errors.Join(os.WriteFile(dir+"/key", text, 0o600), os.WriteFile(dir+"/tokens", []byte("secret,admin,1,system:masters\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(freeAddress(t))
	program(t, "kubernetes", "kube-apiserver", "--etcd-servers", etcd, "--secure-port", port, "--bind-address", host, "--cert-dir", dir+"/certs", "--token-auth-file", dir+"/tokens",
		"--authorization-mode", "RBAC", "--service-account-issuer", "https://x", "--service-account-key-file", dir+"/key", "--service-account-signing-key-file", dir+"/key",
		"--service-cluster-ip-range", "10.96.0.0/16", "--disable-admission-plugins", "ServiceAccount")
	config := &rest.Config{Host: "https://" + host + ":" + port, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 1000, Burst: 1000}
	var c client.Client
	eventually(t, "the API server", func() error {
		c, err = client.New(config, client.Options{Scheme: Scheme()})
		if err != nil {
			return err
		}
		return c.List(t.Context(), &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "NodeList"}})
	})
	crds, err := filepath.Glob("../dist/kubernetes/crds/*.yaml")
	if err != nil || len(crds) != 3 {
		t.Fatal(crds, err)
	}
	for _, name := range crds {
		content, err := os.ReadFile(name)
		o := &unstructured.Unstructured{}
		if err = errors.Join(err, yaml.Unmarshal(content, &o.Object)); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// program runs one of a part until the test ends.
func program(t *testing.T, part, name string, args ...string) {
	t.Helper()
	dir, err := exec.Command("../tools/part", part).Output()
	if err != nil {
		t.Fatalf("tools/part %s: %v", part, err)
	}
	cmd := exec.Command(filepath.Join(strings.TrimSpace(string(dir)), name), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

func eventually(t *testing.T, what string, is func() error) {
	t.Helper()
	err := is()
	for end := time.Now().Add(2 * time.Minute); err != nil; err = is() {
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond) // polls another program
	}
}

// I4, on a real API server: nodes tell what they need by kube, the controller is
// started and stopped, and each node has a block of its own. The CRDs refuse
// what they should, and a policy's status comes about.
func TestI4OnARealAPIServer(t *testing.T) {
	config := apiServer(t)
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	t.Cleanup(func() { cancel(); _ = g.Wait() })
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*kube.Client
	for i := range 5 {
		name := fmt.Sprintf("worker0%d", i)
		if err := c.Create(ctx, newNode(name, map[string]string{"nic": "igb"})); err != nil {
			t.Fatal(err)
		}
		k, err := kube.New(config, name, log)
		if err != nil {
			t.Fatal(err)
		}
		g.Go(func() error { return k.Run(ctx) })
		nodes = append(nodes, k)
	}
	crdsRefuse(t, c)
	policy := &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{NodeSelector: map[string]string{"nic": "igb"}, PFs: []v1alpha1.PFRule{{Driver: "igb", VFs: intstr.FromString("max")}}}}
	policy.Name = "p"
	if err := c.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	for used := range 4 { // each time another controller, which is stopped in the middle of something
		life, stop := context.WithCancel(ctx)
		g.Go(func() error {
			return Run(life, Config{Kube: config, Namespace: "default", Metrics: "0", Health: "0", Log: log})
		})
		for i, k := range nodes {
			state := asking("", int64(used*used*(i+1))).Status
			state.Policies = []v1alpha1.PolicyState{{Name: "p", Generation: policy.Generation, Applied: true}}
			eventually(t, "NodeState", func() error { return k.WriteState(ctx, state) })
		}
		if used == 3 {
			settled(t, c, nodes)
		}
		stop()
	}
}

func settled(t *testing.T, c client.Client, nodes []*kube.Client) {
	t.Helper()
	eventually(t, "blocks and the policy's status", func() error {
		p := &v1alpha1.NodePolicy{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "p"}, p); err != nil || p.Status.AppliedNodes != 5 {
			return fmt.Errorf("policy: %d nodes, %w", p.Status.AppliedNodes, err)
		}
		for i, k := range nodes {
			pools, known := k.AddressPools()
			if policies, ok := k.Policies(); !known || !ok || len(pools) != 1 || len(policies) != 1 {
				return fmt.Errorf("node %d sees %d pools, %d policies", i, len(pools), len(policies))
			}
			have := map[string]int{}
			for _, line := range show(pools[0]) {
				node, _, _ := strings.Cut(line, " ")
				have[node]++
			}
			if len(have) != 5 || pools[0].Status.Granted < 9*15 {
				return fmt.Errorf("%v, %d granted", show(pools[0]), pools[0].Status.Granted)
			}
		}
		return nil
	})
	before := show(poolOf(t, c))
	look(t, addresses(c, time.Now()))
	if after := show(poolOf(t, c)); len(after) != len(before) {
		t.Errorf("%v, then %v", before, after)
	}
}

// crdsRefuse tries what the CRDs' own rules must refuse.
func crdsRefuse(t *testing.T, c client.Client) {
	t.Helper()
	for text, want := range map[string]string{
		`{"pfs":[{"vfs":7}]}`:                             "which PFs? Write name, mac, pciAddress, vendor, device or driver",
		`{"pfs":[{"name":"a","vfs":"all"}]}`:              "should match '^max$'",
		`{"pfs":[{"name":"a","vfs":1,"mtu":7}]}`:          "spec.pfs[0].mtu",
		`{"pools":[{"name":"a b"}]}`:                      "spec.pools[0].name",
		`{"pools":[{"name":"a","deviceType":"magic"}]}`:   "spec.pools[0].deviceType",
		`{"pools":[{"name":"a","selectors":{"pf":"x"}}]}`: "spec.pools[0].selectors",
	} {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(`{"apiVersion":"culvert.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"bad"},"spec":`+text+`}`), &o.Object); err != nil {
			t.Fatal(err)
		}
		var err error
		eventually(t, "the CRD is served", func() error {
			if err = c.Create(t.Context(), o.DeepCopy()); err != nil && strings.Contains(err.Error(), "no matches for kind") {
				return err
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

// Package apiserver runs a real kube-apiserver with its etcd for a test. RBAC is on, and the
// cluster has no other parts. tools/part builds both programs once.
package apiserver

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/culvert-net/culvert/test/child"
)

// Server is an API server with its etcd. It ends with the test.
type Server struct {
	t     testing.TB
	dir   string
	etcd  string // its URL
	port  string
	args  []string // more flags of the API server
	ended func()
}

// Viewer is the token of a user without any rights, and admin that of an administrator.
const (
	Viewer = "viewer"
	admin  = "admin"
)

// New starts a Server, with more flags for the API server, and waits until it is ready.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, args: args, dir: t.TempDir(), etcd: "http://127.0.0.1:" + ReservePort(t), port: ReservePort(t)}
	peer := "http://127.0.0.1:" + ReservePort(t)
	s.runProgram("etcd", "server", "--data-dir", s.dir+"/etcd", "--listen-client-urls", s.etcd, "--advertise-client-urls", s.etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--unsafe-no-fsync")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	tokens := admin + ",admin,1,system:masters\n" + Viewer + "," + Viewer + ",2\n"
	if err := errors.Join(os.WriteFile(s.dir+"/key", text, 0o600), os.WriteFile(s.dir+"/tokens", []byte(tokens), 0o600)); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "etcd", s.askEtcd) // the API server gives up when etcd does not answer in time
	s.Start()
	return s
}

// askEtcd reports an error until etcd answers and has a leader.
func (s *Server) askEtcd() error {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.etcd+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s", resp.Status)
	}
	return nil
}

// Start starts the API server again after Stop; etcd has kept running.
func (s *Server) Start() {
	s.t.Helper()
	s.ended = s.runProgram("kubernetes", "kube-apiserver", append([]string{"--etcd-servers", s.etcd, "--secure-port", s.port, "--bind-address", "127.0.0.1", "--cert-dir", s.dir + "/certs",
		"--token-auth-file", s.dir + "/tokens", "--authorization-mode", "RBAC", "--service-account-issuer", "https://x", "--service-account-key-file", s.dir + "/key",
		"--service-account-signing-key-file", s.dir + "/key", "--service-cluster-ip-range", "10.96.0.0/16", "--disable-admission-plugins", "ServiceAccount"}, s.args...)...)
	Eventually(s.t, "the API server", func() error { return s.Do(http.MethodGet, "/readyz", "", nil) })
	Eventually(s.t, "namespace default", func() error { return s.Do(http.MethodGet, "/api/v1/namespaces/default", "", nil) })
}

// Stop ends the API server at once.
func (s *Server) Stop() { s.ended() }

// Config returns a client's configuration for the administrator.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: "https://127.0.0.1:" + s.port, BearerToken: admin, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 1000, Burst: 1000}
}

// Kubeconfig returns the path of a kubeconfig for Viewer, which names the cluster "test".
func (s *Server) Kubeconfig() string { return s.kubeconfigOf(Viewer) }

// AdminKubeconfig returns the path of a kubeconfig for the administrator.
func (s *Server) AdminKubeconfig() string { return s.kubeconfigOf(admin) }

func (s *Server) kubeconfigOf(token string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, "kubeconfig-"+token)
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "test", "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
		"clusters": [{"name": "test", "cluster": {"server": "https://127.0.0.1:%s", "insecure-skip-tls-verify": true}}], "users": [{"name": "test", "user": {"token": %q}}]}`, s.port, token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// RunControllers runs some of Kubernetes' own controllers, by the names that
// kube-controller-manager --controllers has for them.
func (s *Server) RunControllers(names ...string) {
	s.t.Helper()
	s.runProgram("kubernetes", "kube-controller-manager", "--kubeconfig", s.kubeconfigOf(admin), "--controllers", strings.Join(names, ","),
		"--leader-elect=false", "--bind-address", "127.0.0.1", "--secure-port", ReservePort(s.t), "--cert-dir", s.dir+"/manager")
}

// RunDNS runs CoreDNS, and returns the address at which it answers for the zone cluster.local.
func (s *Server) RunDNS() (address string) {
	s.t.Helper()
	port, corefile := ReservePort(s.t), s.dir+"/Corefile"
	text := fmt.Sprintf("cluster.local:%s {\n bind 127.0.0.1\n kubernetes {\n  kubeconfig %s test\n  ttl 0\n }\n}\n", port, s.kubeconfigOf(admin))
	if err := os.WriteFile(corefile, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.runProgram("coredns", "coredns", "-conf", corefile)
	return "127.0.0.1:" + port
}

// Do sends one request as the administrator, with a body in JSON or YAML. It returns an error if
// the API server refuses the request.
func (s *Server) Do(method, path, body string, into any) error {
	config := s.Config()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, config.Host+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/yaml")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, resp.Status, raw)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(raw, into)
	}
	return err
}

// Must sends a request like Do, and fails the test if that fails.
func (s *Server) Must(method, path, body string) {
	s.t.Helper()
	if err := s.Do(method, path, body, nil); err != nil {
		s.t.Fatal(err)
	}
}

// CRDs creates Culvert's CRDs, and waits until the API server serves them.
func (s *Server) CRDs() {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(treeRoot(s.t), "dist/kubernetes/crds/*.yaml"))
	if err != nil || len(files) != 3 {
		s.t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			s.t.Fatal(err)
		}
		s.Must(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(text))
		kind := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "culvert.dev_"), ".yaml")
		Eventually(s.t, kind, func() error {
			return errors.Join(s.Do(http.MethodGet, "/apis/culvert.dev/v1alpha1/"+kind, "", nil), s.isDiscovered(kind))
		})
	}
}

// isDiscovered reports an error until clients can find the resource of a kind of Culvert's. The
// API server serves a new resource before it lists it.
func (s *Server) isDiscovered(kind string) error {
	var groups, resources struct {
		Groups, Resources []struct{ Name string }
	}
	err := errors.Join(s.Do(http.MethodGet, "/apis", "", &groups), s.Do(http.MethodGet, "/apis/culvert.dev/v1alpha1", "", &resources))
	is := func(name string) func(struct{ Name string }) bool {
		return func(one struct{ Name string }) bool { return one.Name == name }
	}
	if err == nil && (!slices.ContainsFunc(groups.Groups, is("culvert.dev")) || !slices.ContainsFunc(resources.Resources, is(kind))) {
		err = fmt.Errorf("%s are served and not listed yet", kind)
	}
	return err
}

// Program returns the path of a program of another project.
func Program(t testing.TB, part, name string) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), filepath.Join(treeRoot(t), "tools/part"), part).Output()
	if err != nil {
		t.Fatalf("tools/part %s: %v", part, err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), name)
}

// Eventually waits until is returns nil, five minutes at most. Programs of other projects take
// ten times as long on a busy machine.
func Eventually(t testing.TB, what string, is func() error) {
	t.Helper()
	err := is()
	for end := time.Now().Add(5 * time.Minute); err != nil; err = is() {
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// runProgram runs a program until the test ends, or stop is called.
func (s *Server) runProgram(part, name string, args ...string) (stop func()) {
	s.t.Helper()
	return s.run(exec.CommandContext(s.t.Context(), Program(s.t, part, name), args...))
}

// run runs a command as runProgram does.
func (s *Server) run(cmd *exec.Cmd) (stop func()) {
	s.t.Helper()
	var said bytes.Buffer
	cmd.Stderr, cmd.Stdout = &said, io.Discard
	if err := child.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	s.t.Cleanup(func() {
		stop()
		if s.t.Failed() {
			text := said.String()
			s.t.Logf("%s:\n%s", cmd, text[max(0, len(text)-4000):])
		}
	})
	return stop
}

// The ports that ReservePort returns. The kernel gives none of them to a program that binds port
// 0 (ip_local_port_range).
const firstPort, portCount = 20000, 10000

// ReservePort returns a port of 127.0.0.1 on which nothing listens. Until the test ends, no other
// call returns that port, in this process or another: each call holds an abstract socket named
// after its port.
func ReservePort(t testing.TB) string {
	t.Helper()
	var err error
	for range 100 {
		port := strconv.Itoa(firstPort + mathrand.IntN(portCount))
		var reservation, l net.Listener
		if reservation, err = net.Listen("unix", "@culvert-test-port-"+port); err != nil {
			continue
		}
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); err != nil {
			_ = reservation.Close()
			continue
		}
		t.Cleanup(func() { _ = reservation.Close() })
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatalf("reserve a port: %v", err)
	return ""
}

// treeRoot returns the top of the tree that the test is in.
func treeRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, none := os.Stat(filepath.Join(dir, "go.mod")); none == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("no go.mod above %s: %v", dir, err)
	return ""
}

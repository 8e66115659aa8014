// Package apiserver runs a real kube-apiserver with its etcd for a test: RBAC is
// on, nothing else of a cluster is there. tools/part builds both once.
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
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Server is one. It ends with the test.
type Server struct {
	t     *testing.T
	dir   string
	etcd  string // where it answers
	port  string
	args  []string // more flags of the API server
	ended func()
}

// Viewer is a user without any rights; the others' token is an administrator's.
const (
	Viewer = "viewer"
	admin  = "admin"
)

// New starts one with more flags, and waits until it is ready.
func New(t *testing.T, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, args: args, dir: t.TempDir(), etcd: "http://127.0.0.1:" + freePort(t), port: freePort(t)}
	peer := "http://127.0.0.1:" + freePort(t)
	s.run("etcd", "server", "--data-dir", s.dir+"/etcd", "--listen-client-urls", s.etcd, "--advertise-client-urls", s.etcd,
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
	s.Start()
	return s
}

// Start starts the API server that Stop ended; etcd runs on in between.
func (s *Server) Start() {
	s.t.Helper()
	s.ended = s.run("kubernetes", "kube-apiserver", append([]string{"--etcd-servers", s.etcd, "--secure-port", s.port, "--bind-address", "127.0.0.1", "--cert-dir", s.dir + "/certs",
		"--token-auth-file", s.dir + "/tokens", "--authorization-mode", "RBAC", "--service-account-issuer", "https://x", "--service-account-key-file", s.dir + "/key",
		"--service-account-signing-key-file", s.dir + "/key", "--service-cluster-ip-range", "10.96.0.0/16", "--disable-admission-plugins", "ServiceAccount"}, s.args...)...)
	Eventually(s.t, "the API server", func() error { return s.Do(http.MethodGet, "/readyz", "", nil) })
	Eventually(s.t, "namespace default", func() error { return s.Do(http.MethodGet, "/api/v1/namespaces/default", "", nil) })
}

// Stop ends the API server at once.
func (s *Server) Stop() { s.ended() }

// Config is how the administrator reaches it.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: "https://127.0.0.1:" + s.port, BearerToken: admin, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 1000, Burst: 1000}
}

// Kubeconfig is a file by which Viewer reaches it; it calls the cluster "test".
func (s *Server) Kubeconfig() string {
	s.t.Helper()
	path := filepath.Join(s.dir, "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "test", "contexts": [{"name": "test", "context": {"cluster": "test", "user": "viewer"}}],
		"clusters": [{"name": "test", "cluster": {"server": "https://127.0.0.1:%s", "insecure-skip-tls-verify": true}}], "users": [{"name": "viewer", "user": {"token": %q}}]}`, s.port, Viewer)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// Do is one request as the administrator, with a body in JSON or YAML; an answer
// that says no is an error.
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

// Must is Do for what has to work.
func (s *Server) Must(method, path, body string) {
	s.t.Helper()
	if err := s.Do(method, path, body, nil); err != nil {
		s.t.Fatal(err)
	}
}

// CRDs makes Culvert's, and waits until they are served.
func (s *Server) CRDs() {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(root(s.t), "dist/kubernetes/crds/*.yaml"))
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
		Eventually(s.t, kind, func() error { return s.Do(http.MethodGet, "/apis/culvert.dev/v1alpha1/"+kind, "", nil) })
	}
}

// Program is the path of a program of another project.
func Program(t *testing.T, part, name string) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), filepath.Join(root(t), "tools/part"), part).Output()
	if err != nil {
		t.Fatalf("tools/part %s: %v", part, err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), name)
}

// Eventually waits until is returns nil, two minutes at most: it is about
// other programs.
func Eventually(t *testing.T, what string, is func() error) {
	t.Helper()
	err := is()
	for end := time.Now().Add(2 * time.Minute); err != nil; err = is() {
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// run runs a program until the test ends, or stop is called.
func (s *Server) run(part, name string, args ...string) (stop func()) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), Program(s.t, part, name), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr, cmd.Stdout = &said, io.Discard
	if err := cmd.Start(); err != nil {
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
			s.t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return stop
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// root is the top of the tree that the test is in.
func root(t *testing.T) string {
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

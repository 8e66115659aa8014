//go:build lab

package kube

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

	"github.com/culvert-net/culvert/vf"
)

// part is the folder of programs of another project.
func part(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("../tools/part", name).Output()
	if err != nil {
		t.Fatalf("tools/part %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// port is one that nobody listens on at the moment.
func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, p, _ := net.SplitHostPort(l.Addr().String())
	return p
}

// program runs one until the test ends, or stop is called.
func program(t *testing.T, path string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr, cmd.Stdout = &said, io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			text := said.String()
			t.Logf("%s:\n%s", filepath.Base(path), text[max(0, len(text)-4000):])
		}
	})
	return stop
}

// apiServer is a real one with its etcd.
type apiServer struct {
	*testing.T
	config *rest.Config
	start  func() (stop func())
	stop   func()
}

func newReal(t *testing.T) *apiServer {
	t.Helper()
	dir, etcd, client := t.TempDir(), "http://127.0.0.1:"+port(t), "http://127.0.0.1:"+port(t)
	program(t, filepath.Join(part(t, "etcd"), "server"), "--data-dir", dir+"/etcd", "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", etcd, "--initial-advertise-peer-urls", etcd, "--initial-cluster", "default="+etcd, "--unsafe-no-fsync")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	for name, content := range map[string]string{"key": string(block), "tokens": "secret,admin,1,system:masters\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := port(t)
	r := &apiServer{T: t, config: &rest.Config{Host: "https://127.0.0.1:" + p, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}}
	server := filepath.Join(part(t, "kubernetes"), "kube-apiserver")
	r.start = func() func() {
		stop := program(t, server, "--etcd-servers", client, "--secure-port", p, "--bind-address", "127.0.0.1", "--cert-dir", dir+"/certs", "--token-auth-file", dir+"/tokens",
			"--authorization-mode", "RBAC", "--service-account-issuer", "https://x", "--service-account-key-file", dir+"/key", "--service-account-signing-key-file", dir+"/key",
			"--service-cluster-ip-range", "10.96.0.0/16", "--disable-admission-plugins", "ServiceAccount")
		untilReal(t, "the API server", func() error { return r.do(http.MethodGet, "/readyz", "", nil) })
		return stop
	}
	r.stop = r.start()
	return r
}

func untilReal(t *testing.T, what string, is func() error) {
	t.Helper()
	err := is()
	for end := time.Now().Add(2 * time.Minute); err != nil; err = is() {
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// do is a request as the administrator's.
func (r *apiServer) do(method, path, body string, into any) error {
	client, err := rest.HTTPClientFor(r.config)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(r.Context(), method, r.config.Host+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
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

func (r *apiServer) must(method, path, body string) {
	r.Helper()
	if err := r.do(method, path, body, nil); err != nil {
		r.Fatal(err)
	}
}

const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"network-attachment-definitions.k8s.cni.cncf.io"},
"spec":{"group":"k8s.cni.cncf.io","scope":"Namespaced","names":{"plural":"network-attachment-definitions","singular":"network-attachment-definition","kind":"NetworkAttachmentDefinition"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"config":{"type":"string"}}}}}}}]}}`

func podBody(name, node string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"annotations":{"k8s.v1.cni.cncf.io/networks":"x"}},"spec":{"nodeName":%q,"containers":[{"name":"c","image":"i"}]}}`, name, node)
}

// Pods and networks come from a real API server, a pod that is not there yet by one
// GET; while it is down they stay; what was to be written is written when it is back,
// and to no pod that only has the name.
func TestRealAPIServer(t *testing.T) {
	r := newReal(t)
	r.must(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
	nads := "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions"
	untilReal(t, "namespace and CRD", func() error {
		return errors.Join(r.do(http.MethodGet, "/api/v1/namespaces/default", "", nil), r.do(http.MethodGet, nads, "", nil))
	})
	r.must(http.MethodPost, nads, `{"apiVersion":"k8s.cni.cncf.io/v1","kind":"NetworkAttachmentDefinition","metadata":{"name":"x"},"spec":{"config":"{}"}}`)
	c, err := New(r.config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r.must(http.MethodPost, "/api/v1/namespaces/default/pods", podBody("early", "n1"))
	early, err := c.Pod(t.Context(), "default", "early", "") // nothing watches yet
	if err != nil || early.Annotations["k8s.v1.cni.cncf.io/networks"] != "x" {
		t.Fatalf("by GET: %+v, %v", early, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() { stop(); <-done }()
	if !c.WaitForSync(ctx) {
		t.Fatal("the informers do not get there")
	}
	r.must(http.MethodPost, "/api/v1/namespaces/default/pods", podBody("late", "n1"))
	r.must(http.MethodPost, "/api/v1/namespaces/default/pods", podBody("elsewhere", "n2"))
	untilReal(t, "the pod that came later", func() error {
		if _, ok := c.Known("default", "late"); !ok {
			return errors.New("it is not known")
		}
		return nil
	})
	if _, ok := c.Known("default", "elsewhere"); ok {
		t.Error("the pod of another node is kept")
	}
	r.stop()
	if p, err := c.Pod(t.Context(), "default", "early", early.UID); err != nil || p.UID != early.UID {
		t.Errorf("while the API server is down: %+v, %v", p, err)
	}
	if n, err := c.Network(t.Context(), "default", "x"); err != nil || n.Config != "{}" {
		t.Errorf("while the API server is down: %+v, %v", n, err)
	}
	if _, err := c.Pod(t.Context(), "default", "none", ""); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("a pod that nobody knows: %v", err)
	}
	c.Annotate(early, "k8s.v1.cni.cncf.io/network-status", "[]")
	c.PodEvent(early, "Warning", "NetworkFailed", "text")
	late, _ := c.Known("default", "late")
	late.UID = "another"
	c.Annotate(late, "k8s.v1.cni.cncf.io/network-status", "wrong")
	r.stop = r.start()
	untilReal(t, "what was to be written", func() error {
		var p struct {
			Metadata struct{ Annotations map[string]string }
		}
		var events struct {
			Items []struct{ Reason, Message string }
		}
		err := errors.Join(r.do(http.MethodGet, "/api/v1/namespaces/default/pods/early", "", &p), r.do(http.MethodGet, "/api/v1/namespaces/default/events", "", &events))
		if err == nil && (p.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"] != "[]" || len(events.Items) != 1) {
			err = fmt.Errorf("%v, events %v", p.Metadata.Annotations, events.Items)
		}
		return err
	})
	var p struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := r.do(http.MethodGet, "/api/v1/namespaces/default/pods/late", "", &p); err != nil || p.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"] != "" {
		t.Errorf("another pod of that name was written to: %v, %v", p.Metadata.Annotations, err)
	}
	untilReal(t, "the annotation comes back by the watch", func() error {
		if known, _ := c.Known("default", "early"); known.Annotations["k8s.v1.cni.cncf.io/network-status"] != "[]" {
			return fmt.Errorf("%v", known.Annotations)
		}
		return nil
	})
}

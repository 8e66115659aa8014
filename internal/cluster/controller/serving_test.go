package controller

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// authority is a CA of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	cert, key, text, err := newCA(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return authority{t, cert, key, text}
}

// serve writes a server's certificate for localhost into a folder.
func (a authority) serve(dir string) (certificate []byte) {
	a.t.Helper()
	cert, key, err := newLeaf(a.cert, a.key, []string{"localhost"}, time.Now())
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, leafKey), key, 0o600), os.WriteFile(filepath.Join(dir, leafCert), cert, 0o600)); err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// client returns a client's certificate and its key.
func (a authority) client() (cert, key []byte) {
	a.t.Helper()
	c, err := template("kube-apiserver", time.Now(), time.Hour)
	if err != nil {
		a.t.Fatal(err)
	}
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	private, der, err := sign(c, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return encode(der), encodeKey(private)
}

// askServer sends a request to a server, and returns the connection's state. A server that refuses
// the client says so when it is read from.
func askServer(address string, settings *tls.Config) (tls.ConnectionState, error) {
	c, err := tls.Dial("tcp", address, settings)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /none HTTP/1.0\r\n\r\n"); err != nil {
		return tls.ConnectionState{}, err
	}
	_, err = c.Read(make([]byte, 1))
	return c.ConnectionState(), err
}

// shakeHands connects to a server and returns its certificate.
func shakeHands(address string, roots *x509.CertPool, own ...tls.Certificate) ([]byte, error) {
	state, err := askServer(address, &tls.Config{ServerName: "localhost", RootCAs: roots, Certificates: own})
	if err != nil {
		return nil, err
	}
	return state.PeerCertificates[0].Raw, nil
}

// clientPair returns a certificate and key of a client in the form of crypto/tls.
func (a authority) clientPair() tls.Certificate {
	a.t.Helper()
	p, err := tls.X509KeyPair(a.client())
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

// serveTLS accepts connections with the TLS settings that the webhooks have by a configuration,
// and returns its address.
func serveTLS(t *testing.T, c Config, source certificateSource) string {
	t.Helper()
	var o ctrl.Options
	c.serve(&o, source)
	server, is := o.WebhookServer.(*webhook.DefaultServer)
	if !is {
		t.Fatalf("there is no server of webhooks: %T", o.WebhookServer)
	}
	settings := &tls.Config{}
	for _, set := range server.Options.TLSOpts {
		set(settings)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", settings)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var g errgroup.Group
	g.Go(func() error { return web.Serve(l) })
	t.Cleanup(func() {
		if err := errors.Join(web.Close(), g.Wait()); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// I10: with a file of CAs the webhooks serve the clients of these CAs and no others. The file may
// be replaced while the controller runs: the next client is judged by the new CAs.
func TestI10WebhooksServeClientsOfACA(t *testing.T) {
	server, first, second := newAuthority(t), newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	served := server.serve(dir)
	clientCA := filepath.Join(dir, "client-ca.crt")
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(clientCA, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first.pem)
	c := Config{Webhooks: "culvert", Certificates: dir, ClientCA: clientCA, Metrics: "0"}
	source, err := c.certificates(nil)
	if err != nil {
		t.Fatal(err)
	}
	address, roots := serveTLS(t, c, source), x509.NewCertPool()
	roots.AddCert(server.cert)
	ofFirst, ofSecond := first.clientPair(), second.clientPair()
	returning := &tls.Config{ServerName: "localhost", RootCAs: roots, Certificates: []tls.Certificate{ofFirst}, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for _, step := range []struct {
		name                        string
		file                        []byte
		none, withFirst, withSecond bool
	}{
		{"the first CA", first.pem, false, true, false},
		{"both CAs", slices.Concat(first.pem, second.pem), false, true, true},
		{"the second CA", second.pem, false, false, true},
		{"no certificate", []byte("none"), false, false, false},
		{"the first CA again", first.pem, false, true, false},
	} {
		write(step.file)
		for client, tc := range map[string]struct {
			own  []tls.Certificate
			want bool
		}{
			"no certificate": {nil, step.none}, "the first CA": {[]tls.Certificate{ofFirst}, step.withFirst}, "the second CA": {[]tls.Certificate{ofSecond}, step.withSecond},
		} {
			got, err := shakeHands(address, roots, tc.own...)
			if (err == nil) != tc.want || tc.want && !slices.Equal(encode(got), served) {
				t.Errorf("I10: the file has %s, and the client %s: served %t, want %t; %v", step.name, client, err == nil, tc.want, err)
			}
		}
		if state, err := askServer(address, returning); state.DidResume || (err == nil) != step.withFirst {
			t.Errorf("I10: the file has %s, and a client of the first CA comes again: its session is resumed: %t, %v", step.name, state.DidResume, err)
		}
	}
}

// Without a file of CAs the webhooks serve every client, by the controller's own certificate, and
// with no TLS older than 1.3.
func TestWebhooksWithoutClientCA(t *testing.T) {
	server, dir := newAuthority(t), t.TempDir()
	server.serve(dir)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, leafCert), filepath.Join(dir, leafKey))
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{}
	k.current.Store(&pair)
	c := Config{Webhooks: "culvert", Metrics: "0"}
	source, err := c.certificates(k)
	if err != nil {
		t.Fatal(err)
	}
	address, roots := serveTLS(t, c, source), x509.NewCertPool()
	roots.AddCert(server.cert)
	if got, err := shakeHands(address, roots); err != nil || !slices.Equal(got, pair.Certificate[0]) {
		t.Errorf("a client without a certificate: %v", err)
	}
	old := &tls.Config{ServerName: "localhost", RootCAs: roots, MaxVersion: tls.VersionTLS12}
	if conn, err := tls.Dial("tcp", address, old); err == nil {
		conn.Close()
		t.Error("a client of TLS 1.2 is served")
	}
}

// The controller does not start with a folder of certificates or a file of CAs that it cannot
// read, and the error says which of them.
func TestUnreadableCertificates(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.crt")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, folder := Config{Certificates: dir}.certificates(&keeper{})
	_, missing := readCAs(filepath.Join(dir, "none.crt"))
	_, noPEM := readCAs(empty)
	for want, err := range map[string]error{
		"read the webhooks' certificate: ":                              folder,
		"read the CA of the webhooks' clients: ":                        missing,
		"CA of the webhooks' clients: " + empty + " has no certificate": noPEM,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if !errors.Is(missing, os.ErrNotExist) {
		t.Errorf("the cause is lost: %v", missing)
	}
}

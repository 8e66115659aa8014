package clusterview

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serveUntil runs an API server whose certificate ends then, and returns a kubeconfig. The file trusts
// the certificate if trust is set.
func serveUntil(t *testing.T, end time.Time, trust bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-24 * time.Hour), NotAfter: end, IPAddresses: []net.IP{{127, 0, 0, 1}}, IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}
	srv.Config.ErrorLog = nil
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	authority := ""
	if trust {
		authority = ", certificate-authority: " + filepath.Join(dir, "ca.crt")
		if err := os.WriteFile(filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: main\ncontexts: [{name: main, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: " + srv.URL + authority + "}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An error of a certificate or of a connection has its own next step.
func TestConnectionErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want string
	}{
		"expired": {serveUntil(t, time.Now().Add(-time.Hour), true), ": renew the API server's certificate, or set the clock of this host: date"},
		"unknown": {serveUntil(t, time.Now().Add(time.Hour), false), ": take the kubeconfig of this cluster: another CA signed the API server's certificate"},
	} {
		c, err := Open(tc.file, "", "test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Read(t.Context(), ""); err == nil || !strings.HasSuffix(err.Error(), tc.want) || !strings.Contains(err.Error(), "in cluster c: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

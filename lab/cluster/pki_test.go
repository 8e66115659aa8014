package cluster

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// TestCertificates: a client and a server with certificates of the authority
// accept each other, by name and by address.
func TestCertificates(t *testing.T) {
	ca, err := newAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.issuePair("server", "", "127.0.0.1", "node.test")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.issuePair("system:node:worker01", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.pem) {
		t.Fatal("the authority's certificate is not in PEM")
	}
	for name, want := range map[string]bool{"node.test": true, "127.0.0.1": true, "other.test": false} {
		near, far := net.Pipe()
		inner := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{keyPair(t, server)}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert})
		seen := make(chan string, 1)
		go func() {
			_ = inner.Handshake()
			who := ""
			if peers := inner.ConnectionState().PeerCertificates; len(peers) > 0 {
				who = peers[0].Subject.CommonName + " of " + strings.Join(peers[0].Subject.Organization, ",")
			}
			seen <- who
			far.Close()
		}()
		err := tls.Client(near, &tls.Config{Certificates: []tls.Certificate{keyPair(t, client)}, RootCAs: roots, ServerName: name}).Handshake()
		if (err == nil) != want {
			t.Errorf("a client that wants %s: %v", name, err)
		}
		near.Close()
		if who := <-seen; want && who != "system:node:worker01 of system:nodes" {
			t.Errorf("the server sees %q", who)
		}
	}
}

func keyPair(t *testing.T, p pair) tls.Certificate {
	t.Helper()
	cert, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestKubeconfig: the kubeconfig is YAML with the fields that clients read.
func TestKubeconfig(t *testing.T) {
	ca, err := newAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	admin, err := ca.issuePair("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Current  string `yaml:"current-context"`
		Clusters []struct {
			Name    string
			Cluster struct {
				Server string
				CA     string `yaml:"certificate-authority-data"`
			}
		}
		Contexts []struct {
			Name    string
			Context struct{ Cluster, User string }
		}
		Users []struct {
			Name string
			User struct {
				Cert string `yaml:"client-certificate-data"`
				Key  string `yaml:"client-key-data"`
			}
		}
	}
	if err := yaml.Unmarshal(ca.writeKubeconfig("lab-x", "https://127.0.0.1:4000", admin), &got); err != nil {
		t.Fatal(err)
	}
	if got.Current != "lab-x" || len(got.Contexts) != 1 || got.Contexts[0].Context.Cluster != got.Clusters[0].Name || got.Contexts[0].Context.User != got.Users[0].Name {
		t.Errorf("names: %+v", got)
	}
	for what, pair := range map[string][2]any{
		"certificate authority": {got.Clusters[0].Cluster.CA, ca.pem}, "certificate": {got.Users[0].User.Cert, admin.cert}, "key": {got.Users[0].User.Key, admin.key},
	} {
		if body, err := base64.StdEncoding.DecodeString(pair[0].(string)); err != nil || !bytes.Equal(body, pair[1].([]byte)) {
			t.Errorf("the %s is another: %v", what, err)
		}
	}
	if url := got.Clusters[0].Cluster.Server; url != "https://127.0.0.1:4000" {
		t.Errorf("server %s", url)
	}
}

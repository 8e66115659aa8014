package cluster

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// An authority signs the certificates of one cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// A pair is a certificate and its key, both in PEM.
type pair struct{ cert, key []byte }

// certTime is how long certificates are valid: longer than any lab is up.
const certTime = 365 * 24 * time.Hour

func newAuthority(name string, now time.Time) (*authority, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certTime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, key, err := (&authority{cert: template}).signCertificate(template)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of %s: %w", name, err)
	}
	return &authority{cert, key, encodePEM("CERTIFICATE", der)}, nil
}

// signCertificate makes a key and signs its certificate. If the authority has no key yet, the new
// key signs, which makes a self-signed certificate.
func (a *authority) signCertificate(template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey, err error) {
	name := template.Subject.CommonName
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, fmt.Errorf("make the certificate of %s: %w", name, err)
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), cmp.Or(a.key, key)); err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	return der, key, nil
}

// readAuthority reads an authority that was written as a pair.
func readAuthority(certFile, keyFile string) (*authority, error) {
	loaded, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's authority: %w", err)
	}
	key, ok := loaded.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read the cluster's authority: %s has no ECDSA key", keyFile)
	}
	return &authority{loaded.Leaf, key, encodePEM("CERTIFICATE", loaded.Certificate[0])}, nil
}

// issuePair signs a certificate for a client, and for a server too when it has
// names: host names and IP addresses.
func (a *authority) issuePair(commonName, organization string, names ...string) (pair, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: commonName},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if organization != "" {
		template.Subject.Organization = []string{organization}
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if len(names) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, key, err := a.signCertificate(template)
	if err != nil {
		return pair{}, err
	}
	body, err := encodeKey(key)
	return pair{encodePEM("CERTIFICATE", der), body}, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encodePEM("PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeFiles puts the pair into dir, as NAME.crt and NAME.key.
func (p pair) writeFiles(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.key, 0o600)
}

// writeKubeconfig returns a kubeconfig for a client of the API server at url, without references
// to other files.
func (a *authority) writeKubeconfig(name, url string, client pair) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: %[1]s
contexts:
- name: %[1]s
  context: {cluster: %[1]s, user: %[1]s}
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
`, name, url, b64(a.pem), b64(client.cert), b64(client.key))
}

// hashKey returns the hash of a CA's public key in the form that kubeadm compares.
func hashKey(cert []byte) (string, error) {
	block, _ := pem.Decode(cert)
	if block == nil {
		return "", errors.New("the CA is no certificate in PEM")
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(ca.RawSubjectPublicKeyInfo)), nil
}

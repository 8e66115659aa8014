package controller

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// How long certificates are valid, and how long before their end they are renewed. A CA that is
// valid for less than renewCA signs no more certificates. Its successor does, and clients trust
// both until the old one ends.
const (
	validCA, renewCA     = 10 * 365 * 24 * time.Hour, 2 * 365 * 24 * time.Hour
	validLeaf, renewLeaf = 365 * 24 * time.Hour, 120 * 24 * time.Hour
	clockSkew            = time.Hour // certificates are valid this long before they are made
)

// Keys of the Secret: those of a kubernetes.io/tls Secret, and the CA's.
const (
	caCert, caKey     = "ca.crt", "ca.key"
	leafCert, leafKey = "tls.crt", "tls.key"
)

// renew returns the data that a Secret should have. This is data itself if its certificates are
// valid for long enough. Otherwise it has a new serving certificate for the DNS names, and also a
// new CA if no CA may still sign. ca.crt has every CA that clients trust, the signing one first.
func renew(data map[string][]byte, names []string, now time.Time) (out map[string][]byte, changed bool, err error) {
	if goodLeaf(data, names, now) {
		return data, false, nil
	}
	signer, bundle := data[caKey], trusted(data[caCert], now)
	ca, key, err := pair(bundle, signer)
	if err != nil || ca.NotAfter.Sub(now) < renewCA {
		made, newKey, newCA, err := newCA(now)
		if err != nil {
			return nil, false, err
		}
		ca, key, signer, bundle = made, newKey, encodeKey(newKey), append(newCA, bundle...)
	}
	leaf, private, err := newLeaf(ca, key, names, now)
	if err != nil {
		return nil, false, err
	}
	return map[string][]byte{caCert: bundle, caKey: signer, leafCert: leaf, leafKey: private}, true, nil
}

// goodLeaf reports whether the serving certificate is for the names, is signed by a CA of the
// bundle, has its key, and is valid for long enough.
func goodLeaf(data map[string][]byte, names []string, now time.Time) bool {
	both, err := tls.X509KeyPair(data[leafCert], data[leafKey])
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[caCert]) {
		return false
	}
	for _, name := range names {
		for _, at := range []time.Time{now, now.Add(renewLeaf)} {
			if _, err := both.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: at}); err != nil {
				return false
			}
		}
	}
	return true
}

// trusted returns a bundle without certificates that have expired or cannot be read.
func trusted(bundle []byte, now time.Time) []byte {
	var out []byte
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return out
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			out = append(out, encode(block.Bytes)...)
		}
	}
}

// pair returns the first certificate of a bundle, and its key.
func pair(bundle, key []byte) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	both, err := tls.X509KeyPair(bundle, key)
	if err != nil {
		return nil, nil, fmt.Errorf("CA: %w", err)
	}
	private, ok := both.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("CA: want an ECDSA key")
	}
	return both.Leaf, private, nil
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(k *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil // a key of a curve that Culvert does not use
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func template(subject string, now time.Time, valid time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: subject}, BasicConstraintsValid: true,
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(valid),
	}, nil
}

func newCA(now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, []byte, error) {
	t, err := template("culvert-controller CA", now, validCA)
	if err != nil {
		return nil, nil, nil, err
	}
	t.IsCA, t.MaxPathLenZero = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, der, err := sign(t, nil, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := x509.ParseCertificate(der)
	return c, key, encode(der), err
}

func newLeaf(ca *x509.Certificate, caKey *ecdsa.PrivateKey, names []string, now time.Time) (cert, key []byte, err error) {
	t, err := template(names[0], now, validLeaf)
	if err != nil {
		return nil, nil, err
	}
	t.DNSNames, t.KeyUsage, t.ExtKeyUsage = names, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	private, der, err := sign(t, ca, caKey)
	if err != nil {
		return nil, nil, err
	}
	return encode(der), encodeKey(private), nil
}

// sign makes a key and its certificate, signed by a CA or, without one, by
// itself.
func sign(t, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	if ca == nil {
		ca, caKey = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	return key, der, nil
}

// sameBundle reports whether two bundles have the same text.
func sameBundle(a, b []byte) bool { return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b)) }

package controller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var serviceNames = []string{"culvert-controller.culvert-system.svc"}

// verify checks a webhook's certificate as the API server does.
func verify(t *testing.T, bundle, cert []byte, at time.Time) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	block, _ := pem.Decode(cert)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Verify(x509.VerifyOptions{DNSName: serviceNames[0], Roots: roots, CurrentTime: at}); err != nil {
		t.Errorf("at %s: %v", at, err)
	}
}

// A controller examines its certificate every ten days for twenty years. The certificate is always
// valid, and so is that of a replica which still serves the one before.
func TestCertificatesOverTheYears(t *testing.T) {
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	var data, before map[string][]byte
	leaves, cas := 0, 0
	for at := start; at.Before(start.AddDate(20, 0, 0)); at = at.AddDate(0, 0, 10) {
		next, changed, err := renew(data, serviceNames, at)
		if err != nil {
			t.Fatal(err)
		}
		if changed {
			leaves++
			if data == nil || string(next[caKey]) != string(data[caKey]) {
				cas++
			}
		}
		before, data = data, next
		verify(t, data[caCert], data[leafCert], at)
		if before != nil {
			verify(t, data[caCert], before[leafCert], at) // another replica serves the old one for a while
		}
		if n := strings.Count(string(data[caCert]), "BEGIN"); n > 3 {
			t.Fatalf("%s: %d CAs are trusted", at, n)
		}
	}
	if leaves < 20 || leaves > 40 || cas < 2 || cas > 4 {
		t.Errorf("%d certificates, %d CAs", leaves, cas)
	}
}

func TestRenewMendsASecret(t *testing.T) {
	now := time.Now()
	good, _, err := renew(nil, serviceNames, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, changed, _ := renew(good, serviceNames, now); changed {
		t.Error("a good one is made anew")
	}
	for name, spoil := range map[string]func(map[string][]byte){
		"no key":         func(d map[string][]byte) { delete(d, leafKey) },
		"garbage":        func(d map[string][]byte) { d[leafCert] = []byte("x") },
		"no CA":          func(d map[string][]byte) { delete(d, caCert) },
		"another's key":  func(d map[string][]byte) { d[leafKey] = d[caKey] },
		"no key of a CA": func(d map[string][]byte) { delete(d, caKey); delete(d, leafKey) },
	} {
		d := map[string][]byte{}
		for k, v := range good {
			d[k] = v
		}
		spoil(d)
		got, changed, err := renew(d, serviceNames, now)
		if err != nil || !changed {
			t.Errorf("%s: %t %v", name, changed, err)
			continue
		}
		verify(t, got[caCert], got[leafCert], now)
	}
	got, changed, err := renew(good, []string{"other.ns.svc"}, now)
	if err != nil || !changed || string(got[caKey]) != string(good[caKey]) {
		t.Errorf("another name: %t %v", changed, err)
	}
}

// Two replicas agree on one certificate, and write its CA into the webhook configurations.
func TestKeepersAgree(t *testing.T) {
	hook := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	c := newCluster(
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: hook("culvert"), Webhooks: []admissionv1.MutatingWebhook{{Name: "pods.culvert.dev"}}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: hook("culvert"), Webhooks: []admissionv1.ValidatingWebhook{{Name: "a.culvert.dev"}, {Name: "b.culvert.dev"}}})
	var keepers [2]*keeper
	for i := range keepers {
		keepers[i] = &keeper{client: c, secret: client.ObjectKey{Namespace: "culvert-system", Name: "certs"}, names: serviceNames,
			mutating: "culvert", validating: "culvert", now: time.Now, log: slog.New(slog.DiscardHandler)}
		if _, err := keepers[i].GetCertificate(nil); err == nil {
			t.Error("a certificate out of nothing")
		}
		if err := keepers[i].look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := keepers[0].GetCertificate(&tls.ClientHelloInfo{})
	b, _ := keepers[1].GetCertificate(&tls.ClientHelloInfo{})
	if string(a.Certificate[0]) != string(b.Certificate[0]) {
		t.Error("two certificates")
	}
	s, m, v := &corev1.Secret{}, &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	for o, key := range map[client.Object]client.ObjectKey{s: keepers[0].secret, m: {Name: "culvert"}, v: {Name: "culvert"}} {
		if err := c.Get(t.Context(), key, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, bundle := range [][]byte{m.Webhooks[0].ClientConfig.CABundle, v.Webhooks[0].ClientConfig.CABundle, v.Webhooks[1].ClientConfig.CABundle} {
		if string(bundle) != string(s.Data[caCert]) {
			t.Error("the API server trusts another CA")
		}
	}
}

// While the webhook configurations cannot be written, a replica goes on to serve the certificate
// that they trust, also when another CA signs the new one. It serves the new one when the old one has
// expired.
func TestNewCAIsTrustedBeforeItIsServed(t *testing.T) {
	hook := metav1.ObjectMeta{Name: "culvert"}
	m := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: hook, Webhooks: []admissionv1.MutatingWebhook{{Name: "pods.culvert.dev"}}}
	store := newCluster(m, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: hook})
	refused := false
	c := interceptor.NewClient(store, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if _, is := o.(*admissionv1.MutatingWebhookConfiguration); is && refused {
			return errors.New("refused")
		}
		return c.Update(ctx, o, opts...)
	}})
	now := time.Now()
	k := &keeper{client: c, secret: client.ObjectKey{Namespace: "culvert-system", Name: "certs"}, names: serviceNames,
		mutating: "culvert", validating: "culvert", now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler)}
	served := func() []byte {
		t.Helper()
		c, err := k.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return encode(c.Certificate[0])
	}
	loseKey := func() { // so that look makes another CA
		t.Helper()
		s := &corev1.Secret{}
		if err := store.Get(t.Context(), k.secret, s); err != nil {
			t.Fatal(err)
		}
		s.Data = map[string][]byte{caCert: s.Data[caCert]}
		if err := store.Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := string(served())
	loseKey()
	refused = true
	for range 2 {
		if err := k.look(t.Context()); err == nil {
			t.Error("the refused write is no error")
		}
		if err := store.Get(t.Context(), client.ObjectKey{Name: "culvert"}, m); err != nil {
			t.Fatal(err)
		}
		verify(t, m.Webhooks[0].ClientConfig.CABundle, served(), now)
	}
	refused = false
	if err := k.look(t.Context()); err != nil || string(served()) == first {
		t.Errorf("the new certificate is not served: %v", err)
	}
	second := string(served())
	loseKey()
	refused, now = true, now.Add(2*validLeaf)
	if err := k.look(t.Context()); err == nil || string(served()) == second {
		t.Errorf("an expired certificate is served: %v", err)
	}
}

// A replica that loses the race for the Secret serves the winner's certificate from its next look
// on. It serves its certificate also while the webhook configurations are missing, and the error
// names the object.
func TestKeeperAfterAnotherReplica(t *testing.T) {
	store := newCluster()
	secret := client.ObjectKey{Namespace: "culvert-system", Name: "certs"}
	won, _, err := renew(nil, serviceNames, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c := interceptor.NewClient(store, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		winner := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}, Type: corev1.SecretTypeTLS, Data: won}
		return errors.Join(c.Create(ctx, winner), c.Create(ctx, o, opts...))
	}})
	k := &keeper{client: c, secret: secret, names: serviceNames, mutating: "culvert", validating: "culvert", now: time.Now, log: slog.New(slog.DiscardHandler)}
	if k.NeedLeaderElection() {
		t.Error("a replica that does not lead has no certificate")
	}
	for i, want := range []string{"write secret culvert-system/certs: ", "webhook configuration culvert: "} {
		if err := k.look(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("look %d: %v, want %q", i+1, err, want)
		}
	}
	got, err := k.GetCertificate(nil)
	if err != nil || string(encode(got.Certificate[0])) != string(won[leafCert]) {
		t.Errorf("it does not serve the winner's certificate: %v", err)
	}
	renewed := &corev1.Secret{}
	if err := store.Get(t.Context(), secret, renewed); err != nil || string(renewed.Data[caKey]) != string(won[caKey]) {
		t.Errorf("the Secret was written again: %v", err)
	}
}

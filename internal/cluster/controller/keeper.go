package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How often keeper examines the certificates: often until there is one, then rarely.
const (
	firstLook = time.Second
	nextLook  = 10 * time.Minute
)

// keeper keeps the certificates of the webhooks in a Secret, and writes their CAs into the
// webhook configurations. Every replica runs one, since every replica serves. The first write
// wins (create, or update on the version that was read), and the other replicas use its result.
type keeper struct {
	client     client.Client // reads from the API server itself
	secret     client.ObjectKey
	names      []string // DNS names of the Service
	mutating   string   // names of the webhook configurations
	validating string
	now        func() time.Time
	log        *slog.Logger

	current atomic.Pointer[tls.Certificate]
}

var errNoCertificate = errors.New("there is no certificate yet")

// GetCertificate implements tls.Config.GetCertificate.
func (k *keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.current.Load(); c != nil {
		return c, nil
	}
	return nil, errNoCertificate
}

// NeedLeaderElection returns false: the manager runs keeper in every replica, since each serves
// webhooks.
func (k *keeper) NeedLeaderElection() bool { return false }

// Start keeps the certificates until ctx ends.
func (k *keeper) Start(ctx context.Context) error {
	for {
		wait := nextLook
		if err := k.look(ctx); err != nil {
			k.log.Warn("certificates of the webhooks", "err", err)
			wait = firstLook
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// look updates the Secret, the webhook configurations, and the certificate that is served. It serves
// a new certificate only after the configurations have its CA: they have the old one's for years, and
// the API server goes on without a webhook that it does not trust.
func (k *keeper) look(ctx context.Context) error {
	data, err := k.settle(ctx)
	if err != nil {
		return err
	}
	c, err := tls.X509KeyPair(data[leafCert], data[leafKey])
	if err != nil {
		return fmt.Errorf("secret %s: %w", k.secret, err)
	}
	err = errors.Join(k.trustMutating(ctx, data[caCert]), k.trustValidating(ctx, data[caCert]))
	if old := k.current.Load(); err == nil || old == nil || k.now().After(old.Leaf.NotAfter) {
		k.current.Store(&c)
	}
	return err
}

// settle returns the data of the Secret, and renews it if needed.
func (k *keeper) settle(ctx context.Context) (map[string][]byte, error) {
	s := &corev1.Secret{}
	err := k.client.Get(ctx, k.secret, s)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, fmt.Errorf("read secret %s: %w", k.secret, err)
	}
	data, changed, err := renew(s.Data, k.names, k.now())
	if err != nil || !changed {
		return data, err
	}
	s.Name, s.Namespace, s.Data = k.secret.Name, k.secret.Namespace, data
	if missing {
		s.Type = corev1.SecretTypeTLS
		err = k.client.Create(ctx, s)
	} else {
		err = k.client.Update(ctx, s)
	}
	if err != nil { // also when another replica was faster: its certificate is read at the next look
		return nil, fmt.Errorf("write secret %s: %w", k.secret, err)
	}
	k.log.Info("made certificates for the webhooks", "secret", k.secret)
	return data, nil
}

func (k *keeper) trustMutating(ctx context.Context, bundle []byte) error {
	o := &admission.MutatingWebhookConfiguration{}
	if err := k.client.Get(ctx, client.ObjectKey{Name: k.mutating}, o); err != nil {
		return fmt.Errorf("webhook configuration %s: %w", k.mutating, err)
	}
	changed := false
	for i := range o.Webhooks {
		changed = trust(&o.Webhooks[i].ClientConfig, bundle) || changed
	}
	return k.updated(ctx, o, changed)
}

func (k *keeper) trustValidating(ctx context.Context, bundle []byte) error {
	o := &admission.ValidatingWebhookConfiguration{}
	if err := k.client.Get(ctx, client.ObjectKey{Name: k.validating}, o); err != nil {
		return fmt.Errorf("webhook configuration %s: %w", k.validating, err)
	}
	changed := false
	for i := range o.Webhooks {
		changed = trust(&o.Webhooks[i].ClientConfig, bundle) || changed
	}
	return k.updated(ctx, o, changed)
}

func trust(c *admission.WebhookClientConfig, bundle []byte) (changed bool) {
	if sameBundle(c.CABundle, bundle) {
		return false
	}
	c.CABundle = bundle
	return true
}

func (k *keeper) updated(ctx context.Context, o client.Object, changed bool) error {
	if !changed {
		return nil
	}
	if err := k.client.Update(ctx, o); err != nil {
		return fmt.Errorf("webhook configuration %s: %w", o.GetName(), err)
	}
	return nil
}

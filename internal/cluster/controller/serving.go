package controller

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// certificateSource keeps the certificate of the servers of webhooks and metrics up to date. The
// manager runs it.
type certificateSource interface {
	manager.Runnable
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// certificates returns the source that the configuration names: the files of a folder, read
// again when they change, or the controller's own CA.
func (c Config) certificates(own *keeper) (certificateSource, error) {
	if c.Certificates == "" {
		return own, nil
	}
	w, err := certwatcher.New(filepath.Join(c.Certificates, leafCert), filepath.Join(c.Certificates, leafKey))
	if err != nil {
		return nil, fmt.Errorf("read the webhooks' certificate: %w", err)
	}
	return w, nil
}

// serve adds the servers of webhooks and metrics to the manager's options. Without
// webhooks, metrics are served with a self-signed certificate.
func (c Config) serve(o *ctrl.Options, source certificateSource) {
	own := func(t *tls.Config) { t.GetCertificate, t.MinVersion = source.GetCertificate, tls.VersionTLS13 }
	o.Metrics = server.Options{BindAddress: c.Metrics, SecureServing: true, FilterProvider: guardMetrics}
	if c.Webhooks == "" {
		return
	}
	o.Metrics.TLSOpts = []func(*tls.Config){own}
	hooks := webhook.Options{Port: c.WebhookPort, TLSOpts: []func(*tls.Config){own}}
	if c.ClientCA != "" {
		hooks.TLSOpts = append(hooks.TLSOpts, func(t *tls.Config) { requireClient(t, c.ClientCA) })
	}
	o.WebhookServer = webhook.NewServer(hooks)
}

// requireClient makes a server accept only clients with a certificate of a CA of the file.
// The file is read at each handshake, so that a CA can be replaced while the server runs;
// no session is resumed, so that each client is compared with the present CAs.
func requireClient(t *tls.Config, file string) {
	t.SessionTicketsDisabled = true
	served := t.Clone()
	served.ClientAuth = tls.RequireAndVerifyClientCert
	t.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := readCAs(file)
		if err != nil {
			return nil, err
		}
		one := served.Clone()
		one.ClientCAs = pool
		return one, nil
	}
}

// readCAs reads the certificates of a PEM file.
func readCAs(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the CA of the webhooks' clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("CA of the webhooks' clients: %s has no certificate: want PEM", file)
	}
	return pool, nil
}

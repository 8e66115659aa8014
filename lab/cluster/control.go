package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/lab"
)

// The networks of a cluster. The lab's own is 192.168.77.0/24.
const (
	podNetwork     = "10.244.0.0/16"
	serviceNetwork = "10.96.0.0/16"
	serviceAPI     = "10.96.0.1"
	serviceDNS     = "10.96.0.10"
	controlAddress = "192.168.77.1"
	apiPort        = "6443"
)

//go:embed files/audit-policy.yaml
var auditPolicy []byte

//go:embed files/Corefile
var corefile string

// A plan is a cluster while it is made.
type plan struct {
	*Cluster
	dir   string // the cluster's folder
	nodes []lab.Node
	ca    *authority
	admin pair

	outside string // the API server's URL on the host; set when it has started
}

func newPlan(c *Cluster, nodes []lab.Node) (*plan, error) {
	p := &plan{Cluster: c, dir: filepath.Dir(c.Kubeconfig), nodes: nodes}
	for _, dir := range []string{p.dir, p.pkiPath("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if p.ca, err = newAuthority("culvert-lab", time.Now()); err != nil {
		return nil, err
	}
	p.admin, err = p.ca.issuePair("admin", "system:masters")
	return p, err
}

// openPlan returns the plan of a cluster whose identities are written already.
func openPlan(c *Cluster, nodes []lab.Node) (*plan, error) {
	p := &plan{Cluster: c, dir: filepath.Dir(c.Kubeconfig), nodes: nodes}
	var err error
	if p.ca, err = readAuthority(p.pkiPath("ca.crt"), p.pkiPath("ca.key")); err != nil {
		return nil, err
	}
	p.admin, err = p.ca.issuePair("admin", "system:masters")
	return p, err
}

// resumeCluster starts the control plane of a snapshot, and returns when each kubelet and the API
// server reach each other. The kubelets' connections are to an API server that is gone.
// resumeCluster ends them, so that no client waits for a time-out.
func (p *plan) resumeCluster(ctx context.Context) error {
	if err := os.Remove(p.AuditLog); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := p.startControlPlane(ctx); err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	client, err := p.adminClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	if p.bare {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range p.nodes {
		g.Go(func() error {
			if err := runScript(ctx, p.Lab, n.Name, "ss --kill dst "+controlAddress+" dport = "+apiPort+" >/dev/null"); err != nil {
				return fmt.Errorf("end the old connections of %s: %w", n.Name, err)
			}
			return p.awaitOK(ctx, client, p.outside+"/api/v1/nodes/"+n.Name+"/proxy/healthz")
		})
	}
	return g.Wait()
}

func (p *plan) corefilePath() string { return filepath.Join(p.dir, "Corefile") }

func (p *plan) pkiPath(name string) string { return filepath.Join(p.dir, "pki", name) }

// serverURL returns the API server's URL in the lab's network namespace and on the nodes.
func (p *plan) serverURL() string { return "https://" + controlAddress + ":" + apiPort }

// startControlPlane starts the control plane and CoreDNS, and waits until the
// API server serves.
func (p *plan) startControlPlane(ctx context.Context) error {
	err := errors.Join(os.WriteFile(filepath.Join(p.dir, "audit-policy.yaml"), auditPolicy, 0o600),
		os.WriteFile(p.corefilePath(), []byte(strings.ReplaceAll(corefile, "{{.}}", p.pkiPath("coredns.conf"))), 0o600))
	if err != nil {
		return err
	}
	address, err := p.Lab.Relay(ctx, controlAddress+":"+apiPort)
	if err != nil {
		return err
	}
	p.outside = "https://" + address.String()
	if err := os.WriteFile(p.Kubeconfig, p.ca.writeKubeconfig("lab-"+p.Lab.Name(), p.outside, p.admin), 0o600); err != nil {
		return err
	}
	for _, one := range p.controlPrograms() {
		if err := p.Lab.Run(ctx, one); err != nil {
			return err
		}
	}
	return p.awaitAPI(ctx)
}

// writeIdentities writes the certificates, keys and kubeconfigs of the control plane.
func (p *plan) writeIdentities() error {
	server, err := p.ca.issuePair("kube-apiserver", "", controlAddress, "127.0.0.1", serviceAPI, "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	toKubelets, err := p.ca.issuePair("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accountKey, err := encodeKey(accounts)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		return err
	}
	caKey, err := encodeKey(p.ca.key)
	if err != nil {
		return err
	}
	for name, user := range map[string]string{
		"kube-scheduler": "system:kube-scheduler", "kube-controller-manager": "system:kube-controller-manager", "coredns": "coredns",
	} {
		client, err := p.ca.issuePair(user, "")
		if err != nil {
			return err
		}
		if err := os.WriteFile(p.pkiPath(name+".conf"), p.ca.writeKubeconfig(name, p.serverURL(), client), 0o600); err != nil {
			return err
		}
	}
	return errors.Join(
		pair{p.ca.pem, caKey}.writeFiles(p.pkiPath(""), "ca"),
		server.writeFiles(p.pkiPath(""), "apiserver"),
		toKubelets.writeFiles(p.pkiPath(""), "apiserver-kubelet-client"),
		os.WriteFile(p.pkiPath("service-accounts.key"), accountKey, 0o600),
		os.WriteFile(p.pkiPath("service-accounts.pub"), encodePEM("PUBLIC KEY", public), 0o600),
	)
}

// controlPrograms returns the control plane's programs, in the order of their start.
func (p *plan) controlPrograms() []lab.Program {
	kubernetes := func(name string, flags ...string) lab.Program {
		flags = append(flags, "--feature-gates="+p.Parts.Version.gateFlag())
		return lab.Program{Name: name, Argv: append([]string{filepath.Join(p.Parts.Kubernetes, name)}, flags...)}
	}
	return []lab.Program{
		// The lab's disks are as lasting as the lab: etcd need not wait for them.
		{Name: "etcd", Argv: []string{
			filepath.Join(p.Parts.Etcd, "server"), "--data-dir=" + filepath.Join(p.dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380",
			"--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=default=http://127.0.0.1:2380",
		}},
		kubernetes("kube-apiserver",
			"--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port="+apiPort, "--advertise-address="+controlAddress,
			"--service-cluster-ip-range="+serviceNetwork, "--client-ca-file="+p.pkiPath("ca.crt"),
			"--tls-cert-file="+p.pkiPath("apiserver.crt"), "--tls-private-key-file="+p.pkiPath("apiserver.key"),
			"--kubelet-client-certificate="+p.pkiPath("apiserver-kubelet-client.crt"), "--kubelet-client-key="+p.pkiPath("apiserver-kubelet-client.key"),
			"--kubelet-certificate-authority="+p.pkiPath("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file="+p.pkiPath("service-accounts.pub"), "--service-account-signing-key-file="+p.pkiPath("service-accounts.key"),
			"--authorization-mode=Node,RBAC", "--enable-bootstrap-token-auth=true", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
			// No kube-proxy is here: webhooks are called at their pods.
			"--enable-aggregator-routing=true",
			"--audit-policy-file="+filepath.Join(p.dir, "audit-policy.yaml"), "--audit-log-path="+p.AuditLog, "--audit-log-mode=blocking",
			"--profiling=false", "--cert-dir="+p.pkiPath(""), "--runtime-config="+p.Parts.Version.servedGroups(),
		),
		kubernetes("kube-controller-manager",
			"--kubeconfig="+p.pkiPath("kube-controller-manager.conf"), "--use-service-account-credentials=true", "--leader-elect=false", "--bind-address=127.0.0.1",
			"--allocate-node-cidrs=true", "--cluster-cidr="+podNetwork, "--service-cluster-ip-range="+serviceNetwork,
			"--root-ca-file="+p.pkiPath("ca.crt"), "--service-account-private-key-file="+p.pkiPath("service-accounts.key"),
			"--controllers=*,bootstrapsigner,tokencleaner", "--cluster-signing-cert-file="+p.pkiPath("ca.crt"), "--cluster-signing-key-file="+p.pkiPath("ca.key"), "--cert-dir="+p.pkiPath(""),
		),
		kubernetes("kube-scheduler",
			"--kubeconfig="+p.pkiPath("kube-scheduler.conf"), "--leader-elect=false", "--bind-address=127.0.0.1", "--cert-dir="+p.pkiPath(""),
		),
		{Name: "coredns", Argv: []string{filepath.Join(p.Parts.CoreDNS, "coredns"), "-conf", p.corefilePath()}},
	}
}

// apiTime bounds the start of the control plane, which takes a few seconds.
const apiTime = 3 * time.Minute

// awaitAPI waits until the API server says that it is ready.
func (p *plan) awaitAPI(ctx context.Context) error {
	client, err := p.adminClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return p.awaitOK(ctx, client, p.outside+"/readyz")
}

// awaitOK waits until the API server answers a request with 200.
func (p *plan) awaitOK(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, apiTime, fmt.Errorf("%s is not OK after %s", url, apiTime))
	defer cancel()
	for {
		err := probeURL(ctx, client, url)
		if err == nil {
			return nil
		}
		if err := p.findEnded(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w\n%s", context.Cause(ctx), err, logTail(p.Lab.ProgramLog("kube-apiserver")))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func probeURL(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return err
}

// findEnded returns an error that names a part of the control plane that does not run.
func (p *plan) findEnded() error {
	st, err := p.Lab.Status()
	if err != nil {
		return err
	}
	for _, one := range st.Programs {
		if one.PID == 0 {
			return fmt.Errorf("%s ended (%s):\n%s", one.Name, one.Ended, logTail(p.Lab.ProgramLog(one.Name)))
		}
	}
	return nil
}

// adminClient returns an HTTP client that is the cluster's administrator.
func (p *plan) adminClient() (*http.Client, error) {
	cert, err := tls.X509KeyPair(p.admin.cert, p.admin.key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.ca.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}, nil
}

// logTail returns the end of a log file.
func logTail(name string) string {
	body, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(body[max(0, len(body)-3000):])
}

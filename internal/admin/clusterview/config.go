package clusterview

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// readConfig reads a kubeconfig. It prints nothing: client-go would log what the errors say.
func readConfig(file, kubeContext string) (*rest.Config, clientcmd.ClientConfig, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.WarnIfAllMissing = file, false
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, nil, explainConfig(err, rules, loader, kubeContext)
	}
	config.WarningHandler = rest.NoWarnings{}
	return config, loader, nil
}

// explainConfig says which kubeconfig is wrong, and what to do.
func explainConfig(err error, rules *clientcmd.ClientConfigLoadingRules, loader clientcmd.ClientConfig, kubeContext string) error {
	file := cmp.Or(rules.ExplicitPath, strings.Join(rules.Precedence, string(filepath.ListSeparator)))
	_, missing := os.Stat(file)
	switch {
	case rules.ExplicitPath != "" && errors.Is(missing, fs.ErrNotExist):
		return fmt.Errorf("kubeconfig %s: %w: name a file that is there with --kubeconfig, or set KUBECONFIG", file, fs.ErrNotExist)
	case clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("kubeconfig %s names no cluster (%w): set KUBECONFIG, or name a file with --kubeconfig", file, vf.ErrNotFound)
	case lacksContext(loader, kubeContext):
		return fmt.Errorf("--context %s: %w: kubeconfig %s has %s: name one that it has", excerpt.Quote(kubeContext), err, file, joinContexts(loader))
	}
	return errors.New("kubeconfig " + excerpt.Kubeconfig(file, err))
}

// lacksContext reports whether the kubeconfig can be read and has no context of that name.
func lacksContext(loader clientcmd.ClientConfig, name string) bool {
	raw, err := loader.RawConfig()
	return err == nil && name != "" && raw.Contexts[name] == nil
}

func joinContexts(loader clientcmd.ClientConfig) string {
	raw, err := loader.RawConfig()
	if err != nil || len(raw.Contexts) == 0 {
		return "no contexts"
	}
	return "the contexts " + excerpt.Join(slices.Sorted(maps.Keys(raw.Contexts)))
}

// explainConnection says what to do about a certificate or a connection; "" if it is about neither.
func explainConnection(err error) string {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var network *net.OpError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the API server's certificate, or set the clock of this host: date"
	case errors.As(err, &unknown):
		return "take the kubeconfig of this cluster: another CA signed the API server's certificate"
	case errors.As(err, &host):
		return "name the API server in the kubeconfig as its certificate does"
	case errors.As(err, &network) && network.Op == "remote error": // a TLS alert (crypto/tls)
		return "renew the certificate in the kubeconfig: the API server refuses it"
	case errors.As(err, &network):
		return "is the API server up, and its address in the kubeconfig right? kubectl cluster-info tries the same"
	}
	return ""
}

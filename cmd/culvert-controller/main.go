// Command culvert-controller works for a whole cluster: it gives nodes blocks
// of addresses, adds resources to pods, and refuses networks and policies that
// cannot work.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/cluster/controller"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Getenv("POD_NAMESPACE")).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "culvert-controller:", err)
		os.Exit(1)
	}
}

const about = `culvert-controller runs as a Deployment, one replica or several of which one
leads. It has these tasks:

  addresses     gives each node blocks of the networks' addresses, so that no
                address is given out twice
  pods          adds what their networks need: resources, labels of nodes, and
                files about the pod below /etc/podnetinfo
  admission     refuses networks and NodePolicies that cannot work, and names the
                field
  drains        evicts pods whose VFs prevent another number of VFs, node by node
  Services      gives them the addresses of their pods on VF networks
  certificates  makes those of its webhooks`

func newCommand(namespace string) *cobra.Command {
	if namespace == "" {
		namespace = "culvert-system"
	}
	var (
		c          controller.Config
		kubeconfig string
		networks   networkFlags
		services   bool
		debug      bool
	)
	cmd := &cobra.Command{
		Use:   "culvert-controller",
		Short: "Addresses, webhooks and policies of Culvert in a Kubernetes cluster",
		Long:  about,
		Example: `  # outside the cluster, without webhooks
  culvert-controller --kubeconfig ~/.kube/config --webhooks= --leader-elect=false

  # give Services over VF networks back to Kubernetes
  culvert-controller release-services`,
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if debug {
				level = slog.LevelDebug
			}
			c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			if err := networks.parseInto(&c); err != nil {
				return err
			}
			var err error
			if c.Kube, err = clusterConfig(kubeconfig); err != nil {
				return err
			}
			c.Services.Off = !services
			return controller.Run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: as the pod that this is")
	addServing(cmd, &c)
	f.StringVar(&c.Namespace, "namespace", namespace, "where the controller's own objects are")
	c.DrainNodes = 1
	cli.AddCount(cmd, &c.DrainNodes, "drain-nodes", 0, 5000, "how many nodes are emptied at a time of pods that have VFs of a PF whose number of VFs is to change; 0: none")
	f.BoolVar(&services, "services", true, "serve Services over VF networks; false: give those that are served back to Kubernetes, as before Culvert is uninstalled")
	networks.addFlags(f)
	f.BoolVar(&c.Isolation.On, "namespace-isolation", true, "treat networks that pods may not use as missing, as culvertd's flag; false: pods may use networks of every namespace")
	f.StringSliceVar(&c.Isolation.Global, "global-namespaces", netannotation.DefaultGlobal(), "namespaces whose networks every pod may use, with --namespace-isolation")
	f.BoolVar(&c.LeaderElection, "leader-elect", true, "one of several replicas leads")
	f.BoolVar(&debug, "debug", false, "log more")
	return withCommands(cmd, newReleaseCommand(namespace))
}

// addServing adds the flags of what the controller serves.
func addServing(cmd *cobra.Command, c *controller.Config) {
	f := cmd.Flags()
	f.StringVar(&c.Service, "service", "culvert-controller", "the Service of the webhooks")
	f.StringVar(&c.Secret, "secret", "culvert-controller-certificates", "the Secret of the webhooks' certificates")
	f.StringVar(&c.Webhooks, "webhooks", "culvert", "the name of the webhook configurations; empty: no webhooks")
	c.WebhookPort = 9443
	cli.AddCount(cmd, &c.WebhookPort, "webhook-port", 1, 65535, "where the webhooks listen")
	f.StringVar(&c.Certificates, "certificates", "", "a folder with tls.crt and tls.key, which are read again when they change; empty: the controller makes and renews its own")
	f.StringVar(&c.ClientCA, "client-ca", "", "a PEM file: the webhooks serve only clients with a certificate of its CAs; empty: any client")
	f.StringVar(&c.Metrics, "metrics", ":8080", "where Prometheus reads metrics, with HTTPS and a token; 0: nowhere")
	f.StringVar(&c.Health, "health", ":8081", "where the kubelet asks /healthz and /readyz; 0: nowhere")
}

func withCommands(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cli.Explain(cmd)
	return cmd
}

// networkFlags has the flags about networks whose values need parsing.
type networkFlags struct {
	services, resourceKeys, everyPod, exceptPods []string
}

func (n *networkFlags) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&n.services, "service-networks", nil, "networks (namespace/name) over which the Services of their pods are served without an annotation, the first that fits")
	f.StringSliceVar(&n.resourceKeys, "network-resource-name-keys", controller.DefaultResourceKeys(), "annotations of networks that name resources: a pod requests one device for each network and key, or as many as the network has VFs. culvertd finds the VFs by "+netannotation.ResourceName)
	f.StringSliceVar(&n.everyPod, "default-networks", nil, "networks that every pod gets before those that it asks for, as culvertd's flag")
	f.StringSliceVar(&n.exceptPods, "system-namespaces", netannotation.DefaultSystemNamespaces(), "namespaces whose pods get none of --default-networks, as culvertd's flag")
}

func (n *networkFlags) parseInto(c *controller.Config) (err error) {
	if c.Services.Defaults, err = controller.ParseServiceNetworks(n.services); err != nil {
		return err
	}
	if c.ResourceKeys, err = controller.ParseResourceKeys(n.resourceKeys); err != nil {
		return fmt.Errorf("--network-resource-name-keys: %w", err)
	}
	if c.EveryPod, err = netannotation.ParseEveryPod(n.everyPod, n.exceptPods); err != nil {
		return fmt.Errorf("--default-networks: %w", err)
	}
	return nil
}

const aboutRelease = `release-services gives all Services that are served over VF networks back to
Kubernetes, as before Culvert is uninstalled. It stops the controllers first: it
scales their Deployment to 0. helm uninstall runs it by itself;
dist/kubernetes/release-services.yaml runs it in a cluster without Helm.

It ends when no Service has a key of Culvert in its selector and no
EndpointSlice of Culvert is left. Until then it retries each step that fails.`

func newReleaseCommand(namespace string) *cobra.Command {
	r := controller.Release{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	var (
		kubeconfig string
		most       time.Duration
	)
	cmd := &cobra.Command{
		Use:   "release-services",
		Short: "Give Services over VF networks back to Kubernetes, before Culvert is uninstalled",
		Long:  aboutRelease,
		Example: `  # outside the cluster
  culvert-controller release-services --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := context.WithTimeout(cmd.Context(), most)
			defer cancel()
			if r.Kube, err = clusterConfig(kubeconfig); err != nil {
				return err
			}
			return controller.ReleaseServices(ctx, r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: as the pod that this is")
	f.StringVar(&r.Namespace, "namespace", namespace, "where the controllers' Deployment is")
	f.StringVar(&r.Deployment, "deployment", "culvert-controller", "the controllers' Deployment")
	most = 4 * time.Minute
	cli.AddTime(cmd, &most, "timeout", time.Second, 24*time.Hour, "how long to try")
	return cmd
}

func clusterConfig(path string) (*rest.Config, error) {
	if path == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("connect to the cluster that this pod is in: %w: outside a pod name a file with --kubeconfig", err)
		}
		return c, nil
	}
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, errors.New("--kubeconfig " + excerpt.Kubeconfig(path, err))
	}
	return c, nil
}

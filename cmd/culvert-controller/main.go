// Command culvert-controller works for a whole cluster: it gives nodes blocks
// of addresses, adds resources to pods, and refuses networks and policies that
// cannot work.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/culvert-net/culvert/controller"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(os.Getenv("POD_NAMESPACE")).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "culvert-controller:", err)
		os.Exit(1)
	}
}

func command(namespace string) *cobra.Command {
	if namespace == "" {
		namespace = "culvert-system"
	}
	var (
		c          controller.Config
		kubeconfig string
		debug      bool
	)
	cmd := &cobra.Command{
		Use:   "culvert-controller",
		Short: "Addresses, webhooks and policies of Culvert in a Kubernetes cluster",
		Long: `culvert-controller runs as a Deployment, one replica or several of which one
leads. It gives each node blocks of the addresses of the networks, so that no
address is given out twice; adds to pods the resources that their networks need;
refuses networks and NodePolicies that cannot work, naming the field; evicts pods
whose VFs are in the way of another number of VFs, node by node; and makes the
certificates of its webhooks.`,
		Example: `  # outside the cluster, without webhooks
  culvert-controller --kubeconfig ~/.kube/config --webhooks= --leader-elect=false`,
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
			var err error
			if c.Kube, err = config(kubeconfig); err != nil {
				return err
			}
			return controller.Run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: as the pod that this is")
	f.StringVar(&c.Namespace, "namespace", namespace, "where the controller's own objects are")
	f.StringVar(&c.Service, "service", "culvert-controller", "the Service of the webhooks")
	f.StringVar(&c.Secret, "secret", "culvert-controller-certificates", "the Secret of the webhooks' certificates")
	f.StringVar(&c.Webhooks, "webhooks", "culvert", "the name of the webhook configurations; empty: no webhooks")
	f.IntVar(&c.WebhookPort, "webhook-port", 9443, "where the webhooks listen")
	f.StringVar(&c.Certificates, "certificates", "", "a folder with tls.crt and tls.key, which are read again when they change; empty: the controller makes and renews its own")
	f.StringVar(&c.ClientCA, "client-ca", "", "a PEM file: the webhooks serve only clients with a certificate of its CAs; empty: any client")
	f.StringVar(&c.Metrics, "metrics", ":8080", "where Prometheus reads metrics, with HTTPS and a token; 0: nowhere")
	f.StringVar(&c.Health, "health", ":8081", "where the kubelet asks /healthz and /readyz; 0: nowhere")
	f.IntVar(&c.DrainNodes, "drain-nodes", 1, "how many nodes are emptied at a time of pods that have VFs of a PF whose number of VFs is to change; 0: none")
	f.BoolVar(&c.LeaderElection, "leader-elect", true, "one of several replicas leads")
	f.BoolVar(&debug, "debug", false, "log more")
	return cmd
}

func config(path string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", path) // in the cluster when path is empty
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return c, nil
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/lab/cluster"
)

// upKubernetes brings up a lab with a cluster and says how to use it.
func upKubernetes(cmd *cobra.Command, o cluster.Options) error {
	c, err := cluster.Up(cmd.Context(), o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\n", c.Kubeconfig)
	return errors.Join(err, c.Close())
}

func newKubectlCommand(name *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl [-- ARG...]",
		Short: "Run kubectl against the lab's cluster",
		Long: `Runs the kubectl that was built with the cluster, on this host and as its
administrator, and exits with its status. Every other client can do the same
with the KUBECONFIG that 'culvert lab up --kubernetes' prints.`,
		Example: `  culvert lab kubectl -- get nodes -o wide
  culvert lab kubectl -- apply -f pod.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := cluster.Open(*name)
			if err != nil {
				return err
			}
			defer c.Close()
			kubectl := c.KubectlCommand(cmd.Context(), args...)
			kubectl.Stdin, kubectl.Stdout, kubectl.Stderr = os.Stdin, os.Stdout, os.Stderr
			err = kubectl.Run()
			var failed *exec.ExitError
			if errors.As(err, &failed) && failed.ExitCode() > 0 {
				return cli.ExitStatus(failed.ExitCode())
			}
			return err
		},
	}
	return cmd
}

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/rpc"
)

func newMetricsCommand(n *node) *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Print this node's metrics for Prometheus",
		Long: `Prints the metrics of this node in Prometheus's text format, whether or not
culvertd serves them at an address (culvertd --metrics).

With --file the command writes them into a file, which it replaces in one step.
The textfile collector of node_exporter reads such files: the timer
culvert-metrics.timer writes one every 30 s. The file has no times. If culvertd
does not answer, the file stays as it was, and its age shows that.`,
		Example: `  sudo culvert metrics | grep culvert_vfs
  sudo culvert metrics --file /var/lib/prometheus/node-exporter/culvert.prom
  sudo systemctl enable --now culvert-metrics.timer`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&file, "file", "", "write this `FILE`, whose name ends in .prom")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file != "" && filepath.Ext(file) != ".prom" {
			return fmt.Errorf("--file %s: the textfile collector reads only files whose names end in .prom", file)
		}
		text, err := n.readMetrics(cmd.Context())
		if err != nil {
			return err
		}
		if file != "" {
			return durable.WriteFile(file, []byte(text), 0o644)
		}
		_, err = io.WriteString(cmd.OutOrStdout(), text)
		return err
	}
	return cmd
}

func (n *node) readMetrics(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, statusBound)
	defer cancel()
	var m api.Metrics
	err := rpc.Call(ctx, n.socket, api.MethodMetrics, nil, &m)
	return m.Text, err
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/admin/page/source"
)

// howPageEnds is part of the help of the command, of culvert and of kubectl's plugin.
const howPageEnds = `The command prints a URL that works once, for one browser. Enter prints another
one. The page listens on this machine alone (127.0.0.1) and has your rights.
Ctrl-C ends it, and so does the end of the terminal.

If the command runs on another machine than the browser, the port is the same at
both ends, since the page has no other name than the printed one:

`

// newUICommand serves the page of this host, or of a cluster.
func newUICommand(p *place) *cobra.Command {
	var port int
	var plans []string
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show a host or a cluster as a page in the browser",
		Long: `Serves a page that shows this host, or with --cluster a Kubernetes cluster, as it
changes: NICs with their ports and VFs, owners, rates, pools, networks, events and
problems. The page changes nothing, and needs no network.

` + howPageEnds + `  ssh -t -L 8080:127.0.0.1:8080 HOST sudo culvert ui --port 8080

With --plan the page also shows what a file would change, and which owners would
lose a VF: a host.yaml on a host, NodePolicies in a cluster. It reads the file
anew each time, so that you see your edits.

A cluster's objects have no traffic and no history. For these, run culvert ui on
the node.`,
		Example: `  culvert ui
  culvert ui --cluster
  culvert ui --context prod
  culvert ui --plan ./host.yaml
  culvert ui --cluster --plan ./policy.yaml
  culvert ui --port 8080`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	if p.wanted { // kubectl's plugin
		cmd.Short = "Show the cluster as a page in the browser"
		cmd.Long = `Serves a page that shows the cluster as it changes: nodes, NICs with their ports and
VFs, owners, pools, networks, events and problems. The page changes nothing, and
needs no network but that to the API server.

` + howPageEnds + `  ssh -t -L 8080:127.0.0.1:8080 HOST kubectl culvert ui --port 8080

With --plan the page also shows what the NodePolicies in a file would change, and
which owners would lose a VF. It reads the file anew each time, so that you see
your edits. If they have a nodeSelector, that needs the right to list Nodes.

A cluster's objects have no traffic and no history. For these, run culvert ui on
the node.`
		cmd.Example = `  culvert ui
  culvert ui --context prod
  culvert ui --plan ./policy.yaml
  culvert ui --port 8080`
	}
	cli.AddCount(cmd, &port, "port", 0, 65535, "the port on 127.0.0.1; 0: a free one")
	cmd.Flags().StringArrayVar(&plans, "plan", nil, "show the effect of this `FILE` too (repeatable)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		from, name, err := p.openSource(cmd.Context(), plans)
		if err != nil {
			return err
		}
		listener, err := page.Listen(port)
		if err != nil {
			return err
		}
		return servePage(cmd, page.NewServer(from, listener), name, listener.Addr())
	}
	return cmd
}

// openSource returns the host or cluster that the page shows, once it has answered, and its name.
func (p *place) openSource(ctx context.Context, plans []string) (from page.Source, name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusBound)
	defer cancel()
	for _, file := range plans {
		if _, err := os.Stat(file); err != nil {
			return nil, "", cli.ExplainFile(file, err)
		}
	}
	if p.nodeName != "" {
		return nil, "", errors.New("culvert ui shows all nodes of a cluster: leave --node out, and choose the node on the page")
	}
	if !p.inCluster() {
		st, err := p.mergedStatus(ctx)
		return source.NewHost(p.socket, plans), "host " + st.Node, err
	}
	c, err := p.openCluster()
	if err != nil {
		return nil, "", err
	}
	_, err = c.ReadShared(ctx)
	return source.NewCluster(c, plans), "cluster " + c.Name, err
}

// servePage serves the page until the command is interrupted or its standard input ends.
func servePage(cmd *cobra.Command, server *page.Server, name string, address net.Addr) error {
	ctx, end := context.WithCancel(cmd.Context())
	defer end()
	var g errgroup.Group
	g.Go(func() error {
		defer end()
		return server.Serve(ctx)
	})
	out := cmd.OutOrStdout()
	_, port, _ := net.SplitHostPort(address.String()) // of a listener
	fmt.Fprintf(out, "The page of %s, for one browser on this machine:\n\n  %s\n\n", name, server.NewURL())
	fmt.Fprintf(out, "From another machine, first: ssh -L %s:%s %s\n", port, address, hostName())
	fmt.Fprint(out, "Enter prints a URL for another browser. Ctrl-C ends the page.\n")
	go func() { // a read from a terminal cannot be interrupted: it ends with the process
		printURLs(cmd.InOrStdin(), out, server)
		end()
	}()
	<-ctx.Done()
	err := g.Wait()
	if err == nil && cmd.Context().Err() == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "The page has ended, since standard input has.")
	}
	return err
}

// printURLs prints a new URL for each line of in, until in ends.
func printURLs(in io.Reader, out io.Writer, server *page.Server) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintf(out, "  %s\n", server.NewURL())
	}
}

// hostName returns the name of this machine for a command.
func hostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "HOST"
	}
	return name
}

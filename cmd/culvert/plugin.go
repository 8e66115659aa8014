package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
)

// Names that kubectl looks for in PATH: that of its plugin culvert, and that of the program
// that completes the plugin's arguments (kubectl 1.26 and newer).
const (
	pluginName     = "kubectl-culvert"
	completionName = "kubectl_complete-culvert"
)

// newCommand returns the command of a program of that name with its arguments.
func newCommand(name string, args []string) *cobra.Command {
	root := newRoot()
	switch name {
	case pluginName:
		root = newPlugin()
	case completionName:
		root, args = newPlugin(), append([]string{cobra.ShellCompRequestCmd}, args...)
	default:
		args = askProgram(args)
	}
	root.SetArgs(args)
	return root
}

// newPlugin returns culvert as kubectl's plugin. It has the commands that can read a cluster,
// and they always do.
func newPlugin() *cobra.Command {
	root := &cobra.Command{
		Use:   pluginName,
		Short: "Show the SR-IOV Virtual Functions of a cluster",
		Long: `Shows Culvert's objects in a cluster: the nodes' NICs and their Virtual Functions
(VFs) with their owners, the networks and pools, and problems. It reads Culvert's
objects (ClusterRole culvert-view, which is part of view) and changes nothing.

Those objects do not have everything. The program culvert on the node itself shows
the rest, such as the settings of a VF.`,
		Example: `  culvert status                       # all nodes, and what is wrong
  culvert status --node worker01
  culvert vf list --owner default/a    # what a pod has
  culvert pool list
  culvert why pod/db-0                 # what a pod waits for
  culvert ui                           # all of it as a page in the browser`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl culvert"},
		Version:           version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true // kubectl has the completion
	p := &place{wanted: true}
	p.addFlags(root)
	root.AddCommand(newStatusCommand(p), newVFCommand(p), newPoolCommand(p), newWhyCommand(p), newUICommand(p), newVersionCommand())
	renameHelp(root)
	cli.Explain(root)
	return root
}

// renameHelp replaces the names of commands in the help of a command and of those below it by
// kubectl's.
func renameHelp(cmd *cobra.Command) {
	names := strings.NewReplacer("  culvert status --cluster\n", "", "  culvert ", "  kubectl culvert ", "culvert vf ", "kubectl culvert vf ", "culvert status", "kubectl culvert status", "culvert why", "kubectl culvert why")
	cmd.Long, cmd.Example = names.Replace(cmd.Long), names.Replace(cmd.Example)
	for _, c := range cmd.Commands() {
		renameHelp(c)
	}
}

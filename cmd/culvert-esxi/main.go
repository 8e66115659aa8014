// Command culvert-esxi gives VFs to the virtual machines of ESXi hosts, from a file.
// `culvert esxi` execs it.
package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
)

// version is set by the linker.
var version = "unknown"

func main() {
	os.Exit(cli.Run(newRoot(os.Getenv)))
}

func newRoot(getenv func(string) string) *cobra.Command {
	return newCommand(&esxi{getenv: getenv, poll: 5 * time.Second})
}

func newCommand(e *esxi) *cobra.Command {
	root := cli.NewRoot("esxi", version, &cobra.Command{
		Short: "Give VFs to the virtual machines of an ESXi host",
		Long: `Configures SR-IOV on an ESXi host from a file: the VFs of its physical ports, its
virtual switches and port groups, and the VFs of its virtual machines. The program
runs on any machine. It talks to the host, or to its vCenter, by the vSphere API.

Not verified on ESXi: the tests of these commands run against a simulator.

docs/esxi.md describes the file. The login is in the file of --credentials, or in
CULVERT_ESXI_USER and CULVERT_ESXI_PASSWORD, or saved by culvert esxi login. The
user needs the privileges that culvert esxi role lists.`,
		Example: `  culvert esxi validate esxi.yaml
  culvert esxi login esxi.yaml
  culvert esxi status esxi.yaml
  culvert esxi plan esxi.yaml
  culvert esxi apply esxi.yaml`,
	},
		e.newValidateCommand(), e.newLoginCommand(), e.newLogoutCommand(), e.newRoleCommand(), e.newStatusCommand(),
		e.newPlanCommand(), e.newApplyCommand(), e.newRemoveCommand(),
	)
	root.PersistentFlags().StringVar(&e.credentials, "credentials", "", "`FILE` with user and password (YAML), which only you can read")
	return root
}

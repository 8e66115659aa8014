package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/install"
)

// installFlags has the flags of install and uninstall.
type installFlags struct {
	root, prefix string
	parts        []string
	dryRun       bool
}

func (i *installFlags) addFlags(cmd *cobra.Command) {
	var all []string
	for _, p := range install.Parts() {
		all = append(all, string(p))
	}
	f := cmd.Flags()
	f.StringVar(&i.root, "root", "/", "the `FOLDER` that is, or becomes, the root of a host")
	f.StringVar(&i.prefix, "prefix", "/usr/local", "the `FOLDER` below which the programs go")
	f.StringSliceVar(&i.parts, "parts", all, "programs, bench, cni, libvirt")
	f.BoolVar(&i.dryRun, "dry-run", false, "show the steps, and do nothing")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("parts", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))) // only if the flag were not there
}

func (i *installFlags) installHost(out io.Writer) (install.Host, error) {
	h := install.Host{Root: i.root, Prefix: i.prefix, DryRun: i.dryRun, Out: out}
	for _, p := range i.parts {
		h.Parts = append(h.Parts, install.Part(p))
	}
	if h.Root == "" { // an empty DESTDIR
		h.Root = "/"
	}
	var err error
	if h.Root, err = filepath.Abs(h.Root); err != nil {
		return h, err
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil && h.Root == "/" { // sd_booted(3)
		h.Systemctl = runSystemctl
	}
	return h, nil
}

func runSystemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func newHostInstallCommand() *cobra.Command {
	var flags installFlags
	var from string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install Culvert on this host",
		Long: `Puts Culvert's files into their places, and marks each as new (+), replaced (~) or
unchanged (=):

  programs  culvert, culvertd, the systemd unit, completions of shells. Also an
            empty /etc/culvert/host.yaml, if there is none.
  bench     culvert-bench, which measures for culvert bench.
  cni       the CNI plugin, as culvert and as sriov, where there is /opt/cni or
            /etc/cni. A plugin sriov of another project stays beside it.
  libvirt   libvirt's hooks, where there is /etc/libvirt.

The programs come from the folder of this one, or --from. It replaces a file in
one step, and keeps files that a person may have edited. Run it again after an
upgrade, or when a container runtime or libvirt has been installed. It starts
nothing.

--root installs into a folder that becomes the root of another host or a package.`,
		Example: `  sudo build/bin/culvert host install
  culvert host install --dry-run
  culvert host install --root ./stage --prefix /usr`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags.addFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the `FOLDER` that has the programs; that of this one when not given")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		h, err := flags.installHost(cmd.OutOrStdout())
		if err != nil {
			return err
		}
		if from == "" {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			from = filepath.Dir(self)
		}
		completions, err := completionsOf(cmd.Root())
		if err != nil {
			return err
		}
		return asRoot(h.Install(cmd.Context(), from, completions))
	}
	return cmd
}

func newHostUninstallCommand() *cobra.Command {
	var flags installFlags
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Culvert from this host",
		Long: `Stops culvertd and removes the files of culvert host install, and those that
culvertd wrote for container runtimes. A plugin that was called sriov before gets
its name back.

An edited host.yaml, the ledger in /var/lib/culvert and the VFs stay: pods and
virtual machines that run keep their VFs.`,
		Example: `  sudo culvert host uninstall
  culvert host uninstall --dry-run`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		h, err := flags.installHost(cmd.OutOrStdout())
		if err != nil {
			return err
		}
		return asRoot(h.Uninstall(cmd.Context()))
	}
	return cmd
}

// completionsOf returns the completions of the program's arguments, by shell.
func completionsOf(root *cobra.Command) (map[string][]byte, error) {
	var bash, zsh, fish bytes.Buffer
	err := errors.Join(root.GenBashCompletionV2(&bash, true), root.GenZshCompletion(&zsh), root.GenFishCompletion(&fish, true))
	return map[string][]byte{"bash": bash.Bytes(), "zsh": zsh.Bytes(), "fish": fish.Bytes()}, err
}

// asRoot adds the next step to an error of permissions.
func asRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: use sudo", err)
	}
	return err
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/lab"
)

func newFastCommand() *cobra.Command {
	var files, env []string
	var self, quiet bool
	o := lab.FastOptions{CPUs: 1, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Progress: os.Stderr}
	cmd := &cobra.Command{
		Use:   "fast [--file SRC:DEST]... -- CMD [ARG]...",
		Short: "Boot a throwaway node from an initramfs and run one command in it",
		Long: `Boots a node without systemd in a few seconds, runs one command as root, and
powers the node off. The exit status is the command's.

The node has two PFs, eth0 (0000:01:00.0) and eth1 (0000:02:00.0), on one wire and
up with carrier. It has an IOMMU, and the modules for VFs, bridges, tunnels,
VLANs, nftables and vfio. Its tools are busybox, ip, tc, bridge, ethtool, nft,
ping, iperf3, tcpdump, strace and lspci. It has no udev.`,
		Example: `  # make VFs and look at them
  culvert lab fast -- \
    sh -c 'echo 7 >/sys/class/net/eth0/device/sriov_numvfs; ip link'

  # run a package's tests on a real kernel
  CGO_ENABLED=0 go test -exec 'culvert lab fast --exec' ./internal/kernel/...

  # the same by hand
  CGO_ENABLED=0 go test -c -o vf.test ./internal/vf
  culvert lab fast --file vf.test:/vf.test -- /vf.test -test.v`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Files, err = parseFiles(files); err != nil {
				return err
			}
			if self {
				if err := addSelf(&o, args[0]); err != nil {
					return err
				}
			}
			if quiet || self {
				o.Progress = nil
			}
			o.Argv, o.Env = args, env
			exit, err := lab.Fast(cmd.Context(), o)
			if err == nil && exit != 0 {
				return cli.ExitStatus(exit)
			}
			return err
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringArrayVar(&files, "file", nil, "copy the host's file or tree `SRC:DEST` into the node (again for more)")
	cmd.Flags().StringArrayVar(&env, "env", nil, "set `KEY=VALUE` in the command's environment (again for more)")
	cmd.Flags().BoolVar(&self, "exec", false, "copy CMD itself in too, and the working directory's testdata: for go test -exec")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress")
	cmd.Flags().BoolVar(&o.NoSnapshot, "no-snapshot", false, "boot the node: neither use nor take a snapshot")
	cli.AddCount(cmd, &o.CPUs, "cpus", 1, 64, "processors of the node")
	cmd.Flags().StringVar(&o.Dir, "dir", "/", "where the command starts")
	return cmd
}

func parseFiles(args []string) (map[string]string, error) {
	files := make(map[string]string)
	for _, arg := range args {
		src, dest, ok := strings.Cut(arg, ":")
		if !ok || src == "" || dest == "" {
			return nil, fmt.Errorf("--file %q: want SRC:DEST", arg)
		}
		files[dest] = src
	}
	return files, nil
}

// addSelf adds the files for go test -exec, which runs culvert-lab in the package's folder
// with the test binary as the command.
func addSelf(o *lab.FastOptions, binary string) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	o.Files[binary] = binary
	o.Dir = cwd
	if data := filepath.Join(cwd, "testdata"); fileExists(data) {
		o.Files[data] = data
	}
	return nil
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

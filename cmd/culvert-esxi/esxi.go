package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/esxi/credentials"
	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/status"
	"github.com/culvert-net/culvert/internal/esxi/vsphere"
	"github.com/culvert-net/culvert/internal/screen"
)

// esxi has the settings of all commands.
type esxi struct {
	credentials string
	getenv      func(string) string
	poll        time.Duration // between two looks at a host that restarts
}

// defaultFile is the file of a command without an argument.
const defaultFile = "esxi.yaml"

// fileName returns the file that a command names.
func fileName(args []string) string {
	if len(args) == 0 {
		return defaultFile
	}
	return args[0]
}

func readSpec(cmd *cobra.Command, args []string) (file.Spec, error) {
	name := fileName(args)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && len(args) == 0 {
		return file.Spec{}, fmt.Errorf("%s: the command names no FILE, and there is no %s in this folder: for example: %[1]s /etc/%[2]s", cmd.CommandPath(), defaultFile)
	}
	if err != nil {
		return file.Spec{}, cli.ExplainFile(name, err)
	}
	return file.Parse(name, text)
}

func (e *esxi) findSource() (credentials.Source, error) {
	dir := e.getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := e.getenv("HOME")
		if home == "" && e.credentials == "" && e.getenv(credentials.UserVariable) == "" {
			return credentials.Source{}, fmt.Errorf("there is no folder for saved logins: set HOME or XDG_CONFIG_HOME, or give --credentials")
		}
		dir = filepath.Join(home, ".config")
	}
	return credentials.Source{File: e.credentials, Getenv: e.getenv, Dir: filepath.Join(dir, "culvert", "esxi")}, nil
}

// openSession reads the file and begins a session with its server.
func (e *esxi) openSession(cmd *cobra.Command, args []string) (file.Spec, *vsphere.Conn, error) {
	spec, err := readSpec(cmd, args)
	if err != nil {
		return spec, nil, err
	}
	source, err := e.findSource()
	if err != nil {
		return spec, nil, err
	}
	login, err := source.Find(spec.Server)
	if err != nil {
		return spec, nil, err
	}
	conn, err := vsphere.Dial(cmd.Context(), spec, login)
	return spec, conn, err
}

func (e *esxi) newValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check the file, without the host",
		Long: `Reads the file (default esxi.yaml) and lists every mistake in it, by line. It
needs no host. culvert esxi plan checks whether the host can do it.`,
		Example: `  culvert esxi validate esxi.yaml`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := readSpec(cmd, args)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is right: %s, %s, %s\n", fileName(args), screen.Plural(len(spec.Ports), "port"), countSwitches(len(spec.Switches)), screen.Plural(len(spec.VMs), "virtual machine"))
			return nil
		},
	}
}

func countSwitches(n int) string {
	if n == 1 {
		return "1 switch"
	}
	return fmt.Sprintf("%d switches", n)
}

func (e *esxi) newStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [FILE]",
		Short: "Show the host's ports, VFs, virtual machines and switches",
		Long: `Shows the host that the file names (default esxi.yaml): its physical ports with
their VFs, which virtual machine has which VF, and its virtual switches. It
changes nothing.

Phases of a VF: attached (a virtual machine has it), free, and at start (the host
gives the network adapter a VF when its virtual machine starts).

Not verified on ESXi.`,
		Example: `  culvert esxi status esxi.yaml
  culvert esxi status -o json`,
		Args: cobra.MaximumNArgs(1),
	}
	out := cli.AddFormat(cmd, "what to write instead of tables", cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, conn, err := e.openSession(cmd, args)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(cmd.Context()))
		host, err := conn.Observe(cmd.Context())
		if err != nil {
			return err
		}
		if out.IsForPrograms() {
			return cli.Encode(cmd.OutOrStdout(), out.String(), host)
		}
		look := cli.ScreenOf(cmd.OutOrStdout(), e.getenv).Look
		_, err = io.WriteString(cmd.OutOrStdout(), look.Fit(status.Draw(host, look)))
		return err
	}
	return cmd
}

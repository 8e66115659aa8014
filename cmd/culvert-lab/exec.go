package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/lab"
)

func newExecCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "exec NODE -- CMD [ARG]...",
		Short: "Run a command on a node as root",
		Long: `Runs a command on a node with its standard streams, and exits with its status.
The command is not read by a shell: for pipes and globs run 'sh -c'.`,
		Example: `  culvert lab exec worker01 -- ip -d link show enp1s0
  culvert lab exec worker01 -- \
    sh -c 'echo 7 >/sys/class/net/enp1s0/device/sriov_numvfs'
  culvert lab exec worker02 -- tar -x -C /opt <files.tar`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return execOn(cmd.Context(), *name, args[0], lab.Cmd{
				Argv: args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			})
		},
	}
}

func newSSHCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh NODE [-- CMD [ARG]...]",
		Short: "Open a shell on a node",
		Long: `Opens a root shell on a node, or runs a command there, with a terminal if there
is one here.`,
		Example: `  culvert lab ssh worker01
  culvert lab ssh worker01 -- journalctl -f`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := lab.Cmd{Argv: args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
			restore, err := takeTerminal(&c)
			if err != nil {
				return err
			}
			defer restore()
			return execOn(cmd.Context(), *name, args[0], c)
		},
	}
}

func execOn(ctx context.Context, name, node string, c lab.Cmd) error {
	return withLab(name, func(l *lab.Lab) error {
		exit, err := l.Exec(ctx, node, c)
		if err == nil && exit != 0 {
			return cli.ExitStatus(exit)
		}
		return err
	})
}

// takeTerminal gives the caller's terminal, if there is one, to the command. It
// makes the terminal raw, and passes on changes of its size.
func takeTerminal(c *lab.Cmd) (restore func(), err error) {
	in, out := int(os.Stdin.Fd()), int(os.Stdout.Fd())
	if !term.IsTerminal(in) || !term.IsTerminal(out) {
		return func() {}, nil
	}
	old, err := term.MakeRaw(in)
	if err != nil {
		return nil, err
	}
	width, height, err := term.GetSize(out)
	if err != nil {
		width, height = 80, 24
	}
	resized := make(chan os.Signal, 1)
	sizes := make(chan [2]int)
	signal.Notify(resized, syscall.SIGWINCH)
	go func() { // ends with the process
		for range resized {
			if w, h, err := term.GetSize(out); err == nil {
				sizes <- [2]int{w, h}
			}
		}
	}()
	kind := os.Getenv("TERM")
	if kind == "" {
		kind = "vt100"
	}
	c.TTY = &lab.TTY{Term: kind, Width: width, Height: height, Resized: sizes}
	return func() { _ = term.Restore(in, old) }, nil
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/culvert-net/culvert/internal/esxi/vsphere"
)

func (e *esxi) newLoginCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "login [FILE]",
		Short: "Begin a session with the server, for the commands that follow",
		Long: `Begins a session with the server of the file (default esxi.yaml), and saves it for
the commands that follow. It asks for the password on the terminal, or reads one
line of standard input.

It saves the session's cookie and not the password, in ~/.config/culvert/esxi, in
a file that only you can read. The server ends the session when it was not used
for half an hour, at culvert esxi logout, and when an ESXi host restarts.

Not verified on ESXi.`,
		Example: `  culvert esxi login esxi.yaml --user root`,
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&user, "user", "root", "the user's name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec, err := readSpec(cmd, args)
		if err != nil {
			return err
		}
		source, err := e.findSource()
		if err != nil {
			return err
		}
		login := vsphere.Login{User: user}
		if e.credentials != "" {
			login, err = source.Find(spec.Server)
		} else {
			login.Password, err = askPassword(cmd, fmt.Sprintf("Password of %s on %s: ", user, spec.Server))
		}
		if err != nil {
			return err
		}
		conn, err := vsphere.Dial(cmd.Context(), spec, login)
		if err != nil {
			return err
		}
		cookie := conn.SessionCookie()
		if cookie == "" {
			conn.Close(context.WithoutCancel(cmd.Context()))
			return errors.New("the server gave the session no cookie, so it cannot be saved: use --credentials")
		}
		if err := source.Save(spec.Server, login.User, cookie); err != nil {
			conn.Close(context.WithoutCancel(cmd.Context()))
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "Logged in to %s as %s.\n", spec.Server, login.User)
		return nil
	}
	return cmd
}

// askPassword reads a password, without showing it where the input is a terminal.
func askPassword(cmd *cobra.Command, prompt string) (string, error) {
	if in, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		fmt.Fprint(cmd.ErrOrStderr(), prompt)
		password, err := term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(cmd.ErrOrStderr())
		return string(password), err
	}
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", fmt.Errorf("standard input has no password: %w", errors.Join(err))
	}
	return line, nil
}

func (e *esxi) newLogoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "logout [FILE]",
		Short:   "End the session that culvert esxi login began",
		Long:    `Ends the saved session with the server of the file (default esxi.yaml).`,
		Example: `  culvert esxi logout esxi.yaml`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := readSpec(cmd, args)
			if err != nil {
				return err
			}
			source, err := e.findSource()
			if err != nil {
				return err
			}
			source.File, source.Getenv = "", func(string) string { return "" } // the saved login only
			login, err := source.Find(spec.Server)
			if err != nil {
				return err
			}
			conn, err := vsphere.Dial(cmd.Context(), spec, login)
			if err == nil {
				err = conn.Logout(cmd.Context())
			}
			if errors.Is(err, vsphere.ErrLogin) {
				err = nil // the server has ended it already
			}
			return errors.Join(err, source.Forget(spec.Server))
		},
	}
}

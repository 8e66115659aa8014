package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/esxi/apply"
	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/plan"
)

// madeName returns the file that lists what Culvert has made, beside the file that says it.
func madeName(args []string) string { return fileName(args) + ".made" }

// withoutParts returns the file of a host on which Culvert has nothing.
func withoutParts(s file.Spec) file.Spec {
	return file.Spec{Server: s.Server, Thumbprint: s.Thumbprint, CAFile: s.CAFile, Host: s.Host}
}

func (e *esxi) newPlanCommand() *cobra.Command {
	remove := false
	cmd := &cobra.Command{
		Use:   "plan [FILE]",
		Short: "Show the changes that apply would make, and whom they hurt",
		Long: `Compares the file (default esxi.yaml) with the host, and shows the changes as a
diff: + is added, - is removed, ~ is changed. A line with ! says whom a change
hurts. It changes nothing.

A refusal says why apply would touch nothing, with the next step. A virtual
machine may be on, a port may have too few VFs, or its VFs may be in use. The exit
status is then 1. docs/esxi.md lists the refusals.

Not verified on ESXi.`,
		Example: `  culvert esxi plan esxi.yaml
  culvert esxi plan esxi.yaml --remove`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "show the changes of remove")
	out := cli.AddFormat(cmd, "what to write instead of text", cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, p, end, err := e.makePlan(cmd, args, remove, false)
		if err != nil {
			return err
		}
		defer end()
		if out.IsForPrograms() {
			err = cli.Encode(cmd.OutOrStdout(), out.String(), p)
		} else {
			err = e.drawPlan(cmd, p)
		}
		if err == nil && len(p.Refusals) > 0 {
			return cli.ExitStatus(1)
		}
		return err
	}
	return cmd
}

func (e *esxi) drawPlan(cmd *cobra.Command, p plan.Plan) error {
	look := cli.ScreenOf(cmd.OutOrStdout(), e.getenv).Look
	_, err := io.WriteString(cmd.OutOrStdout(), look.Fit(plan.Draw(p, look)))
	return err
}

// makePlan begins a session and plans. With hold, other runs of this machine stay away from the file and
// the host until end, which ends the session.
func (e *esxi) makePlan(cmd *cobra.Command, args []string, remove, hold bool) (r *apply.Run, p plan.Plan, end func(), err error) {
	spec, conn, err := e.openSession(cmd, args)
	if err != nil {
		return nil, p, nil, err
	}
	end = func() { conn.Close(context.WithoutCancel(cmd.Context())) }
	conn.Poll = e.poll / 5
	if remove {
		spec = withoutParts(spec)
	}
	r = &apply.Run{Host: conn, Path: madeName(args), Out: cmd.OutOrStdout(), Poll: e.poll, Patience: 30 * time.Minute}
	if hold {
		release, err := r.Hold(cmd.Context(), spec)
		if err != nil {
			end()
			return nil, p, nil, err
		}
		closeSession := end
		end = func() {
			closeSession()
			release()
		}
	}
	if p, err = r.Plan(cmd.Context(), spec); err != nil {
		end()
	}
	return r, p, end, err
}

func (e *esxi) newApplyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Bring the host to what the file says",
		Long: `Shows the plan for the file (default esxi.yaml) and does it. It looks at the host
after each change. If it is cut off, the next run finishes, or says what is left.
Where the host is as the file says already, nothing changes.

It asks before a reboot, for which it puts the host into maintenance mode and
takes it out again. --reboot answers yes. With a refusal in the plan, it touches
nothing. On one machine, only one apply or remove at a time works on a file or a
host.

FILE.made lists what Culvert has made, and how it was before. Keep it beside the
file: culvert esxi remove takes away what is in that list. apply also takes away
the parts that the file has no more.

An ESXi host ends the session of a saved login as it restarts. Then log in and run
apply again, or give --credentials.

Not verified on ESXi.`,
		Example: `  culvert esxi apply esxi.yaml
  culvert esxi apply esxi.yaml --reboot`,
		Args: cobra.MaximumNArgs(1),
	}
	e.runPlan(cmd, false)
	return cmd
}

func (e *esxi) newRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove [FILE]",
		Short: "Take away all that apply has made",
		Long: `Takes away what apply has made for the file (default esxi.yaml), by the list in
FILE.made: the VFs of virtual machines, port groups, virtual switches, and the VFs
of ports. It puts the ports and the reserved memory back as they were before.
Everything else on the host stays.

It asks before a reboot, as apply does. Port groups that others use and changes by
others are named, and stay.

Not verified on ESXi.`,
		Example: `  culvert esxi remove esxi.yaml`,
		Args:    cobra.MaximumNArgs(1),
	}
	e.runPlan(cmd, true)
	return cmd
}

// runPlan makes cmd the command that shows a plan and does it.
func (e *esxi) runPlan(cmd *cobra.Command, remove bool) {
	reboot := cmd.Flags().Bool("reboot", false, "allow a reboot of the host without a question")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, p, end, err := e.makePlan(cmd, args, remove, true)
		if err != nil {
			return err
		}
		defer end()
		if err := e.drawPlan(cmd, p); err != nil {
			return err
		}
		if len(p.Refusals) > 0 {
			return cli.ExitStatus(1)
		}
		fmt.Fprintln(cmd.OutOrStdout())
		r.AllowReboot = func(host string) (bool, error) { return *reboot, nil }
		if !*reboot {
			r.AllowReboot = func(host string) (bool, error) { return askReboot(cmd, host) }
		}
		if err := r.Apply(cmd.Context(), p); err != nil {
			return err
		}
		if remove {
			fmt.Fprintf(cmd.OutOrStdout(), "Nothing of %s is left on host %s.\n", fileName(args), p.Host)
			return nil
		}
		fmt.Fprintf(cmd.OutOrStdout(), "Host %s is as %s says.\n", p.Host, fileName(args))
		return nil
	}
}

func askReboot(cmd *cobra.Command, host string) (bool, error) {
	fmt.Fprintf(cmd.ErrOrStderr(), "Reboot host %s? [y/N] ", host)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	if answer == "" && err != nil {
		return false, fmt.Errorf("%w: nothing was touched; answer y, or give --reboot", apply.ErrReboot)
	}
	if answer != "y" && answer != "yes" {
		return false, fmt.Errorf("%w: answer y, or give --reboot", apply.ErrReboot)
	}
	return true, nil
}

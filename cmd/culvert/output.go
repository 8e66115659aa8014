package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/culvert-net/culvert/status/text"
)

// output is the -o flag of a command that shows something. It is a
// pflag.Value.
type output struct {
	format  string
	formats []string
}

// addOutput gives cmd the flag; withWide if there are more columns to show.
func addOutput(cmd *cobra.Command, withWide bool) *output {
	formats := []string{text.JSON, text.YAML}
	if withWide {
		formats = append(formats, text.Wide)
	}
	return addFormats(cmd, "what to write instead of a table", formats...)
}

// addFormats gives cmd a flag with formats of its own.
func addFormats(cmd *cobra.Command, what string, formats ...string) *output {
	o := &output{formats: formats}
	cmd.Flags().VarP(o, "output", "o", what+": "+strings.Join(formats, ", "))
	err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.formats, cobra.ShellCompDirectiveNoFileComp))
	cobra.CheckErr(err) // only if the flag were not there
	return o
}

func (o *output) String() string { return o.format }
func (o *output) Type() string   { return "format" }

func (o *output) Set(s string) error {
	for _, f := range o.formats {
		if s == f {
			o.format = s
			return nil
		}
	}
	return fmt.Errorf("want %s", strings.Join(o.formats, " or "))
}

func (o *output) forPrograms() bool { return o.format == text.JSON || o.format == text.YAML }

// write writes value for programs, or what draw makes of it for people.
func (o *output) write(cmd *cobra.Command, value any, draw func(text.Options) string) error {
	if o.forPrograms() {
		return text.Encode(cmd.OutOrStdout(), o.format, value)
	}
	_, err := io.WriteString(cmd.OutOrStdout(), draw(o.options(cmd)))
	return err
}

// options is how to draw on the command's output: as wide as the terminal, in
// colour on one unless NO_COLOR is set (no-color.org), with block characters
// where the locale is UTF-8.
func (o *output) options(cmd *cobra.Command) text.Options {
	opts := text.Options{Width: 100, Unicode: isUTF8(os.Getenv), Wide: o.format == text.Wide, Zone: time.Local}
	out, ok := cmd.OutOrStdout().(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return opts
	}
	if width, _, err := term.GetSize(int(out.Fd())); err == nil && width >= 40 {
		opts.Width = width
	}
	opts.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return opts
}

// isUTF8 reads the locale as setlocale(3) does: the first that is set.
func isUTF8(getenv func(string) string) bool {
	for _, key := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(key); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

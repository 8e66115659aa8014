package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// Format is the value of a command's flag -o: one of the formats that the command
// has, or [Table].
type Format struct {
	value string
	known []string
}

// AddFormat gives cmd the flag -o with the formats that it has besides [Table].
func AddFormat(cmd *cobra.Command, usage string, formats ...string) *Format {
	f := &Format{known: formats}
	cmd.Flags().VarP(f, "output", "o", usage+": "+strings.Join(formats, ", "))
	completeWords(cmd, "output", formats)
	return f
}

func (f *Format) String() string { return f.value }

// Type returns the word for the value in help texts, as pflag asks for it.
func (f *Format) Type() string { return "format" }

// Set takes one of the formats.
func (f *Format) Set(s string) error {
	f.value = s
	return checkWord(s, f.known)
}

// IsForPrograms reports whether the format is JSON, YAML or JSON lines.
func (f *Format) IsForPrograms() bool { return f.value == JSON || f.value == YAML || f.value == JSONL }

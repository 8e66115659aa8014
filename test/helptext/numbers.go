package helptext

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CheckNumbers fails the test for each flag of root and the commands below it whose value is a number
// or a time without bounds: such a flag takes -1, or a week. Package cli has flags with bounds.
func CheckNumbers(t *testing.T, root *cobra.Command) {
	t.Helper()
	check := func(f *pflag.Flag) {
		switch kind := f.Value.Type(); {
		case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"), strings.HasPrefix(kind, "float"), kind == "count":
			t.Errorf("%s --%s takes any number: give it bounds with cli.AddCount or cli.AddNumber", root.CommandPath(), f.Name)
		case kind == "duration":
			if f.Value.Set("-1s") == nil {
				t.Errorf("%s --%s takes any time: give it bounds with cli.AddTime", root.CommandPath(), f.Name)
			}
		}
	}
	root.LocalFlags().VisitAll(check)
	for _, sub := range root.Commands() {
		CheckNumbers(t, sub)
	}
}

package promises

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Make returns `make ARGUMENT...` in the source tree at top. If make runs the tests,
// the command gets neither the flags nor the variables of that make. Labs of other tests may have
// the memory that the target would ask for, so FORCE is set.
func Make(ctx context.Context, top string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "make", append([]string{"--no-print-directory", "-C", top}, args...)...)
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL":
		default:
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "FORCE=1")
	return cmd
}

// Run runs a command, shows its output as it comes, since a demo takes long, and
// returns the output.
func Run(cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	w := io.MultiWriter(os.Stdout, &out)
	cmd.Stdout, cmd.Stderr = w, w
	err := cmd.Run()
	return out.String(), err
}

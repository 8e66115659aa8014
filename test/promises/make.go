package promises

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Make returns `make ARGUMENT...` in the source tree at top. It is not a part of the
// make that may be running the tests: it takes neither its flags nor its variables.
func Make(ctx context.Context, top string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "make", append([]string{"--no-print-directory", "-C", top}, args...)...)
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL":
		default:
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}

// Run runs a command and shows what it prints as it comes, since a demo takes long. It
// returns that too.
func Run(cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	w := io.MultiWriter(os.Stdout, &out)
	cmd.Stdout, cmd.Stderr = w, w
	err := cmd.Run()
	return out.String(), err
}

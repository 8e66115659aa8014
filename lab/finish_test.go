//go:build lab

package lab

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// TestFinish: a lab whose Finish fails leaves nothing, not even the programs
// that Finish started and the processes of these.
func TestFinish(t *testing.T) {
	const name = "t-finish"
	leavesNothing(t, name)
	refused := errors.New("not good enough")
	var seen []Program
	_, err := Up(t.Context(), Options{
		Name: name, Names: []string{"other"}, Progress: os.Stderr,
		Finish: func(ctx context.Context, l *Lab, step func(string, ...any)) error {
			step("finishing")
			if err := l.Run(ctx, Program{Name: "one", Argv: []string{"bash", "-c", `(exec -a "$0" sleep 1000) & wait`, l.Folder()}}); err != nil {
				return err
			}
			st, err := l.Status()
			if err != nil {
				return err
			}
			seen = st.Programs
			var out strings.Builder
			if exit, err := l.Exec(ctx, "other", Cmd{Argv: []string{"hostname"}, Stdout: &out}); err != nil || exit != 0 || out.String() != "other\n" {
				t.Errorf("the node other calls itself %q: %d, %v", out.String(), exit, err)
			}
			return refused
		},
	})
	if !errors.Is(err, refused) {
		t.Errorf("want %v, got %v", refused, err)
	}
	if len(seen) != 1 || seen[0].PID == 0 {
		t.Errorf("programs: %+v", seen)
	}
}

// Package parts finds programs of other projects that the lab, the demo and the
// tests run. In go a source tree and the name of a module below its test/tools;
// out comes the folder that has the programs, built by tools/part if the cache
// had none. Labs run side by side, so that the cache is only ever read.
package parts

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find returns the folder with the programs of one module below test/tools. tools/part builds
// the programs if the cache does not have them; step receives each line of its output.
func Find(ctx context.Context, top, name string, step func(format string, args ...any)) (string, error) {
	return run(ctx, top, "part", name, step)
}

// Fetch returns the folder with a tree of Debian's packages that a script of tools makes: tools/NAME.
func Fetch(ctx context.Context, top, name string, step func(format string, args ...any)) (string, error) {
	return run(ctx, top, name, "", step)
}

// run runs a script of tools that prints the folder of a part. Lines of its standard error that begin
// with the script's name are steps.
func run(ctx context.Context, top, script, name string, step func(format string, args ...any)) (string, error) {
	tool := filepath.Join(top, "tools", script)
	what := strings.TrimSpace(script + " " + name)
	if _, err := os.Stat(tool); err != nil {
		return "", fmt.Errorf("find the %s: %w: %s is not Culvert's source tree", what, err, top)
	}
	cmd := exec.CommandContext(ctx, tool, strings.Fields(name)...)
	var place bytes.Buffer
	cmd.Stdout = &place
	errs, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("find the part %s: %w", name, err)
	}
	var last []string
	for in := bufio.NewScanner(errs); in.Scan(); {
		if said, ok := strings.CutPrefix(in.Text(), script+": "); ok {
			step("%s", said)
		} else if last = append(last, in.Text()); len(last) > 15 {
			last = last[1:]
		}
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("find the %s: %w\n%s", what, errors.Join(err, ctx.Err()), strings.Join(last, "\n"))
	}
	return strings.TrimSpace(place.String()), nil
}

// Copy puts a program of the cache at a place of a tree that becomes a node's.
// It makes the folders above it. The copy is a file of its own: a hard link
// would change the ctime of the cache's file, and the tar of another lab that
// reads it just then would end with "file changed as we read it".
func Copy(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

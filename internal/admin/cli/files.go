package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"
)

// ReadFile reads a file that a command line names; - is the command's standard input.
func ReadFile(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		content, err := io.ReadAll(cmd.InOrStdin())
		if err != nil {
			return nil, fmt.Errorf("standard input: %w: name a file in its place", err)
		}
		return content, nil
	}
	content, err := os.ReadFile(name)
	return content, ExplainFile(name, err)
}

// ExplainFile completes an error of opening or reading the file with that name: it names the file,
// the problem and the next step. It returns nil for nil.
func ExplainFile(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: name a file that is there", name, syscall.ENOENT)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w: read it as root (sudo), or name a file of yours", name, syscall.EACCES)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%s: %w: name a file in it", name, syscall.EISDIR)
	}
	return err
}

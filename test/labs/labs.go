// Package labs names the labs of tests after the process that runs them, so that two
// runs at once do not meet, and takes down those of runs that were killed.
package labs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/culvert-net/culvert/lab"
)

// Name is the name of a lab of this process.
func Name(prefix string) string { return fmt.Sprintf("%s-%d", prefix, os.Getpid()) }

// ClearDead takes down the labs with that prefix whose process is gone. L is a lab that
// is up: the others are beside it.
func ClearDead(ctx context.Context, l *lab.Lab, prefix string) error {
	st, err := l.Status()
	if err != nil {
		return err
	}
	others, err := filepath.Glob(filepath.Join(filepath.Dir(st.RunDir), prefix+"-*"))
	for _, other := range others {
		name := filepath.Base(other)
		pid, numberErr := strconv.Atoi(strings.TrimPrefix(name, prefix+"-"))
		if numberErr == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			err = errors.Join(err, lab.Down(ctx, name))
		}
	}
	return err
}

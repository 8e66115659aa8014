// Package labs names the labs of tests after the process that runs them, so that two
// runs at once do not share a lab. It takes down the labs of runs that were killed.
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

// Name returns the name of a lab of this process.
func Name(prefix string) string { return fmt.Sprintf("%s-%d", prefix, os.Getpid()) }

// ClearDead takes down the labs with that prefix whose process is gone. l is a lab that
// is up; the run folders of the others are beside its own.
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

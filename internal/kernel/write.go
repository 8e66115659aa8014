package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// writes remembers the writes to sysfs that are under way, so that a retry does not leave one
// more thread hanging in the kernel.
type writes struct {
	mu    sync.Mutex // guards begun
	begun map[string]time.Time
}

// stuckAfter is the age at which a write counts as stuck. To bind a VF whose PF is not ready
// takes 4 s; to make 256 VFs takes some 10 s.
const stuckAfter = 30 * time.Second

// beginWrite notes the beginning of a write. If the same write has been under way for longer than
// stuckAfter, it returns for how long, otherwise 0.
func (w *writes) beginWrite(what string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if since, busy := w.begun[what]; !busy {
		w.begun[what] = now
	} else if age := now.Sub(since); age > stuckAfter {
		return age
	}
	return 0
}

func (w *writes) endWrite(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.begun, what)
}

// writeSysfs writes to a sysfs file. The file must be there. A write may take seconds or never
// come back; Do bounds the time for the caller, and does not repeat a write while the same write
// is stuck.
func (k *Kernel) writeSysfs(path, value string) error {
	what := path + "=" + value
	if age := k.writes.beginWrite(what); age > 0 {
		return fmt.Errorf("an earlier write to %s is stuck in the kernel since %s: %w", path, age.Round(time.Second), vf.ErrTimeout)
	}
	defer k.writes.endWrite(what)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// explainRefusal explains why the PF's driver refused a setting, and wraps the error in
// vf.ErrUnable. EOPNOTSUPP means that the driver lacks the setting. EINVAL, ERANGE and
// EPROTONOSUPPORT mean that it refuses the value, for good or for now (igb accepts a rate only
// while its link is up).
func explainRefusal(driver string, err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %s has no such setting: %w", vf.ErrUnable, driver, err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("%w: %s lacks the setting or refuses this value as things are: %w", vf.ErrUnable, driver, err)
	}
	return err
}

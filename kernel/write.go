package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/vf"
)

// writes knows what is being written to sysfs, so that a retry does not leave
// one more thread hanging in the kernel.
type writes struct {
	mu    sync.Mutex // guards begun
	begun map[string]time.Time
}

// stuckAfter is the age at which a write counts as stuck. Binding a VF whose
// PF is not ready takes 4 s; making 256 VFs some ten.
const stuckAfter = 30 * time.Second

// begin reports for how long the same write has been under way; 0 when it is
// not, or not for so long that it would be stuck.
func (w *writes) begin(what string) time.Duration {
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

func (w *writes) end(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.begun, what)
}

// write writes to a sysfs file. The file must be there. A write may take
// seconds or never come back; Do bounds it for the caller, and while one write
// is stuck the same is not tried again.
func (k *Kernel) write(path, value string) error {
	what := path + "=" + value
	if age := k.writes.begin(what); age > 0 {
		return fmt.Errorf("an earlier write to %s is stuck in the kernel since %s: %w", path, age.Round(time.Second), vf.ErrTimeout)
	}
	defer k.writes.end(what)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// refused says in words why the PF's driver did not take a setting, and marks
// it vf.ErrUnable: EOPNOTSUPP where it lacks the setting, EINVAL, ERANGE and
// EPROTONOSUPPORT where it has it and refuses the value, either for good or
// for now (igb takes a rate only while its link is up).
func refused(driver string, err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %s has no such setting: %w", vf.ErrUnable, driver, err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("%w: %s lacks the setting or refuses this value as things are: %w", vf.ErrUnable, driver, err)
	}
	return err
}

package kernel

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/vf"
)

// write writes to a sysfs file. The file must be there. A write may take
// seconds or never come back; the caller is bounded by Do, and while one write
// to a file is stuck another is refused.
func (k *Kernel) write(path, value string) error {
	if !k.stuck.enter(path) {
		return fmt.Errorf("an earlier write to %s is still in the kernel: %w", path, vf.ErrTimeout)
	}
	defer k.stuck.leave(path)
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

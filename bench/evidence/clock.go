package evidence

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Now reads CLOCK_MONOTONIC: the time since some moment that is the same for all
// processes of one machine. Setting the machine's date does not move it. Processes in
// a time namespace (time_namespaces(7)) of their own may see another one.
func Now() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ReadLog returns the kernel's log: all lines that its buffer still has (syslog(2),
// SYSLOG_ACTION_READ_ALL). It needs root or CAP_SYSLOG where kernel.dmesg_restrict is set.
func ReadLog() ([]byte, error) {
	const readAll, size = 3, 10
	n, err := unix.Klogctl(size, nil)
	if err != nil {
		return nil, fmt.Errorf("read the kernel's log: %w", err)
	}
	text := make([]byte, n)
	if n, err = unix.Klogctl(readAll, text); err != nil {
		return nil, fmt.Errorf("read the kernel's log: %w", err)
	}
	return text[:n], nil
}

package support

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// always are words of the kernel's messages about PCIe, the IOMMU and vfio, wherever they come from.
var always = []string{"AER", "DMAR", "AMD-Vi", "iommu", "vfio", "SR-IOV", "tx timeout", "NETDEV WATCHDOG"}

// KernelMessages returns the lines of the kernel's log that have one of some words, such as names,
// PCI addresses and drivers of PFs (syslog(2), SYSLOG_ACTION_READ_ALL).
func KernelMessages(words []string) ([]byte, error) {
	const readAll, size = 3, 10
	n, err := unix.Klogctl(size, nil)
	if err != nil {
		return nil, fmt.Errorf("read the kernel's log: %w", err)
	}
	text := make([]byte, n)
	if n, err = unix.Klogctl(readAll, text); err != nil {
		return nil, fmt.Errorf("read the kernel's log: %w", err)
	}
	return pickLines(string(text[:n]), append(words, always...)), nil
}

// pickLines returns the lines that have one of some words.
func pickLines(text string, words []string) []byte {
	var out strings.Builder
	for line := range strings.Lines(text) {
		for _, word := range words {
			if word != "" && strings.Contains(line, word) {
				out.WriteString(line)
				break
			}
		}
	}
	return []byte(out.String())
}

package support

import "strings"

// always are words of the kernel's messages about PCIe, the IOMMU and vfio, wherever they come from.
var always = []string{"AER", "DMAR", "AMD-Vi", "iommu", "vfio", "SR-IOV", "tx timeout", "NETDEV WATCHDOG"}

// PickMessages returns the lines of the kernel's log that have one of some words, such as names, PCI
// addresses and drivers of PFs, and those about PCIe, the IOMMU and vfio.
func PickMessages(log string, words []string) []byte {
	var out strings.Builder
	for line := range strings.Lines(log) {
		for _, word := range append(words, always...) {
			if word != "" && strings.Contains(line, word) {
				out.WriteString(line)
				break
			}
		}
	}
	return []byte(out.String())
}

package cni

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/culvert-net/culvert/api"
)

// longestIfName is IFNAMSIZ without the final zero (linux/if.h).
const longestIfName = 15

// attachment checks what names an attachment: CNI_CONTAINERID and CNI_IFNAME.
// The error wraps errEnvironment and names the variable.
func attachment(r api.CNIRequest) error {
	switch n := r.IfName; {
	case !isIdentifier(r.ContainerID):
		return fmt.Errorf("%w CNI_CONTAINERID %q: want a letter or digit, then letters, digits, '_', '.' and '-'", errEnvironment, r.ContainerID)
	case n == "" || n == "." || n == ".." || len(n) > longestIfName || strings.ContainsFunc(n, notInIfName):
		return fmt.Errorf("%w CNI_IFNAME %q: want an interface name of 1 to %d bytes, without '/', ':' and blanks", errEnvironment, n, longestIfName)
	}
	return nil
}

// sandbox checks CNI_NETNS: a path, or nothing where the VF goes to vfio.
func sandbox(r api.CNIRequest) error {
	if n := r.Netns; n != "" && (!filepath.IsAbs(n) || strings.ContainsRune(n, 0)) {
		return fmt.Errorf("%w CNI_NETNS %q: want the path of a network namespace, e.g. /run/netns/pod", errEnvironment, n)
	}
	return nil
}

// notInIfName follows the kernel's dev_valid_name (net/core/dev.c).
func notInIfName(r rune) bool { return r == '/' || r == ':' || r <= ' ' || r == 0x7f }

// isIdentifier reports whether s has the form that the specification wants of
// container IDs and network names.
func isIdentifier(s string) bool {
	for i, r := range s {
		alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alphanumeric && (i == 0 || !strings.ContainsRune("_.-", r)) {
			return false
		}
	}
	return s != ""
}

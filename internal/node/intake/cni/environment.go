package cni

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// longestIfName is IFNAMSIZ without the final zero (linux/if.h).
const longestIfName = 15

// longestName bounds container IDs and the names of networks and pods:
// Kubernetes' own have at most 253 characters (RFC 1123), and container IDs 64.
const longestName = 253

// longestPath is PATH_MAX without the final zero (linux/limits.h).
const longestPath = 4095

const wantName = "want a letter or digit, then letters, digits, '_', '.' and '-'"

// Valid checks the variables by which the runtime describes an attachment: CNI_CONTAINERID,
// CNI_IFNAME and CNI_NETNS.
func Valid(r api.CNIRequest) error { return errors.Join(checkAttachment(r), checkSandbox(r)) }

// ValidNames checks a request like Valid, for a command that needs no sandbox: DEL.
func ValidNames(r api.CNIRequest) error { return checkAttachment(r) }

// checkAttachment checks the variables that name an attachment: CNI_CONTAINERID and CNI_IFNAME. The
// error wraps errEnvironment and names the variable.
func checkAttachment(r api.CNIRequest) error {
	switch {
	case !isIdentifier(r.ContainerID):
		return fmt.Errorf("%w CNI_CONTAINERID %s: %s, at most %d", errEnvironment, excerpt.Quote(r.ContainerID), wantName, longestName)
	case !isIfName(r.IfName):
		return fmt.Errorf("%w CNI_IFNAME %s: want an interface name of 1 to %d bytes, without '/', ':', '%%' and blanks", errEnvironment, excerpt.Quote(r.IfName), longestIfName)
	}
	return nil
}

// checkSandbox checks CNI_NETNS: a path without detours.
func checkSandbox(r api.CNIRequest) error {
	n := r.Netns
	detour := slices.Contains(strings.Split(n, "/"), "..")
	if !filepath.IsAbs(n) || detour || len(n) > longestPath || strings.ContainsFunc(n, unicode.IsControl) {
		return fmt.Errorf("%w CNI_NETNS %s: want the path of a network namespace, e.g. /run/netns/pod", errEnvironment, excerpt.Quote(n))
	}
	return nil
}

// isIfName follows the kernel: dev_valid_name, sysctl_dev_name_is_allowed, and
// dev_alloc_name, which makes a name of a pattern with '%' (net/core/dev.c).
func isIfName(n string) bool {
	switch n {
	case "", ".", "..", "all", "default":
		return false
	}
	return len(n) <= longestIfName && utf8.ValidString(n) && !strings.ContainsFunc(n, func(r rune) bool {
		return strings.ContainsRune("/:%", r) || r <= ' ' || unicode.IsControl(r)
	})
}

// isIdentifier reports whether s has the form that the specification wants of
// container IDs and network names, and is no longer than longestName.
func isIdentifier(s string) bool {
	if len(s) > longestName {
		return false
	}
	for i, r := range s {
		alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alphanumeric && (i == 0 || !strings.ContainsRune("_.-", r)) {
			return false
		}
	}
	return s != ""
}

package config

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// LongestIfName is IFNAMSIZ without the final zero (linux/if.h).
const LongestIfName = 15

// LongestName bounds container IDs and the names of networks and pods. Those of Kubernetes have at
// most 253 characters (RFC 1123), and container IDs 64.
const LongestName = 253

// WantName is the form of a name in messages.
const WantName = "want a letter or digit, then letters, digits, '_', '.' and '-'"

// IsIfName reports whether n can be the name of an interface. It follows the kernel:
// dev_valid_name, sysctl_dev_name_is_allowed, and dev_alloc_name, which makes a name of a pattern
// with '%' (net/core/dev.c).
func IsIfName(n string) bool {
	switch n {
	case "", ".", "..", "all", "default":
		return false
	}
	return len(n) <= LongestIfName && utf8.ValidString(n) && !strings.ContainsFunc(n, func(r rune) bool {
		return strings.ContainsRune("/:%", r) || r <= ' ' || unicode.IsControl(r)
	})
}

// IsName reports whether s has the form that the specification wants of
// container IDs and network names, and is no longer than LongestName.
func IsName(s string) bool {
	if len(s) > LongestName {
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

package cni

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
)

// longestPath is PATH_MAX without the final zero (linux/limits.h).
const longestPath = 4095

// Valid checks the variables by which the runtime describes an attachment: CNI_CONTAINERID,
// CNI_IFNAME and CNI_NETNS.
func Valid(r api.CNIRequest) error { return errors.Join(checkAttachment(r), checkSandbox(r)) }

// ValidNames checks a request like Valid, for a command that needs no sandbox: DEL.
func ValidNames(r api.CNIRequest) error { return checkAttachment(r) }

// checkAttachment checks the variables that name an attachment: CNI_CONTAINERID and CNI_IFNAME. The
// error wraps errEnvironment and names the variable.
func checkAttachment(r api.CNIRequest) error {
	switch {
	case !config.IsName(r.ContainerID):
		return fmt.Errorf("%w CNI_CONTAINERID %s: %s, at most %d", errEnvironment, excerpt.Quote(r.ContainerID), config.WantName, config.LongestName)
	case !config.IsIfName(r.IfName):
		return fmt.Errorf("%w CNI_IFNAME %s: want an interface name of 1 to %d bytes, without '/', ':', '%%' and blanks", errEnvironment, excerpt.Quote(r.IfName), config.LongestIfName)
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

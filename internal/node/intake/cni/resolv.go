package cni

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// resolvDirs returns the folders in which a network's resolvConf may be, after links are followed.
// The author of a network is often a tenant, and culvertd reads the file as root. Only root may
// write to these folders.
func resolvDirs() []string {
	return []string{"/etc", "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf"}
}

// findDNS returns the DNS of a result: the network's dns section, else that of
// ipam, else the file that ipam.resolvConf names, which is in one of dirs.
func findDNS(c config.Config, dirs []string) (ipam.DNS, error) {
	switch {
	case !c.DNS.IsZero():
		return c.DNS, nil
	case !c.IPAM.DNS.IsZero() || c.IPAM.ResolvConf == "":
		return c.IPAM.DNS, nil
	}
	f, err := openResolvConf(c.IPAM.ResolvConf, dirs)
	if err != nil {
		return ipam.DNS{}, fmt.Errorf("ipam.resolvConf %s: %w: %w", excerpt.Quote(c.IPAM.ResolvConf), vf.ErrInvalid, err)
	}
	defer f.Close()
	return readResolvConf(f)
}

// openResolvConf opens a file in or below one of dirs. For a file elsewhere it does not reveal
// whether it exists.
func openResolvConf(path string, dirs []string) (*os.File, error) {
	outside := fmt.Errorf("want the path of a file below %s", strings.Join(dirs, ", "))
	if !filepath.IsAbs(path) || !isWithin(dirs, filepath.Clean(path)) {
		return nil, outside
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, errors.Unwrap(err) // not with the path of a link's target
	}
	if !isWithin(dirs, target) {
		return nil, outside
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	}
	return os.Open(target)
}

func isWithin(dirs []string, path string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
}

// readResolvConf reads the form of resolv.conf(5), at most netconf.MaxText of it. Lines of another
// form are left out.
func readResolvConf(r io.Reader) (ipam.DNS, error) {
	var d ipam.DNS
	lines := bufio.NewScanner(io.LimitReader(r, netconf.MaxText))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || slices.ContainsFunc(words, isNoWord) {
			continue
		}
		switch words[0] {
		case "nameserver":
			if _, err := netip.ParseAddr(words[1]); err == nil {
				d.Nameservers = append(d.Nameservers, words[1])
			}
		case "domain":
			d.Domain = words[1]
		case "search":
			d.Search = words[1:]
		case "options":
			d.Options = append(d.Options, words[1:]...)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) { // a line of 64 KiB has another form, too
		return d, err
	}
	return d, nil
}

// isNoWord reports whether s is longer than a domain name, or has characters that a terminal would
// act upon.
func isNoWord(s string) bool {
	return len(s) > config.LongestName+1 || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar })
}

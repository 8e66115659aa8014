package desired

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/vf"
)

// maxVFs is as many as TotalVFs can say (PCI-SIG SR-IOV 1.1, 3.3.6: 16 bits).
const maxVFs = 1<<16 - 1

var pfKeys = []string{"name", "mac", "pciAddress", "vendor", "device", "driver", "vfs", "mtu", "autoprobe", "needCarrier"}

const (
	wantPCI = "a PCI address such as 0000:3b:00.1"
	wantHex = "four hexadecimal digits such as 8086"
)

func (r *reader) pf(v at) PFRule {
	rule := PFRule{Want: PFSpec{Autoprobe: true, NeedCarrier: true, From: r.from(v)}}
	fields, ok := r.fields(v, pfKeys...)
	if !ok {
		return rule
	}
	read := func(key string, f func(at)) bool {
		field, ok := fields[key]
		if ok {
			f(field)
		}
		return ok
	}
	named := []bool{
		read("name", func(f at) {
			rule.Name = parsed(r, f, "a netdevice name such as enp1s0f0, or a pattern such as enp1s0f*", parsePattern)
		}),
		read("mac", func(f at) {
			rule.MAC = parsed(r, f, "the PF's permanent MAC address, e.g. 90:e2:ba:00:00:01", vf.ParseMAC)
		}),
		read("pciAddress", func(f at) { rule.PCI = parsed(r, f, wantPCI, vf.ParsePCIAddr) }),
		read("vendor", func(f at) { rule.Vendor = parsed(r, f, wantHex, parseHex) }),
		read("device", func(f at) { rule.Device = parsed(r, f, wantHex, parseHex) }),
		read("driver", func(f at) { rule.Driver = parsed(r, f, "a driver's name such as igb", parseDriver) }),
	}
	if !slices.Contains(named, true) {
		r.fail(v, "which PFs? Write name, mac, pciAddress, vendor, device or driver")
	}
	if !read("vfs", func(f at) { rule.Want.VFs = parsed(r, f, "a number from 0 to 65535, or max", parseVFs) }) {
		r.fail(v, "vfs is missing: write how many, 0 for none, or max")
	}
	read("mtu", func(f at) { rule.Want.MTU = parsed(r, f, "bytes from 68 to 65535, e.g. 9000", parseMTU) })
	read("autoprobe", func(f at) { rule.Want.Autoprobe = r.boolean(f) })
	read("needCarrier", func(f at) { rule.Want.NeedCarrier = r.boolean(f) })
	return rule
}

var errOutside = errors.New("outside its range")

func parseVFs(s string) (int, error) {
	if s == "max" {
		return AllVFs, nil
	}
	return number(s, 0, maxVFs)
}

func parseMTU(s string) (int, error) { return number(s, vf.MinMTU, vf.MaxMTU) }

// number reads plain decimal: no sign, no underscore, no other base.
func number(s string, low, high int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err == nil && (n < uint64(low) || n > uint64(high)) {
		err = errOutside
	}
	return int(n), err
}

var hexCode = regexp.MustCompile(`^(?:0[xX])?([0-9A-Fa-f]{4})$`)

// parseHex reads a vendor or device ID; 0x before it does no harm.
func parseHex(s string) (string, error) {
	m := hexCode.FindStringSubmatch(s)
	if m == nil {
		return "", vf.ErrInvalid
	}
	return strings.ToLower(m[1]), nil
}

func notInName(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("/#:", r) }

// parsePattern reads a netdevice name or pattern: no longer than a name can
// be unless it is a pattern (IFNAMSIZ 16, linux/if.h), no white space, no '/'.
func parsePattern(s string) (string, error) {
	_, err := path.Match(s, "")
	if err == nil && (s == "" || strings.ContainsFunc(s, notInName) || (len(s) > 15 && !strings.ContainsAny(s, `*?[\`))) {
		err = vf.ErrInvalid
	}
	return s, err
}

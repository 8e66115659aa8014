package desired

import (
	"errors"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// form has the parser of a scalar, and the description of the wanted form for errors.
type form[T any] struct {
	want  string
	parse func(string) (T, error)
}

// Forms of the scalars of host.yaml, NodePolicies and the device plugin's files.
var (
	pfNameForm      = form[string]{"a netdevice name such as enp1s0f0, or a pattern such as enp1s0f*", parsePattern}
	pfMACForm       = form[vf.MAC]{"the PF's permanent MAC address, e.g. 90:e2:ba:00:00:01", vf.ParseMAC}
	pciForm         = form[vf.PCIAddr]{"a PCI address such as 0000:3b:00.1", parsePCIAddr}
	hexForm         = form[string]{"four hexadecimal digits such as 8086", parseHex}
	pfDriverForm    = form[string]{"a driver's name such as igb", parseDriver}
	vfsForm         = form[int]{"a number from 0 to 65535, or max", parseVFs}
	mtuForm         = form[int]{"bytes from 68 to 65535, e.g. 9000", parseMTU}
	segmentForm     = form[vf.Segment]{vf.WantSegment, vf.ParseSegment}
	hostAddressForm = form[netip.Prefix]{"an address with its prefix length such as 172.16.91.1/24", parseHostAddress}
	poolNameForm    = form[string]{"letters, digits, '-', '_' or '.', a letter or digit at both ends, at most 63", parsePoolName}
	prefixForm      = form[string]{"a domain name in lower case such as intel.com", parsePrefix}
	deviceTypeForm  = form[string]{"netdevice or vfio-pci", parseDeviceType}
	offerForm       = form[Offer]{"resource (by the device plugin) or claims (by ResourceSlices)", parseOffer}
	faultTaintForm  = form[FaultTaint]{"NoSchedule (no new pods) or NoExecute (pods are evicted, too)", parseFaultTaint}
	driftForm       = form[Drift]{"mend or report", parseDrift}
	vfDriverForm    = form[string]{"a driver's name such as igbvf", parseDriver}
	acpiIndexForm   = form[uint32]{"the firmware's number of the VF such as 101", parseACPIIndex}
	linkTypeForm    = form[string]{"ether (infiniband is not served)", parseLinkType}
	partNameForm    = form[string]{"a netdevice name or pattern", parsePattern}
	partTextForm    = form[string]{"a netdevice name", parseNameText}
	partPCIForm     = form[vf.PCIAddr]{"the PF's PCI address such as 0000:3b:00.0", parsePCIAddr}
)

// maxVFs is the largest value of TotalVFs (PCI-SIG SR-IOV 1.1, 3.3.6: 16 bits).
const maxVFs = 1<<16 - 1

var errOutside = errors.New("outside its range")

// parsePCIAddr refuses 0000:00:00.0 too: it is the host bridge's address, and the zero value of
// vf.PCIAddr, which stands for no address.
func parsePCIAddr(s string) (vf.PCIAddr, error) {
	a, err := vf.ParsePCIAddr(s)
	if err == nil && a.IsZero() {
		err = vf.ErrInvalid
	}
	return a, err
}

func parseVFs(s string) (int, error) {
	if s == "max" {
		return AllVFs, nil
	}
	return parseNumber(s, 0, maxVFs)
}

func parseMTU(s string) (int, error) { return parseNumber(s, vf.MinMTU, vf.MaxMTU) }

// parseNumber reads plain decimal: no sign, no underscore, no other base.
func parseNumber(s string, low, high int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err == nil && (n < uint64(low) || n > uint64(high)) {
		err = errOutside
	}
	return int(n), err
}

var hexCode = regexp.MustCompile(`^(?:0[xX])?([0-9A-Fa-f]{4})$`)

// parseHex reads a vendor or device ID, with or without 0x in front.
func parseHex(s string) (string, error) {
	m := hexCode.FindStringSubmatch(s)
	if m == nil {
		return "", vf.ErrInvalid
	}
	return strings.ToLower(m[1]), nil
}

func notInName(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("/#:", r) }

// parseHostAddress reads an interface's address with the length of its network.
func parseHostAddress(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	a := p.Addr()
	if err == nil && (a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.IsLinkLocalUnicast() && a.Is6() || a.Is4In6()) {
		err = vf.ErrInvalid
	}
	return p, err
}

// parseNameText reads a netdevice name of a file of the device plugin, for which a text that can be
// no name is no error: no PF has it.
func parseNameText(s string) (string, error) {
	if s == "" || len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", vf.ErrInvalid
	}
	return s, nil
}

// maxName is the length of the longest name of a netdevice: an alternative one (ALTIFNAMSIZ 128,
// linux/if.h).
const maxName = 127

// canBeName reports whether a text may be meant as the name of a netdevice. The kernel admits the
// signs of regular expressions in names too, but udev and people give none such.
func canBeName(s string) bool {
	return len(s) <= maxName && !strings.ContainsFunc(s, notInName) && !strings.ContainsAny(s, `*?+^$|\[](){}`)
}

// parsePattern reads a name of a netdevice, or a pattern: no longer than a name can be unless it is
// a pattern, no white space, no '/'.
func parsePattern(s string) (string, error) {
	_, err := path.Match(s, "")
	if err == nil && (s == "" || strings.ContainsFunc(s, notInName) || (len(s) > maxName && !strings.ContainsAny(s, `*?[\`))) {
		err = vf.ErrInvalid
	}
	return s, err
}

// parseDeviceType accepts the device plugin's spelling (netDevice) too.
func parseDeviceType(s string) (string, error) {
	for _, t := range []string{NetDevice, VFIO} {
		if strings.EqualFold(s, t) {
			return t, nil
		}
	}
	return "", vf.ErrInvalid
}

func parseDrift(s string) (Drift, error) {
	if d := Drift(s); d == MendDrift || d == ReportDrift {
		return d, nil
	}
	return "", vf.ErrInvalid
}

func parseOffer(s string) (Offer, error) {
	switch s {
	case offerResource:
		return OfferResource, nil
	case string(OfferClaims):
		return OfferClaims, nil
	}
	return "", vf.ErrInvalid
}

func parseFaultTaint(s string) (FaultTaint, error) {
	switch s {
	case noSchedule:
		return TaintNoSchedule, nil
	case string(TaintNoExecute):
		return TaintNoExecute, nil
	}
	return "", vf.ErrInvalid
}

// A pool's full name is a Kubernetes qualified name (k8s.io/apimachinery
// validation.IsQualifiedName).
var (
	poolName   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	poolPrefix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

var errName = errors.New("not a name")

func parsePoolName(s string) (string, error) {
	if !poolName.MatchString(s) {
		return "", errName
	}
	return s, nil
}

func parsePrefix(s string) (string, error) {
	if !poolPrefix.MatchString(s) || len(s) > 253 {
		return "", errName
	}
	return s, nil
}

// driverName matches the possible names of kernel modules (scripts/Makefile.lib, name-fix) and some
// others.
var driverName = regexp.MustCompile(`^[A-Za-z0-9_][-A-Za-z0-9_.]{0,63}$`)

func parseDriver(s string) (string, error) {
	if !driverName.MatchString(s) {
		return "", errName
	}
	return s, nil
}

func parseLinkType(s string) (string, error) {
	if s == "ether" || s == "ethernet" {
		return "ether", nil
	}
	return "", vf.ErrInvalid
}

// parseACPIIndex reads a value of /sys/bus/pci/devices/*/acpi_index: an unsigned 32 bit number
// (drivers/pci/pci-label.c). A VF without a number has 0.
func parseACPIIndex(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if n == 0 {
		err = vf.ErrInvalid
	}
	return uint32(n), err
}

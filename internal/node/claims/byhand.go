package claims

import (
	"regexp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// handLine is a line, written by hand, that sets something of VFs.
type handLine struct {
	at      entry
	manager string
	effect
	rule *udevRule // of a line of udev's rules; also for the lines of a script that udev runs
	// remedy says how the device is handed over.
	remedy string
}

// splitWords splits a line at characters that occur in no name, address or pattern.
func splitWords(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-:*?[]", r)
	})
}

// braced matches a variable that stays unknown. Its operators may look like a pattern: ${A%%:*}.
var braced = regexp.MustCompile(`\$\{[^{}]*\}`)

// isNamedBy reports whether a text names a device: by name, by PCI address or by model. Patterns count
// in a path, but not in a command whose output is meant.
func (d Device) isNamedBy(text string) bool {
	address := d.PCI.String()
	text = braced.ReplaceAllString(text, " ")
	computed := strings.ContainsAny(text, "`") || strings.Contains(text, "$(")
	for _, w := range splitWords(text) {
		w = strings.TrimFunc(w, func(r rune) bool { return r == ':' || r == '.' })
		pattern := !computed && strings.ContainsAny(w, "*?[")
		switch {
		case d.isCalled(w), w == address, w == strings.TrimPrefix(address, "0000:"), w == "pci-"+address:
			return true
		case d.Model != "" && strings.HasPrefix(strings.ToLower(w)+":", d.Model+":"): // with a subsystem perhaps
			return true
		case pattern && d.isPF() && anyGlob([]string{w}, d.names()...), pattern && strings.Contains(w, ":") && matchesGlob(w, address):
			return true
		}
	}
	// udev's [net/enp1s0f0]device/sriov_numvfs
	return strings.Contains(text, "[pci/"+address+"]") ||
		slices.ContainsFunc(d.names(), func(name string) bool { return name != "" && strings.Contains(text, "[net/"+name+"]") })
}

// namesDevice reports whether the objects of a line name a device.
func (h handLine) namesDevice(d Device) bool {
	return slices.ContainsFunc(h.objects, d.isNamedBy)
}

// onByHand returns the claims of the lines on the devices that they name. A line whose device
// cannot be told becomes a claim on no PF in particular.
func onByHand(lines []handLine, functions []Device) []Claim {
	var out []Claim
	for _, h := range lines {
		found := h.findDevices(functions)
		for _, d := range found {
			out = append(out, h.claimOn(d))
		}
		if len(found) == 0 && h.mayConcern(functions) {
			out = append(out, h.claimOn(Device{VF: -1}))
		}
	}
	return out
}

// claimOn makes the claim of a line on a device. A line that names VFs by a PF is about these VFs.
func (h handLine) claimOn(d Device) Claim {
	c := d.newClaim(h.manager, h.at, h.setting)
	c.Says = excerpt.Line(h.at.key)
	if d.isPF() {
		c.VFs = slices.Clone(h.vfs)
	}
	if h.setting == Count {
		c.VFs = nil
		if !isNumber(strings.ReplaceAll(h.value, ",", "")) { // max_vfs=7,7 is of two ports
			c.Value = ""
		}
	}
	c.HandOver = []string{h.remedy}
	return c
}

// canConcern reports whether a line can be about a device. The number of VFs, their settings and the
// mode of the switch are of PFs.
func (h handLine) canConcern(d Device) bool { return d.isPF() || h.setting == Binding }

// findDevices returns the devices that a line is about: by their names or addresses, by the
// conditions of udev's rule, or by the driver that a module's option is for.
func (h handLine) findDevices(functions []Device) []Device {
	var named, ruled []Device
	for _, d := range functions {
		switch {
		case !h.canConcern(d):
		case h.driver != "":
			if d.isPF() && d.Driver == h.driver {
				named = append(named, d)
			}
		case h.namesDevice(d):
			named = append(named, d)
		case h.rule != nil && h.rule.matchDevice(d) == yes:
			ruled = append(ruled, d)
		}
	}
	if len(named) > 0 || !slices.ContainsFunc(h.objects, ofSubject.MatchString) {
		return h.takeVFs(named, functions)
	}
	return h.takeVFs(ruled, functions)
}

// takeVFs replaces the PFs by all of their VFs, if a line binds drivers to these: PF/device/virtfn*.
func (h handLine) takeVFs(found, functions []Device) []Device {
	if h.setting != Binding || len(h.vfs) > 0 || !slices.ContainsFunc(h.objects, func(o string) bool { return strings.Contains(o, "/virtfn") }) {
		return found
	}
	return slices.DeleteFunc(slices.Clone(functions), func(d Device) bool {
		return d.isPF() || !slices.ContainsFunc(found, func(f Device) bool { return f.PF == d.PF })
	})
}

var (
	anyAddress = regexp.MustCompile(`\b(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b`)
	// unresolved is a variable or the output of a command.
	unresolved = regexp.MustCompile("[$`%]")
)

// mayConcern reports whether a line that names no device of this host may be about one. It is not if
// it names another PCI function, or if udev's rule excludes all devices. A driver is bound to all
// kinds of devices, so a line that names none of these is about another.
func (h handLine) mayConcern(functions []Device) bool {
	if h.driver != "" || h.setting == Binding || !slices.ContainsFunc(functions, h.canConcern) {
		return false
	}
	if slices.ContainsFunc(h.objects, func(o string) bool { return anyAddress.MatchString(o) && !unresolved.MatchString(o) }) {
		return false
	}
	if h.rule == nil || !slices.ContainsFunc(h.objects, ofSubject.MatchString) {
		return true
	}
	return slices.ContainsFunc(functions, func(d Device) bool { return h.canConcern(d) && h.rule.matchDevice(d) != no })
}

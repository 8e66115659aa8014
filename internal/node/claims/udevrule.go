package claims

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// udevRule is a line of udev's rules: the conditions under which it applies (udev(7)).
type udevRule struct {
	conditions []udevKey
}

// udevKey is KEY{ATTRIBUTE}OPERATOR"VALUE".
type udevKey struct{ name, attribute, operator, value string }

var udevKeys = regexp.MustCompile(`([A-Z_]+)(?:\{([^}"]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*[ei]?"((?:[^"\\]|\\.)*)"`)

// parseRule splits a line of rules into its conditions and assignments.
func parseRule(line string) (conditions, assignments []udevKey) {
	for _, m := range udevKeys.FindAllStringSubmatch(line, -1) {
		k := udevKey{m[1], m[2], m[3], strings.ReplaceAll(m[4], `\"`, `"`)}
		if k.operator == "==" || k.operator == "!=" {
			conditions = append(conditions, k)
		} else {
			assignments = append(assignments, k)
		}
	}
	return conditions, assignments
}

// scanRules reads a file of udev's rules: attributes that they write, and programs that they run.
func (s *scanner) scanRules(src *source, text []byte) {
	for _, n := range joinLines(text, "#") {
		conditions, assignments := parseRule(n.text)
		one := *src
		one.rule, one.says = &udevRule{conditions}, n.text
		for _, a := range slices.Concat(conditions, assignments) {
			switch a.name {
			case "ATTR":
				if a.operator == "==" || a.operator == "!=" {
					continue
				}
				if e, ok := effectOfWrite(a.attribute, a.value); ok {
					if !strings.Contains(a.attribute, "[") {
						e.objects = append(e.objects, "%k")
					}
					s.addEffects(&one, n, e)
				}
			case "RUN", "PROGRAM", "IMPORT":
				if a.attribute == "" || a.attribute == "program" {
					s.scanRun(&one, n, a.value)
				}
			}
		}
	}
}

// scanRun reads a command that udev runs. A name without a folder is a program of udev's own folder.
func (s *scanner) scanRun(src *source, n textLine, run string) {
	src.vars = variables{"INTERFACE": {"%k"}, "DEVPATH": {"%p"}}
	if !strings.HasPrefix(run, "/") && !strings.HasPrefix(run, "'") {
		run = "/usr/lib/udev/" + run
	}
	s.scanLine(src, n, strings.NewReplacer("$$", "$", "%%", "%").Replace(run))
}

// ofSubject matches udev's words for the device that a rule is applied to.
var ofSubject = regexp.MustCompile(`%k|%p|%n|%b|\$(?:kernel|name|devpath|id)\b|[%$](?:env|E)\{(?:INTERFACE|DEVPATH|PCI_SLOT_NAME|ID_PATH)\}`)

// answer says whether a condition is met.
type answer int

const (
	unknown answer = iota
	no
	yes
)

// matchDevice reports whether a rule applies to a device: yes if a condition identifies the device,
// no if one excludes it, otherwise unknown. A name that differs excludes no device, since udev
// renames devices after the rules have matched.
func (r *udevRule) matchDevice(d Device) answer {
	identified, misnamed := false, false
	for _, k := range r.conditions {
		switch met := k.matchKey(d); {
		case met == no:
			return no
		case k.operator == "!=":
		case met == yes:
			identified = true
		case k.isName():
			misnamed = true
		}
	}
	if identified && !misnamed {
		return yes
	}
	return unknown
}

// isName reports whether a condition compares the name of a netdevice.
func (k udevKey) isName() bool {
	switch k.name {
	case "KERNEL", "KERNELS", "NAME":
		return true
	case "ENV":
		return k.attribute == "INTERFACE" || strings.HasPrefix(k.attribute, "ID_NET_NAME")
	}
	return false
}

// matchKey compares one condition. Conditions on more than a Device knows are unknown.
func (k udevKey) matchKey(d Device) answer {
	model := strings.SplitN(d.Model+":", ":", 3)
	switch k.name + k.attribute {
	case "KERNEL", "KERNELS", "NAME", "ENVINTERFACE", "ENVID_NET_NAME":
		if _, err := vf.ParsePCIAddr(k.value); err == nil {
			return k.compareValue(d.PCI.String())
		}
		if k.operator == "!=" {
			return k.compareValue(d.Name)
		}
		if d.Name != "" && k.compareValue(d.Name) == yes || k.compareValue(d.PCI.String()) == yes {
			return yes
		}
	case "SUBSYSTEM":
		return k.excludeOthers("net", "pci", "infiniband")
	case "ATTRclass", "ATTRdevice/class":
		return k.excludeOthers("0x020000", "0x020700", "0x028000")
	case "ENVPCI_CLASS":
		return k.excludeOthers("20000", "20700", "28000")
	case "DRIVER", "DRIVERS", "ENVID_NET_DRIVER", "ENVDRIVER":
		return k.compareValue(d.Driver)
	case "ATTRaddress", "ATTRSaddress":
		return k.compareValue(d.MAC.String())
	case "ENVPCI_SLOT_NAME":
		return k.compareValue(d.PCI.String())
	case "ENVID_PATH":
		return k.compareValue("pci-" + d.PCI.String())
	case "ATTRvendor", "ATTRSvendor", "ENVID_VENDOR_ID", "ATTRdevice/vendor":
		return k.compareValue("0x" + model[0])
	case "ATTRdevice", "ATTRSdevice", "ENVID_MODEL_ID", "ATTRdevice/device":
		return k.compareValue("0x" + model[1])
	case "ENVPCI_ID":
		return k.compareValue(strings.ToUpper(model[0] + ":" + model[1]))
	}
	return unknown
}

// excludeOthers returns no if none of the values that NICs have meets the condition. One that does
// identifies no device.
func (k udevKey) excludeOthers(values ...string) answer {
	if slices.ContainsFunc(values, func(s string) bool { return k.compareValue(s) == yes }) {
		return unknown
	}
	return no
}

// compareValue matches the patterns of a condition, which | separates.
func (k udevKey) compareValue(s string) answer {
	found := false
	for _, p := range strings.Split(k.value, "|") {
		ok, err := path.Match(strings.ReplaceAll(p, "[!", "[^"), s)
		found = found || err == nil && ok
	}
	if found == (k.operator == "==") {
		return yes
	}
	return no
}

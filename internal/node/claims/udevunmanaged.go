package claims

import "strings"

// udevDatabase is the folder of udev's database. A netdevice is the file nIFINDEX there.
const udevDatabase = "run/udev/data"

// udevUnmanaged has the property NM_UNMANAGED of devices, by which NetworkManager leaves a device
// alone: from udev's database, and for devices that are not in it from the rules.
type udevUnmanaged struct {
	database map[string]bool // ID_PATH -> whether NM_UNMANAGED is set
	rules    []unmanagedRule // in the order in which udev applies them
}

// unmanagedRule is a rule that sets the property.
type unmanagedRule struct {
	rule udevRule
	set  bool
}

func readUdevUnmanaged(l *loader) udevUnmanaged {
	u := udevUnmanaged{database: map[string]bool{}}
	for _, f := range l.listMatching(udevDatabase, isNetdeviceEntry) {
		path, unmanaged := parseUdevEntry(l.readText(f))
		if path != "" {
			u.database[path] = unmanaged
		}
	}
	for _, f := range l.listLayered(rulesDirs, ".rules") {
		u.rules = append(u.rules, parseUnmanaged(l.readText(f))...)
	}
	return u
}

// isNetdeviceEntry reports whether a file of udev's database is about a netdevice.
func isNetdeviceEntry(name string) bool {
	index, ok := strings.CutPrefix(name, "n")
	return ok && isNumber(index)
}

// parseUdevEntry reads a file of udev's database: lines E:PROPERTY=VALUE are properties.
func parseUdevEntry(text []byte) (path string, unmanaged bool) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if p, ok := strings.CutPrefix(line, "E:ID_PATH="); ok {
			path = p
		}
		if v, ok := strings.CutPrefix(line, "E:NM_UNMANAGED="); ok {
			unmanaged = isYes(v)
		}
	}
	return path, unmanaged
}

// parseUnmanaged returns the rules of a file that set the property.
func parseUnmanaged(text []byte) (out []unmanagedRule) {
	for _, n := range joinLines(text, "#") {
		if !strings.Contains(n.text, "NM_UNMANAGED") {
			continue
		}
		conditions, assignments := parseRule(n.text)
		for _, a := range assignments {
			if a.name == "ENV" && a.attribute == "NM_UNMANAGED" && len(out) < maxLines {
				out = append(out, unmanagedRule{udevRule{conditions}, isYes(a.value)})
			}
		}
	}
	return out
}

// leavesAlone reports whether the property is set on a device. The last rule that applies decides.
func (u udevUnmanaged) leavesAlone(d Device) bool {
	if unmanaged, ok := u.database["pci-"+d.PCI.String()]; ok {
		return unmanaged
	}
	set := false
	for _, r := range u.rules {
		if r.rule.matchDevice(d) == yes && r.rule.isDecided() {
			set = r.set
		}
	}
	return set
}

// isDecided reports whether a Device knows all that a rule's conditions compare, beside the event and
// the subsystem.
func (r *udevRule) isDecided() bool {
	for _, k := range r.conditions {
		switch k.name {
		case "ACTION", "SUBSYSTEM", "SUBSYSTEMS", "KERNEL", "KERNELS", "NAME", "DRIVER", "DRIVERS":
		case "ATTR", "ATTRS", "ENV":
			if k.matchKey(Device{}) == unknown && !k.isName() {
				return false
			}
		default:
			return false
		}
	}
	return true
}

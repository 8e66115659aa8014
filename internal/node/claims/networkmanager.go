package claims

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// nmRules are NetworkManager's configuration (NetworkManager.conf(5)) and its
// profiles (nm-settings-keyfile(5)).
type nmRules struct {
	active   bool // NetworkManager has run since boot
	devices  []section
	unwanted []string // device specs of unmanaged-devices
	auto     string   // no-auto-default
	// leavesIfupdown is set if NetworkManager does not manage devices of /etc/network/interfaces
	// (Debian's default).
	leavesIfupdown bool
	profiles       []nmProfile
}

// nmProfile is a file of a connection.
type nmProfile struct {
	file     string
	sections []section
	// generated is set if netplan wrote the file from a file of its own.
	generated bool
}

const nmMain = "etc/NetworkManager/NetworkManager.conf"

func readNM(l *loader) nmRules {
	// NetworkManager makes this folder when it starts. Its parent does not count, since netplan
	// makes that one, too.
	r := nmRules{active: l.fileExists("run/NetworkManager/devices")}
	// A file in a more important folder hides files of the same name in the others. Values that are
	// read later win.
	files := l.listLayered([]string{"run/NetworkManager/conf.d", "usr/lib/NetworkManager/conf.d"}, ".conf")
	inEtc := l.listFiles("etc/NetworkManager/conf.d", ".conf")
	files = slices.DeleteFunc(files, func(f string) bool {
		return slices.ContainsFunc(inEtc, func(e string) bool { return path.Base(e) == path.Base(f) })
	})
	files = append(append(files, nmMain), inEtc...)
	plugins, ifupdownManaged := "", false
	for _, f := range files {
		for _, s := range l.readINI(f) {
			switch {
			case s.name == "keyfile":
				for _, e := range s.entries {
					r.setUnmanaged(e)
				}
			case s.name == "main":
				if e, ok := s.lastEntry("no-auto-default"); ok {
					r.auto = e.value
				}
				if e, ok := s.lastEntry("plugins"); ok {
					plugins = e.value
				}
			case s.name == "ifupdown":
				ifupdownManaged = isYes(s.lastValue("managed"))
			case strings.HasPrefix(s.name, "device"):
				r.devices = append(r.devices, s)
			}
		}
	}
	r.leavesIfupdown = strings.Contains(plugins, "ifupdown") && !ifupdownManaged
	dirs := []string{"etc/NetworkManager/system-connections", "run/NetworkManager/system-connections", "usr/lib/NetworkManager/system-connections"}
	for _, f := range l.listLayered(dirs, "") {
		p := nmProfile{file: "/" + f, sections: l.readINI(f)}
		p.generated = strings.HasPrefix(path.Base(f), "netplan-")
		r.profiles = append(r.profiles, p)
	}
	return r
}

// setUnmanaged takes one line of [keyfile]: key= replaces, key+= adds, key-=
// takes away.
func (r *nmRules) setUnmanaged(e entry) {
	specs := strings.FieldsFunc(e.value, func(c rune) bool { return c == ';' || c == ',' })
	switch e.key {
	case "unmanaged-devices":
		r.unwanted = specs
	case "unmanaged-devices+":
		r.unwanted = append(r.unwanted, specs...)
	case "unmanaged-devices-":
		r.unwanted = slices.DeleteFunc(r.unwanted, func(s string) bool { return slices.Contains(specs, s) })
	}
}

// leavesAlone reports whether NetworkManager leaves a device alone. managed= of a [device] section
// decides before udev's property (NetworkManager.conf(5)).
func (r nmRules) leavesAlone(d Device, all Rules) bool {
	if !r.active || matchesSpecs(r.unwanted, d) || r.leavesIfupdown && all.ifupdown.namesDevice(d.Name) || all.ifcfg.leftByNM(d) {
		return true
	}
	for _, s := range r.devices {
		if e, ok := s.lastEntry("managed"); ok && deviceSection(s, d) {
			return isNo(e.value)
		}
	}
	return all.udev.leavesAlone(d)
}

// deviceSection reports whether a [device...] section is about a device.
func deviceSection(s section, d Device) bool {
	e, ok := s.lastEntry("match-device")
	return !ok || matchesSpecs(strings.FieldsFunc(e.value, func(c rune) bool { return c == ';' || c == ',' }), d)
}

// matchesSpecs evaluates a device list (NetworkManager.conf(5), "Device List
// Format"): any match wins unless an except: matches too.
func matchesSpecs(specs []string, d Device) bool {
	found := false
	only := true // a list of exceptions alone means all other devices
	for _, spec := range specs {
		rest, except := strings.CutPrefix(strings.TrimSpace(spec), "except:")
		only = only && except
		switch {
		case !matchesSpec(rest, d):
		case except:
			return false
		default:
			found = true
		}
	}
	return found || only && len(specs) > 0
}

func matchesSpec(spec string, d Device) bool {
	kind, value, ok := strings.Cut(spec, ":")
	value = strings.ReplaceAll(value, `\`, "")
	switch {
	case spec == "*":
		return true
	case ok && kind == "interface-name":
		if literal, ok := strings.CutPrefix(value, "="); ok {
			return literal == d.Name
		}
		return matchesGlob(strings.TrimPrefix(value, "~"), d.Name)
	case ok && kind == "mac":
		return strings.EqualFold(value, d.MAC.String())
	case ok && kind == "driver":
		name, _, _ := strings.Cut(value, "/") // driver:NAME/VERSION
		return matchesGlob(name, d.Driver)
	case ok && kind == "type":
		return value == "ethernet"
	}
	return spec == d.Name || strings.EqualFold(spec, d.MAC.String()) && !d.MAC.IsZero()
}

func (r nmRules) claimsOn(d Device, all Rules) []Claim {
	if r.leavesAlone(d, all) {
		return nil
	}
	var out []Claim
	for _, s := range r.devices {
		if e, ok := s.lastEntry("sriov-num-vfs"); ok && d.isPF() && deviceSection(s, d) {
			out = append(out, handOver(d.newClaim(NetworkManager, e, Count), "systemctl reload NetworkManager"))
		}
	}
	own, auto := all.ifcfg.hasProfile(d), false
	for _, p := range r.profiles {
		if !p.matchesDevice(d) {
			continue
		}
		own = true
		if !p.generated {
			out = append(out, p.claimsOn(d)...)
		}
	}
	if !own && !matchesSpecs(strings.FieldsFunc(r.auto, func(c rune) bool { return c == ';' || c == ',' }), d) {
		auto = true
	}
	if auto {
		c := d.newClaim(NetworkManager, entry{file: "/etc/NetworkManager"}, Managed)
		c.Says = "no file leaves it alone, so it gets a profile of its own"
		c.HandOver = nmLeaves(d)
		out = append(out, c)
	}
	return out
}

// matchesDevice reports whether a profile can be used for a device. A profile that names no
// device is for every Ethernet device.
func (p nmProfile) matchesDevice(d Device) bool {
	connection, ok := mergeSections(p.sections, "connection")
	kind := connection.lastValue("type")
	if !ok || kind != "ethernet" && kind != "802-3-ethernet" {
		return false
	}
	if e, ok := connection.lastEntry("interface-name"); ok && e.value != "" && e.value != d.Name {
		return false
	}
	ethernet, _ := mergeSections(p.sections, "ethernet", "802-3-ethernet")
	if e, ok := ethernet.lastEntry("mac-address"); ok && e.value != "" && !strings.EqualFold(e.value, d.MAC.String()) {
		return false
	}
	match, _ := mergeSections(p.sections, "match")
	for key, value := range map[string]string{"interface-name": d.Name, "driver": d.Driver, "path": "pci-" + d.PCI.String()} {
		e, ok := match.lastEntry(key)
		list := strings.FieldsFunc(e.value, func(c rune) bool { return c == ';' || c == ' ' })
		if ok && len(list) > 0 && !anyGlob(list, value) {
			return false
		}
	}
	return true
}

func (p nmProfile) claimsOn(d Device) []Claim {
	connection, _ := mergeSections(p.sections, "connection")
	id := connection.lastValue("id")
	if id == "" {
		id = strings.TrimSuffix(path.Base(p.file), ".nmconnection")
	}
	var out []Claim
	if s, ok := mergeSections(p.sections, "sriov"); ok && d.isPF() {
		// "enforces the number of virtual functions on the interface (also when
		// it is zero) during activation and resets it upon deactivation": the
		// documentation of the setting sriov.
		e, ok := s.lastEntry("total-vfs")
		if !ok {
			e = entry{file: s.file, line: s.line, key: "total-vfs", value: "0"}
		}
		c := d.newClaim(NetworkManager, e, Count)
		c.HandOver = []string{"nmcli connection modify " + shellWord(id) + " remove sriov"}
		out = append(out, c)
		if e, ok := s.lastEntry("eswitch-mode"); ok && eswitchMode(e.value) != "" {
			c := d.newClaim(NetworkManager, e, Switch)
			c.Value = eswitchMode(e.value)
			c.HandOver = []string{"nmcli connection modify " + shellWord(id) + " sriov.eswitch-mode preserve"}
			out = append(out, c)
		}
		for _, e := range s.entries {
			if n, ok := parseIndex(strings.TrimPrefix(e.key, "vf.")); ok && strings.HasPrefix(e.key, "vf.") {
				c := d.newClaim(NetworkManager, e, VFSettings)
				c.VFs = []int{n}
				c.HandOver = []string{"nmcli connection modify " + shellWord(id) + " remove sriov"}
				out = append(out, c)
			}
		}
	}
	ethernet, _ := mergeSections(p.sections, "ethernet", "802-3-ethernet")
	if e, ok := ethernet.lastEntry("mtu"); ok && e.value != "" && e.value != "0" {
		c := d.newClaim(NetworkManager, e, MTU)
		c.HandOver = []string{"nmcli connection modify " + shellWord(id) + " 802-3-ethernet.mtu 0"}
		out = append(out, c)
	}
	e, ok := connection.lastEntry("interface-name")
	if !ok {
		e = entry{file: p.file, line: connection.line, key: "id", value: id}
	}
	c := d.newClaim(NetworkManager, e, Managed)
	c.Value = ""
	c.HandOver = nmLeaves(d)
	return append(out, c)
}

// eswitchMode returns the mode that a profile sets; empty if it keeps the present one. Keyfiles have
// the number.
func eswitchMode(value string) string {
	switch strings.ToLower(value) {
	case "0", "legacy":
		return "legacy"
	case "1", "switchdev":
		return "switchdev"
	}
	return ""
}

// nmLeaves makes NetworkManager leave a device alone: VFs by their driver,
// since they come and go under other names.
func nmLeaves(d Device) []string {
	spec, word := "interface-name:"+d.Name, d.Name
	if !d.isPF() && d.Driver != "" {
		spec, word = "driver:"+d.Driver, d.Driver
	}
	if shellWord(word) != word {
		return nil // a name that must not get into a shell command
	}
	return []string{
		`printf '[keyfile]\nunmanaged-devices+=` + spec + `\n' >/etc/NetworkManager/conf.d/90-culvert-` + word + `.conf`,
		"systemctl reload NetworkManager",
	}
}

// shellWord quotes a name for a shell if it needs quotes.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-=", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(excerpt.Line(s), "'", `'\''`) + "'"
}

// parseIndex reads a VF's index.
func parseIndex(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil
}

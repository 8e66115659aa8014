package claims

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/excerpt"
)

// nmRules are NetworkManager's configuration (NetworkManager.conf(5)) and its
// profiles (nm-settings-keyfile(5)).
type nmRules struct {
	active   bool // it has run since boot
	devices  []section
	unwanted []string // device specs of unmanaged-devices
	auto     string   // no-auto-default
	// leavesIfupdown: devices of /etc/network/interfaces are not its (Debian's
	// default).
	leavesIfupdown bool
	profiles       []nmProfile
}

// nmProfile is a file of a connection.
type nmProfile struct {
	file     string
	sections []section
	// generated: netplan wrote it from a file of its own.
	generated bool
}

const nmMain = "etc/NetworkManager/NetworkManager.conf"

func readNM(l *loader) nmRules {
	// NetworkManager makes the folder when it starts; netplan makes the one above.
	r := nmRules{active: l.exists("run/NetworkManager/devices")}
	// A name in a folder that counts more hides the one in the others; what is
	// read later wins.
	files := l.layered([]string{"run/NetworkManager/conf.d", "usr/lib/NetworkManager/conf.d"}, ".conf")
	inEtc := l.list("etc/NetworkManager/conf.d", ".conf")
	files = slices.DeleteFunc(files, func(f string) bool {
		return slices.ContainsFunc(inEtc, func(e string) bool { return path.Base(e) == path.Base(f) })
	})
	files = append(append(files, nmMain), inEtc...)
	plugins, ifupdownManaged := "", false
	for _, f := range files {
		for _, s := range l.ini(f) {
			switch {
			case s.name == "keyfile":
				for _, e := range s.entries {
					r.unmanaged(e)
				}
			case s.name == "main":
				if e, ok := s.get("no-auto-default"); ok {
					r.auto = e.value
				}
				if e, ok := s.get("plugins"); ok {
					plugins = e.value
				}
			case s.name == "ifupdown":
				ifupdownManaged = isYes(s.value("managed"))
			case strings.HasPrefix(s.name, "device"):
				r.devices = append(r.devices, s)
			}
		}
	}
	r.leavesIfupdown = strings.Contains(plugins, "ifupdown") && !ifupdownManaged
	dirs := []string{"etc/NetworkManager/system-connections", "run/NetworkManager/system-connections", "usr/lib/NetworkManager/system-connections"}
	for _, f := range l.layered(dirs, "") {
		p := nmProfile{file: "/" + f, sections: l.ini(f)}
		p.generated = strings.HasPrefix(path.Base(f), "netplan-")
		r.profiles = append(r.profiles, p)
	}
	return r
}

// unmanaged takes one line of [keyfile]: key= replaces, key+= adds, key-=
// takes away.
func (r *nmRules) unmanaged(e entry) {
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

// leaves reports whether NetworkManager leaves a device alone.
func (r nmRules) leaves(d Device, other ifupdownRules) bool {
	if !r.active || matchesSpecs(r.unwanted, d) || r.leavesIfupdown && other.names(d.Name) {
		return true
	}
	for _, s := range r.devices {
		if e, ok := s.get("managed"); ok && isNo(e.value) && deviceSection(s, d) {
			return true
		}
	}
	return false
}

// deviceSection reports whether a [device...] section is about a device.
func deviceSection(s section, d Device) bool {
	e, ok := s.get("match-device")
	return !ok || matchesSpecs(strings.FieldsFunc(e.value, func(c rune) bool { return c == ';' || c == ',' }), d)
}

// matchesSpecs evaluates a device list (NetworkManager.conf(5), "Device List
// Format"): any match wins unless an except: matches too.
func matchesSpecs(specs []string, d Device) bool {
	found := false
	only := true // nothing but exceptions means all others
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
		return globs(strings.TrimPrefix(value, "~"), d.Name)
	case ok && kind == "mac":
		return strings.EqualFold(value, d.MAC.String())
	case ok && kind == "driver":
		name, _, _ := strings.Cut(value, "/") // driver:NAME/VERSION
		return globs(name, d.Driver)
	case ok && kind == "type":
		return value == "ethernet"
	}
	return spec == d.Name || strings.EqualFold(spec, d.MAC.String()) && !d.MAC.IsZero()
}

func (r nmRules) on(d Device, other ifupdownRules) []Claim {
	if r.leaves(d, other) {
		return nil
	}
	var out []Claim
	for _, s := range r.devices {
		if e, ok := s.get("sriov-num-vfs"); ok && d.isPF() && deviceSection(s, d) {
			out = append(out, handOver(d.claim(NetworkManager, e, Count), "systemctl reload NetworkManager"))
		}
	}
	own, auto := false, false
	for _, p := range r.profiles {
		if !p.about(d) {
			continue
		}
		own = true
		if !p.generated {
			out = append(out, p.claims(d)...)
		}
	}
	if !own && !matchesSpecs(strings.FieldsFunc(r.auto, func(c rune) bool { return c == ';' || c == ',' }), d) {
		auto = true
	}
	if auto {
		c := d.claim(NetworkManager, entry{file: "/etc/NetworkManager"}, Managed)
		c.Says = "no file leaves it alone, so it gets a profile of its own"
		c.HandOver = nmLeaves(d)
		out = append(out, c)
	}
	return out
}

// about reports whether a profile can be used for a device. One that names no
// device is for every Ethernet device.
func (p nmProfile) about(d Device) bool {
	connection, ok := merged(p.sections, "connection")
	kind := connection.value("type")
	if !ok || kind != "ethernet" && kind != "802-3-ethernet" {
		return false
	}
	if e, ok := connection.get("interface-name"); ok && e.value != "" && e.value != d.Name {
		return false
	}
	ethernet, _ := merged(p.sections, "ethernet", "802-3-ethernet")
	if e, ok := ethernet.get("mac-address"); ok && e.value != "" && !strings.EqualFold(e.value, d.MAC.String()) {
		return false
	}
	match, _ := merged(p.sections, "match")
	for key, value := range map[string]string{"interface-name": d.Name, "driver": d.Driver, "path": "pci-" + d.PCI.String()} {
		e, ok := match.get(key)
		list := strings.FieldsFunc(e.value, func(c rune) bool { return c == ';' || c == ' ' })
		if ok && len(list) > 0 && !anyGlob(list, value) {
			return false
		}
	}
	return true
}

func (p nmProfile) claims(d Device) []Claim {
	connection, _ := merged(p.sections, "connection")
	id := connection.value("id")
	if id == "" {
		id = strings.TrimSuffix(path.Base(p.file), ".nmconnection")
	}
	var out []Claim
	if s, ok := merged(p.sections, "sriov"); ok && d.isPF() {
		// "enforces the number of virtual functions on the interface (also when
		// it is zero) during activation and resets it upon deactivation": the
		// documentation of the setting sriov.
		e, ok := s.get("total-vfs")
		if !ok {
			e = entry{file: s.file, line: s.line, key: "total-vfs", value: "0"}
		}
		c := d.claim(NetworkManager, e, Count)
		c.HandOver = []string{"nmcli connection modify " + shellWord(id) + " remove sriov"}
		out = append(out, c)
		for _, e := range s.entries {
			if n, ok := index(strings.TrimPrefix(e.key, "vf.")); ok && strings.HasPrefix(e.key, "vf.") {
				c := d.claim(NetworkManager, e, VFSettings)
				c.VFs = []int{n}
				c.HandOver = []string{"nmcli connection modify " + shellWord(id) + " remove sriov"}
				out = append(out, c)
			}
		}
	}
	ethernet, _ := merged(p.sections, "ethernet", "802-3-ethernet")
	if e, ok := ethernet.get("mtu"); ok && e.value != "" && e.value != "0" {
		c := d.claim(NetworkManager, e, MTU)
		c.HandOver = []string{"nmcli connection modify " + shellWord(id) + " 802-3-ethernet.mtu 0"}
		out = append(out, c)
	}
	e, ok := connection.get("interface-name")
	if !ok {
		e = entry{file: p.file, line: connection.line, key: "id", value: id}
	}
	c := d.claim(NetworkManager, e, Managed)
	c.Value = ""
	c.HandOver = nmLeaves(d)
	return append(out, c)
}

// nmLeaves makes NetworkManager leave a device alone: VFs by their driver,
// since they come and go under other names.
func nmLeaves(d Device) []string {
	spec, word := "interface-name:"+d.Name, d.Name
	if !d.isPF() && d.Driver != "" {
		spec, word = "driver:"+d.Driver, d.Driver
	}
	if shellWord(word) != word {
		return nil // a name that no shell should see
	}
	return []string{
		`printf '[keyfile]\nunmanaged-devices+=` + spec + `\n' >/etc/NetworkManager/conf.d/90-culvert-` + word + `.conf`,
		"systemctl reload NetworkManager",
	}
}

// shellWord quotes a name for a shell where it has to be.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-=", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(excerpt.Line(s), "'", `'\''`) + "'"
}

// index reads a VF's index.
func index(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil
}

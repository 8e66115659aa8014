package claims

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// networkdRules are the .network files of systemd-networkd and the .link files
// of udev, in the order in which they are tried. The first file of each kind that matches a device
// applies to it.
type networkdRules struct {
	active         bool // systemd-networkd has run since boot
	network, links []unitFile
}

// unitFile is a file with its drop-ins.
type unitFile struct {
	file     string
	sections []section
	// generated is set if netplan wrote the file from a file of its own, which messages then name.
	generated bool
}

// networkdDirs are the folders of systemd.network(5), the most important
// first.
var networkdDirs = []string{"etc/systemd/network", "run/systemd/network", "usr/local/lib/systemd/network", "usr/lib/systemd/network", "lib/systemd/network"}

func readNetworkd(l *loader) networkdRules {
	return networkdRules{
		active:  l.fileExists("run/systemd/netif/state"), // the folder is there without it
		network: readUnits(l, ".network"),
		links:   readUnits(l, ".link"),
	}
}

func readUnits(l *loader, suffix string) []unitFile {
	var out []unitFile
	for _, name := range l.listLayered(networkdDirs, suffix) {
		base := path.Base(name)
		u := unitFile{file: "/" + name, sections: l.readINI(name), generated: strings.HasPrefix(base, "10-netplan-")}
		var dropIns []string
		for _, dir := range networkdDirs {
			dropIns = append(dropIns, path.Join(dir, base+".d"))
		}
		for _, dropIn := range l.listLayered(dropIns, ".conf") {
			u.sections = append(u.sections, l.readINI(dropIn)...)
		}
		if len(u.sections) > 0 { // empty: masked
			out = append(out, u)
		}
	}
	return out
}

func (r networkdRules) claimsOn(d Device) []Claim {
	var out []Claim
	if u, ok := firstMatch(r.links, d, true); ok && !u.generated {
		out = append(out, u.linkClaims(d)...)
	}
	if u, ok := firstMatch(r.network, d, false); ok && !u.generated && r.active {
		out = append(out, u.networkClaims(d)...)
	}
	return out
}

func firstMatch(files []unitFile, d Device, link bool) (unitFile, bool) {
	for _, u := range files {
		m, ok := mergeSections(u.sections, "Match")
		if !ok && link {
			continue // systemd.link(5): a file without [Match] is not applied
		}
		if matchesSection(m, d) {
			return u, true
		}
	}
	return unitFile{}, false
}

// matchesSection evaluates a [Match] section (systemd.network(5)). Keys that need
// more than a Device knows do not match: Property= and its like select by
// udev's database.
func matchesSection(m section, d Device) bool {
	seen := map[string]bool{}
	for _, e := range m.entries {
		if seen[e.key] {
			continue
		}
		seen[e.key] = true
		var all []string
		for _, o := range m.entries {
			if o.key == e.key {
				all = append(all, strings.Fields(o.value)...)
			}
		}
		if !matchesKey(e.key, all, d) {
			return false
		}
	}
	return true
}

func matchesKey(key string, values []string, d Device) bool {
	if len(values) == 0 {
		return true // an empty value resets the key
	}
	switch key {
	case "Name":
		return anyGlob(values, d.names()...)
	case "OriginalName":
		return anyGlob(values, d.Name)
	case "Driver":
		return anyGlob(values, d.Driver)
	case "Path":
		return anyGlob(values, "pci-"+d.PCI.String())
	case "Type":
		return anyGlob(values, "ether")
	case "Kind":
		return anyGlob(values, "") // a NIC has none
	case "MACAddress", "PermanentMACAddress":
		return slices.ContainsFunc(values, func(v string) bool { return strings.EqualFold(strings.ReplaceAll(v, "-", ":"), d.MAC.String()) })
	}
	return false
}

// anyGlob matches any of several texts with a list of shell patterns; a leading ! inverts the result
// of the whole list.
func anyGlob(patterns []string, texts ...string) bool {
	rest, inverted := strings.CutPrefix(patterns[0], "!")
	patterns = append([]string{rest}, patterns[1:]...)
	found := slices.ContainsFunc(texts, func(s string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return p != "" && matchesGlob(p, s) })
	})
	return found != inverted
}

// matchesGlob matches fnmatch(3)'s patterns; path.Match matches the same patterns, except a
// character class that starts with !.
func matchesGlob(pattern, s string) bool {
	if pattern == "*" && s == "" {
		return false // Kind=!* means "has no kind"
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), s)
	return err == nil && ok
}

// linkClaims returns the claims of a .link file, which udev applies when the device
// appears.
func (u unitFile) linkClaims(d Device) []Claim {
	out := u.vfClaims(d, Udev, "udevadm control --reload")
	link, _ := mergeSections(u.sections, "Link")
	if e, ok := link.lastEntry("SR-IOVVirtualFunctions"); ok && e.value != "" && d.isPF() {
		out = append(out, handOver(d.newClaim(Udev, e, Count), "udevadm control --reload"))
	} else if e, ok := u.highestVF(); ok && d.isPF() {
		c := d.newClaim(Udev, e, Count)
		n, _ := parseIndex(e.value)
		c.Value = strconv.Itoa(n + 1)
		out = append(out, handOver(c, "udevadm control --reload"))
	}
	if e, ok := link.lastEntry("MTUBytes"); ok && e.value != "" {
		out = append(out, handOver(d.newClaim(Udev, e, MTU), "udevadm control --reload"))
	}
	return out
}

// highestVF returns the highest VirtualFunction= of the [SR-IOV] sections. udev makes all VFs up to it
// if a .link file gives no number (systemd issue 32836).
func (u unitFile) highestVF() (highest entry, ok bool) {
	most := -1
	for _, s := range u.sections {
		e, found := s.lastEntry("VirtualFunction")
		if n, isIndex := parseIndex(e.value); s.name == "SR-IOV" && found && isIndex && n > most {
			most, highest, ok = n, e, true
		}
	}
	return highest, ok
}

// networkClaims returns the claims of a .network file, which systemd-networkd applies.
func (u unitFile) networkClaims(d Device) []Claim {
	link, _ := mergeSections(u.sections, "Link")
	if isYes(link.lastValue("Unmanaged")) {
		return nil
	}
	out := u.vfClaims(d, Networkd, "networkctl reload")
	if e, ok := link.lastEntry("MTUBytes"); ok && e.value != "" {
		out = append(out, handOver(d.newClaim(Networkd, e, MTU), "networkctl reload"))
	}
	e := entry{file: u.file}
	if m, ok := mergeSections(u.sections, "Match"); ok {
		e.line = m.line
		if len(m.entries) > 0 {
			e = m.entries[0]
		}
	}
	c := d.newClaim(Networkd, e, Managed)
	c.Value = ""
	c.HandOver = networkdLeaves(d)
	return append(out, c)
}

// networkdLeaves makes systemd-networkd leave a device alone: a file that is
// tried before the others.
func networkdLeaves(d Device) []string {
	match, word := "Name="+d.Name, d.Name
	if !d.isPF() && d.Driver != "" {
		match, word = "Driver="+d.Driver, d.Driver
	}
	if shellWord(word) != word {
		return nil // a name that must not get into a shell command
	}
	return []string{
		`printf '[Match]\n` + match + `\n[Link]\nUnmanaged=yes\n' >/etc/systemd/network/00-culvert-` + word + `.network`,
		"networkctl reload",
	}
}

// vfClaims returns the claims of the [SR-IOV] sections, which .link and .network share.
func (u unitFile) vfClaims(d Device, manager, reload string) []Claim {
	var out []Claim
	for _, s := range u.sections {
		if s.name != "SR-IOV" || !d.isPF() {
			continue
		}
		c := d.newClaim(manager, entry{file: s.file, line: s.line}, VFSettings)
		c.Says = "[SR-IOV]"
		if n, ok := parseIndex(s.lastValue("VirtualFunction")); ok {
			c.VFs = []int{n}
			c.Says = "[SR-IOV] VirtualFunction=" + s.lastValue("VirtualFunction")
		}
		out = append(out, handOver(c, reload))
	}
	return out
}

// handOver sets the HandOver of a claim to the removal of its line, and the command that reloads
// the program.
func handOver(c Claim, reload ...string) Claim {
	c.HandOver = append([]string{"remove " + c.Says + " from " + c.Where()}, reload...)
	return c
}

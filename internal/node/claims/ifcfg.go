package claims

import (
	"path"
	"strings"
)

// networkScripts is the manager of RHEL's files that NetworkManager leaves to the service network.
const networkScripts = "network-scripts"

// ifcfgDir is the folder of RHEL's files. NetworkManager reads them by its plugin ifcfg-rh, and the
// service network reads them where it is installed.
const ifcfgDir = "etc/sysconfig/network-scripts"

// ifcfgRules are the files ifcfg-* of RHEL and its relatives (nm-settings-ifcfg-rh(5)).
type ifcfgRules struct {
	scripts bool // the service network is installed
	files   []ifcfgFile
}

// ifcfgFile is one of the files: shell assignments, of which the last of a name counts.
type ifcfgFile struct {
	file    string
	order   []string
	entries map[string]entry
}

func readIfcfg(l *loader) ifcfgRules {
	r := ifcfgRules{scripts: l.fileExists(ifcfgDir + "/ifup-eth")}
	for _, f := range l.listFiles(ifcfgDir, "") {
		base := path.Base(f)
		if strings.HasPrefix(base, "ifcfg-") && !strings.HasSuffix(base, "~") && !strings.HasSuffix(base, ".bak") && !strings.HasSuffix(base, ".rpmsave") {
			r.files = append(r.files, parseIfcfg("/"+f, l.readText(f)))
		}
	}
	return r
}

func parseIfcfg(file string, text []byte) ifcfgFile {
	f := ifcfgFile{file: file, entries: map[string]entry{}}
	for _, n := range joinLines(text, "#") {
		for _, c := range splitCommands(n.text) {
			for _, w := range c.words {
				m := assignment.FindStringSubmatch(w)
				if m == nil {
					continue
				}
				if _, again := f.entries[m[1]]; !again {
					f.order = append(f.order, m[1])
				}
				f.entries[m[1]] = entry{file: file, line: n.number, key: m[1], value: m[2]}
			}
		}
	}
	return f
}

func (f ifcfgFile) valueOf(key string) string { return f.entries[key].value }

// isEthernet reports whether a file is for a NIC.
func (f ifcfgFile) isEthernet() bool {
	t := f.valueOf("TYPE")
	return t == "" || strings.EqualFold(t, "Ethernet")
}

// matchesDevice reports whether a file is for a device. A file that names no device is for one of its
// own name.
func (f ifcfgFile) matchesDevice(d Device) bool {
	name, mac := f.valueOf("DEVICE"), f.valueOf("HWADDR")
	if name == "" && mac == "" {
		name = strings.TrimPrefix(path.Base(f.file), "ifcfg-")
	}
	return f.isEthernet() && (name == "" || name == d.Name && d.Name != "") && (mac == "" || strings.EqualFold(mac, d.MAC.String()))
}

// leftByNM reports whether NetworkManager leaves a device alone because of a file.
func (r ifcfgRules) leftByNM(d Device) bool {
	for _, f := range r.files {
		if f.matchesDevice(d) && isNo(f.valueOf("NM_CONTROLLED")) {
			return true
		}
	}
	return false
}

// hasProfile reports whether a file is NetworkManager's profile of a device.
func (r ifcfgRules) hasProfile(d Device) bool {
	for _, f := range r.files {
		if f.matchesDevice(d) && !isNo(f.valueOf("NM_CONTROLLED")) {
			return true
		}
	}
	return false
}

func (r ifcfgRules) claimsOn(d Device, nmActive bool) []Claim {
	var out []Claim
	for _, f := range r.files {
		switch {
		case !f.matchesDevice(d):
		case isNo(f.valueOf("NM_CONTROLLED")):
			if r.scripts {
				out = append(out, f.claimsOn(d, networkScripts)...)
			}
		case nmActive:
			out = append(out, f.profileClaims(d)...)
			out = append(out, f.claimsOn(d, NetworkManager)...)
		case r.scripts:
			out = append(out, f.claimsOn(d, networkScripts)...)
		}
	}
	return out
}

// profileClaims returns the claims that only NetworkManager makes of a file.
func (f ifcfgFile) profileClaims(d Device) []Claim {
	if !d.isPF() {
		return nil
	}
	var out []Claim
	for _, key := range f.order {
		e := f.entries[key]
		index, isVF := strings.CutPrefix(key, "SRIOV_VF")
		switch n, ok := parseIndex(index); {
		case key == "SRIOV_TOTAL_VFS":
			out = append(out, handOver(d.newClaim(NetworkManager, e, Count), "nmcli connection reload"))
		case isVF && ok:
			c := d.newClaim(NetworkManager, e, VFSettings)
			c.VFs = []int{n}
			out = append(out, handOver(c, "nmcli connection reload"))
		}
	}
	return out
}

// claimsOn returns the claims of either manager.
func (f ifcfgFile) claimsOn(d Device, manager string) []Claim {
	var out []Claim
	if e, ok := f.entries["MTU"]; ok && e.value != "" {
		out = append(out, handOver(d.newClaim(manager, e, MTU)))
	}
	e, ok := f.entries["DEVICE"]
	if !ok {
		e = entry{file: f.file, key: "HWADDR", value: f.valueOf("HWADDR")}
	}
	c := d.newClaim(manager, e, Managed)
	c.Value = ""
	if manager == NetworkManager {
		c.HandOver = nmLeaves(d)
	} else {
		c.HandOver = []string{"remove " + f.file}
	}
	return append(out, c)
}

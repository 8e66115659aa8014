package claims

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// handLine is a line that sets the number of VFs, written by hand.
type handLine struct {
	entry
	manager string
	// driver is set for options of a kernel module, which affect only PFs of that driver.
	driver string
}

// byHandPlaces are the files in which people write to sriov_numvfs.
var byHandPlaces = []struct {
	dir      string
	suffixes []string
	manager  string
}{
	{"etc/udev/rules.d", []string{".rules"}, Udev},
	{"etc/systemd/system", []string{".service"}, "systemd"},
	{"etc/tmpfiles.d", []string{".conf"}, "systemd-tmpfiles"},
	{"etc/sysfs.d", []string{".conf"}, "sysfsutils"},
	{"etc/cron.d", []string{""}, "cron"},
	{"etc/NetworkManager/dispatcher.d", []string{""}, NetworkManager},
	{"etc/networkd-dispatcher/routable.d", []string{""}, "networkd-dispatcher"},
	{"etc/modprobe.d", []string{".conf"}, "modprobe"},
}

var byHandFiles = []string{"etc/rc.local", "etc/rc.d/rc.local", "etc/sysfs.conf", "etc/crontab"}

func readByHand(l *loader) []handLine {
	var out []handLine
	for _, p := range byHandPlaces {
		for _, f := range l.listFiles(p.dir, p.suffixes...) {
			out = append(out, parseByHand("/"+f, p.manager, l.readText(f))...)
		}
	}
	for _, f := range byHandFiles {
		out = append(out, parseByHand("/"+f, ByHand, l.readText(f))...)
	}
	return out
}

// maxVFs is a module's option for the number of VFs of each of its PFs, which
// old drivers have.
var maxVFs = regexp.MustCompile(`^options\s+(\S+)\s.*\bmax_vfs=(\S+)`)

// parseByHand finds the lines that set the number of VFs. It skips comments.
func parseByHand(file, manager string, text []byte) []handLine {
	var out []handLine
	line := 0
	for raw := range strings.Lines(string(text)) {
		line++
		s := strings.TrimSpace(raw)
		if s == "" || s[0] == '#' || s[0] == ';' {
			continue
		}
		e := entry{file: file, line: line}
		if m := maxVFs.FindStringSubmatch(s); m != nil && path.Dir(file) == "/etc/modprobe.d" {
			e.key, e.value = s, m[2]
			out = append(out, handLine{entry: e, manager: manager, driver: strings.ReplaceAll(m[1], "-", "_")})
			continue
		}
		if !strings.Contains(s, "sriov_numvfs") || !writesNumVFs(s) {
			continue
		}
		e.key, e.value = s, writtenNumber(s)
		out = append(out, handLine{entry: e, manager: manager})
	}
	return out
}

// written are the forms in which sriov_numvfs is set, with the number: by a
// shell, by udev, by tmpfiles.d and by sysfsutils.
var written = []*regexp.Regexp{
	regexp.MustCompile(`(?:echo|printf)\s+(?:-n\s+)?["']?([0-9]+)(?:\\n)?["']?\s*(?:>+|\|)`),
	regexp.MustCompile(`sriov_numvfs}\s*=\s*"([0-9]+)"`),
	regexp.MustCompile(`sriov_numvfs(?:\s+\S+){4}\s+["']?([0-9]+)`),
	regexp.MustCompile(`sriov_numvfs\s*=\s*([0-9]+)`),
}

// writtenNumber returns the number that a line writes; empty where the line does not have it as a
// literal.
func writtenNumber(s string) string {
	for _, form := range written {
		if m := form.FindStringSubmatch(s); m != nil {
			return m[1]
		}
	}
	return ""
}

// writesNumVFs reports whether a line sets sriov_numvfs and does not only read it.
func writesNumVFs(s string) bool {
	return writtenNumber(s) != "" || strings.Contains(s, ">") || strings.Contains(s, "tee ")
}

// mentionsDevice reports whether a line names a device, as a word of its own.
func mentionsDevice(s string, d Device) bool {
	all := splitWords(s)
	return d.Name != "" && slices.Contains(all, d.Name) || slices.Contains(all, d.PCI.String())
}

// splitWords splits a line at characters that occur in no name or address.
func splitWords(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-:", r)
	})
}

// onByHand returns the claims of the lines on the PFs that they name. A line that names no PF
// becomes a claim on no PF in particular.
func onByHand(lines []handLine, devices []Device) []Claim {
	var out []Claim
	for _, h := range lines {
		claim := func(d Device) {
			c := d.newClaim(h.manager, h.entry, Count)
			c.Says, c.VFs = excerpt.Line(h.key), nil
			c.HandOver = []string{"remove that line from " + c.Where()}
			out = append(out, c)
		}
		pfs := h.namedPFs(devices)
		for _, d := range pfs {
			claim(d)
		}
		if len(pfs) == 0 && h.driver == "" && len(devices) > 0 {
			claim(Device{VF: -1})
		}
	}
	return out
}

// namedPFs returns the PFs that a line names: by name or address, else by driver.
func (h handLine) namedPFs(devices []Device) []Device {
	driver := h.driver
	var named, driven []Device
	for _, d := range devices {
		switch {
		case !d.isPF():
		case driver == "" && mentionsDevice(h.key, d):
			named = append(named, d)
		case d.Driver != "" && (driver == d.Driver || driver == "" && slices.Contains(splitWords(h.key), d.Driver)):
			driven = append(driven, d)
		}
	}
	if len(named) > 0 {
		return named
	}
	return driven
}

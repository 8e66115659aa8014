package survey

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Modules says which kernel modules are loaded and which could be.
type Modules struct {
	Loaded []string // including built-in modules that sysfs shows
	// Available has the modules that modprobe finds, and the built-in modules. It is nil if the
	// running kernel's folder of modules does not exist.
	Available []string
	// Blocked has the modules that a file of modprobe.d keeps from being loaded, by alias
	// (blacklist) or at all (install), and the file that does so.
	Blocked map[string]string
	// VFIOIDs has the models that vfio-pci binds to, as "8086:10ca", and the place whose parameter
	// ids= names them: a file of modprobe.d or the kernel's arguments. sysfs does not show them
	// (drivers/vfio/pci/vfio_pci.c, ids has mode 0).
	VFIOIDs map[string]string
}

// Has reports whether a module is loaded.
func (m Modules) Has(name string) bool { return slices.Contains(m.Loaded, moduleName(name)) }

// Can reports whether a module is loaded or could be; it returns true if the available modules are
// not known.
func (m Modules) Can(name string) bool {
	return m.Has(name) || m.Available == nil || slices.Contains(m.Available, moduleName(name))
}

// moduleName returns the kernel's spelling of a module's name.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// OfArgument begins the place of an argument of the kernel.
const OfArgument = "the kernel's argument "

// modprobeDirs are the folders of modprobe.d(5), the most important first.
var modprobeDirs = []string{"etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"}

func (r *reader) readModules(release string, cmdline []string) Modules {
	m := Modules{Loaded: r.listNames("sys/module"), Blocked: map[string]string{}, VFIOIDs: map[string]string{}}
	for _, argument := range cmdline {
		if name, option, ok := strings.Cut(argument, "."); ok && moduleName(name) == "vfio_pci" {
			m.addVFIOIDs(OfArgument+argument, option)
		}
	}
	if release != "" && !strings.ContainsAny(release, "/") {
		for _, dir := range []string{"lib/modules/", "usr/lib/modules/"} {
			for _, file := range []string{"modules.dep", "modules.builtin"} {
				m.Available = append(m.Available, ParseModuleList(r.readText(dir+release+"/"+file))...)
			}
		}
	}
	slices.Sort(m.Available)
	m.Available = slices.Compact(m.Available)
	seen := map[string]bool{}
	for _, dir := range modprobeDirs {
		for _, name := range r.listNames(dir) {
			if seen[name] || !strings.HasSuffix(name, ".conf") {
				continue
			}
			seen[name] = true
			text := r.readText(dir + "/" + name)
			for module, line := range ParseBlocked(text) {
				m.Blocked[module] = "/" + dir + "/" + name + ": " + line
			}
			for _, line := range parseVFIOOptions(text) {
				m.addVFIOIDs("/"+dir+"/"+name+": "+strings.Join(line, " "), line[2:]...)
			}
		}
	}
	return m
}

// ParseModuleList reads modules.dep or modules.builtin: one path of a module on each line, and
// after a colon the modules that it depends on. Modules may be compressed.
func ParseModuleList(text []byte) []string {
	var out []string
	for line := range strings.Lines(string(text)) {
		file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name, _, ok := strings.Cut(path.Base(file), ".ko"); ok && name != "" {
			out = append(out, moduleName(name))
		}
	}
	return out
}

// ParseBlocked reads a file of modprobe.d(5): which modules its lines keep
// away, with the line.
func ParseBlocked(text []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 2 && fields[0] == "blacklist":
		case len(fields) >= 3 && fields[0] == "install" && slices.Contains([]string{"/bin/false", "/bin/true", "/usr/bin/false", "/usr/bin/true"}, fields[2]):
		default:
			continue
		}
		out[moduleName(fields[1])] = strings.Join(fields, " ")
	}
	return out
}

// parseVFIOOptions returns the lines of a file of modprobe.d(5) that set parameters of vfio-pci, in
// words: options, the module, and its parameters.
func parseVFIOOptions(text []byte) (out [][]string) {
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == "options" && moduleName(fields[1]) == "vfio_pci" {
			out = append(out, fields)
		}
	}
	return out
}

// addVFIOIDs adds the models of the parameter ids=, which has them with commas in between. Each is a
// vendor and a device, and may have more (vfio_pci_fill_ids).
func (m *Modules) addVFIOIDs(where string, parameters ...string) {
	for _, p := range parameters {
		list, ok := strings.CutPrefix(p, "ids=")
		if !ok {
			continue
		}
		for _, id := range strings.Split(strings.Trim(list, `"`), ",") {
			if parts := strings.SplitN(strings.ToLower(id), ":", 3); len(parts) > 1 {
				m.VFIOIDs[fmt.Sprintf("%04s:%04s", parts[0], parts[1])] = where
			}
		}
	}
}

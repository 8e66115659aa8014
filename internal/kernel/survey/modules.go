package survey

import (
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

// modprobeDirs are the folders of modprobe.d(5), the most important first.
var modprobeDirs = []string{"etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"}

func (r *reader) readModules(release string) Modules {
	m := Modules{Loaded: r.listNames("sys/module"), Blocked: map[string]string{}}
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
			for module, line := range ParseBlocked(r.readText(dir + "/" + name)) {
				m.Blocked[module] = "/" + dir + "/" + name + ": " + line
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

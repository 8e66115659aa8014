package claims

import (
	"path"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// ifupdownRules are the stanzas of /etc/network/interfaces (interfaces(5)) and of the files that it
// sources.
type ifupdownRules struct {
	active bool // ifupdown is installed: its state folder exists
	ifaces []iface
	hand   []handLine // see byHand
}

// iface is an iface stanza.
type iface struct {
	name   string
	method string
	at     entry
	lines  []entry // key: the option; value: the rest of the line
}

func readIfupdown(l *loader) ifupdownRules {
	r := ifupdownRules{active: l.fileExists("run/network")}
	l.sources = true
	defer func() { l.sources = false }()
	r.readFile(l, "etc/network/interfaces", map[string]bool{})
	r.scanCommands(l)
	return r
}

func (r *ifupdownRules) readFile(l *loader, name string, seen map[string]bool) {
	if seen[name] || len(seen) > maxFiles {
		return
	}
	seen[name] = true
	ifaces, sources := parseInterfaces("/"+name, l.readText(name))
	r.ifaces = append(r.ifaces, ifaces...)
	for _, s := range sources {
		pattern := s.value
		if !path.IsAbs(pattern) {
			pattern = path.Join("/", path.Dir(name), pattern)
		}
		dir, base := path.Split(path.Clean(pattern))
		if s.key == "source-directory" {
			dir, base = pattern, "*"
		}
		if strings.ContainsAny(dir, "*?[") {
			continue // a pattern of folders, which no known configuration has
		}
		for _, f := range l.listFiles(strings.Trim(path.Clean(dir), "/"), "") {
			if ok, err := path.Match(base, path.Base(f)); err == nil && ok {
				r.readFile(l, f, seen)
			}
		}
	}
}

// parseInterfaces reads one file: its stanzas and the files that it sources.
func parseInterfaces(file string, text []byte) (ifaces []iface, sources []entry) {
	inIface := false
	for _, n := range joinLines(text, "#") {
		fields := strings.Fields(n.text)
		if len(fields) == 0 {
			continue
		}
		e := entry{file: file, line: n.number, key: fields[0], value: strings.Join(fields[1:], " ")}
		switch {
		case e.key == "iface" && len(fields) > 1:
			i := iface{at: e}
			i.name, _, _ = strings.Cut(fields[1], "=")
			i.name, _, _ = strings.Cut(i.name, ":")
			if len(fields) > 3 {
				i.method = fields[3]
			}
			ifaces, inIface = append(ifaces, i), true
		case e.key == "source" || e.key == "source-directory":
			sources, inIface = append(sources, e), false
		case e.key == "mapping" || e.key == "auto" || e.key == "rename" || e.key == "template" || strings.HasPrefix(e.key, "allow-") || strings.HasPrefix(e.key, "no-"):
			inIface = false
		case inIface:
			last := &ifaces[len(ifaces)-1]
			last.lines = append(last.lines, e)
		}
	}
	return ifaces, sources
}

// namesDevice reports whether a stanza is about a device.
func (r ifupdownRules) namesDevice(device string) bool {
	return slices.ContainsFunc(r.ifaces, func(i iface) bool { return i.name == device && device != "" })
}

// commands are the options whose value a shell runs.
var commands = []string{"pre-up", "up", "post-up", "down", "pre-down", "post-down"}

func (r ifupdownRules) claimsOn(d Device) []Claim {
	if !r.active {
		return nil
	}
	var out []Claim
	for _, i := range r.ifaces {
		if d.isCalled(i.name) {
			e := i.at
			c := d.newClaim(Ifupdown, entry{file: e.file, line: e.line}, Managed)
			c.Says = excerpt.Line(e.key + " " + e.value)
			c.HandOver = []string{"remove the stanza iface " + i.name + " from " + c.Where()}
			if i.method != "manual" || !d.isPF() {
				out = append(out, c)
			}
		}
		for _, e := range i.lines {
			if e.key == "mtu" && d.isCalled(i.name) {
				c := d.newClaim(Ifupdown, entry{file: e.file, line: e.line, value: e.value}, MTU)
				c.Says = excerpt.Line(e.key + " " + e.value)
				c.HandOver = []string{"remove that line from " + c.Where()}
				out = append(out, c)
			}
		}
	}
	return out
}

// byHand returns what the commands of the stanzas set.
func (r ifupdownRules) byHand() []handLine {
	if !r.active {
		return nil
	}
	return r.hand
}

// scanCommands reads the commands of the stanzas, which a shell runs with the stanza's name as
// $IFACE.
func (r *ifupdownRules) scanCommands(l *loader) {
	s := &scanner{l: l, seen: map[string]bool{}}
	for _, i := range r.ifaces {
		for _, e := range i.lines {
			if slices.Contains(commands, e.key) {
				src := &source{file: e.file, manager: Ifupdown, vars: variables{"IFACE": {i.name}}, says: e.key + " " + e.value}
				s.scanLine(src, textLine{e.line, e.value}, e.value)
			}
		}
	}
	r.hand = s.lines
}

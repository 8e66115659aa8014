package survey

import (
	"encoding/xml"
	"strings"
)

// openPorts returns the ports that firewalld's default zone opens by number, as its files say
// (firewalld.zone(5)). It does not know the ports of firewalld's services.
func (r *reader) openPorts() []string {
	zone := defaultZone(r.readText("etc/firewalld/firewalld.conf"))
	for _, dir := range []string{"etc/firewalld/zones/", "usr/lib/firewalld/zones/"} { // the most important first
		if file := dir + zone + ".xml"; r.fileExists(file) {
			return ParseZone(r.readText(file))
		}
	}
	return nil
}

// defaultZone reads firewalld.conf(5).
func defaultZone(text []byte) string {
	zone := "public"
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DefaultZone="); ok && name != "" && !strings.Contains(name, "/") {
			zone = name
		}
	}
	return zone
}

// ParseZone reads the ports of a zone of firewalld, as 10250/tcp or 30000-32767/tcp.
func ParseZone(text []byte) []string {
	var zone struct {
		Ports []struct {
			Port     string `xml:"port,attr"`
			Protocol string `xml:"protocol,attr"`
		} `xml:"port"`
	}
	if err := xml.Unmarshal(text, &zone); err != nil { // firewalld does not use it either
		return nil
	}
	var out []string
	for _, p := range zone.Ports {
		out = append(out, p.Port+"/"+p.Protocol)
	}
	return out
}

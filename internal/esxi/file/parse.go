package file

import (
	"encoding/hex"
	"fmt"
	"net"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// maxSize bounds the text that Parse reads.
const maxSize = 1 << 20

// Parse reads the text of a file. name names the file in messages.
func Parse(name string, text []byte) (Spec, error) {
	if len(text) > maxSize {
		return Spec{}, fmt.Errorf("%s: %d bytes are too many: at most %d are read", name, len(text), maxSize)
	}
	root, err := readDocument(name, text, "server, and ports, switches or vms", false)
	if err != nil {
		return Spec{}, err
	}
	r := newReader(name)
	spec := r.readSpec(value{Node: root})
	return spec, r.joinMistakes()
}

// ParseCredentials reads the text of a file with a user and a password. Its errors do not show the
// password.
func ParseCredentials(name string, text []byte) (user, password string, err error) {
	root, err := readDocument(name, text, "user and password", true)
	if err != nil {
		return "", "", err
	}
	r := newReader(name)
	r.Secret = true
	o := r.readObject(value{Node: root}, "user", "password")
	user = o.requireText("user", "the name of a user", parseLine)
	password = o.requireText("password", "the password", func(s string) (string, bool) { return s, true })
	return user, password, r.joinMistakes()
}

func (r *reader) readSpec(v value) Spec {
	o := r.readObject(v, "server", "thumbprint", "caFile", "host", "ports", "switches", "vms")
	s := Spec{
		Server:     o.requireText("server", "the name or address of an ESXi host or a vCenter, such as esxi01.example.com", parseServer),
		Thumbprint: o.readText("thumbprint", "the SHA-256 thumbprint of the server's certificate: 64 hexadecimal digits, with or without colons", parseThumbprint),
		CAFile:     o.readText("caFile", "the path of a file with certificates (PEM)", func(s string) (string, bool) { return s, excerpt.Clean(s) == s }),
		Host:       o.readText("host", "the host's name in the vCenter's inventory", parseHost),
	}
	if s.Thumbprint != "" && s.CAFile != "" {
		r.AddMistake(o.fields["caFile"], "thumbprint is given too: keep one of them")
	}
	seen := names{}
	for _, item := range o.readItems("ports", "ports, such as {nic: vmnic2, vfs: 2}") {
		s.Ports = append(s.Ports, r.readPort(item, seen))
	}
	for _, item := range o.readItems("switches", "virtual switches, such as {name: sriov-a, uplinks: [vmnic2]}") {
		s.Switches = append(s.Switches, r.readSwitch(item, seen))
	}
	for _, item := range o.readItems("vms", "virtual machines, each with name and vfs") {
		s.VMs = append(s.VMs, r.readVM(item, seen))
	}
	return s
}

// names finds names that come twice: the kind and the name, and the line of the first one.
type names map[[2]string]int

// requireDistinct refuses the value of a key that another object of the kind has.
func (o object) requireDistinct(seen names, kind, key, name string) {
	v, found := o.fields[key]
	if !found || name == "" {
		return
	}
	if first := seen[[2]string{kind, name}]; first > 0 {
		o.AddMistake(v, "%s is there already, on line %d: keep one", excerpt.Quote(name), first)
		return
	}
	seen[[2]string{kind, name}] = v.Node.Line
}

func (r *reader) readPort(v value, seen names) Port {
	o := r.readObject(v, "nic", "vfs", "passthrough")
	p := Port{NIC: o.requireText("nic", wantPort, parsePort), VFs: o.readNumber("vfs", 0, 256, -1)}
	o.require("vfs", "a number from 0 to 256")
	off := o.readText("passthrough", "off: pass-through of a whole port excludes VFs", func(s string) (string, bool) { return s, s == "off" || s == "false" })
	p.PassthroughOff = off != ""
	o.requireDistinct(seen, "port", "nic", p.NIC)
	return p
}

func (r *reader) readSwitch(v value, seen names) Switch {
	o := r.readObject(v, "name", "uplinks", "mtu", "security", "portGroups")
	s := Switch{Name: o.requireText("name", "a name of at most 32 characters", parseSwitchName), MTU: o.readNumber("mtu", 1280, 9000, 1500), Security: o.readSecurity()}
	for _, item := range o.readItems("uplinks", "physical ports, such as [vmnic2]") {
		uplink, ok := parsePort(item.Node.Value)
		if !ok || item.Node.Kind != yaml.ScalarNode {
			r.Reject(item, wantPort)
			continue
		}
		if first := seen[[2]string{"uplink", uplink}]; first > 0 {
			r.AddMistake(item, "%s is an uplink on line %d already: a port is the uplink of one switch", uplink, first)
		}
		seen[[2]string{"uplink", uplink}] = item.Node.Line
		s.Uplinks = append(s.Uplinks, uplink)
	}
	for _, item := range o.readItems("portGroups", "port groups, such as {name: vf-a, vlan: 100}") {
		g := r.readObject(item, "name", "vlan", "security")
		group := PortGroup{Name: g.requireText("name", "a name of at most 80 characters", parseLine), VLAN: g.readNumber("vlan", 0, 4095, 0), Security: g.readSecurity()}
		g.requireDistinct(seen, "port group", "name", group.Name)
		s.PortGroups = append(s.PortGroups, group)
	}
	o.requireDistinct(seen, "switch", "name", s.Name)
	return s
}

func (o object) readSecurity() Security {
	v, found := o.fields["security"]
	if !found {
		return Security{}
	}
	s := o.readObject(v, "promiscuous", "macChanges", "forgedTransmits")
	return Security{Promiscuous: s.readBool("promiscuous"), MACChanges: s.readBool("macChanges"), ForgedTransmits: s.readBool("forgedTransmits")}
}

func (r *reader) readVM(v value, seen names) VM {
	o := r.readObject(v, "name", "vfs")
	vm := VM{Name: o.requireText("name", "the name of a virtual machine", parseLine)}
	for _, item := range o.readItems("vfs", "VFs, such as {as: nic, port: vmnic2, portGroup: vf-a}") {
		vm.VFs = append(vm.VFs, r.readVF(item, seen))
	}
	o.requireDistinct(seen, "virtual machine", "name", vm.Name)
	return vm
}

func (r *reader) readVF(v value, seen names) VF {
	o := r.readObject(v, "as", "port", "portGroup", "mac", "address")
	f := VF{
		As:        o.requireText("as", `"nic" (a network adapter) or "device" (a PCI device)`, func(s string) (string, bool) { return s, s == NIC || s == Device }),
		Port:      o.requireText("port", wantPort, parsePort),
		PortGroup: o.readText("portGroup", "the name of a port group", parseLine),
		MAC:       o.readText("mac", "a unicast MAC address, such as 00:50:56:01:02:03", parseMAC),
		Address:   o.readText("address", "the PCI address of a VF, such as 0000:03:0a.0", parseAddress),
	}
	switch f.As {
	case NIC:
		o.require("portGroup", "the name of a port group")
		o.refuseKey("address", `the host chooses the VF of a "nic": remove it, or write as: device`)
	case Device:
		o.refuseKey("portGroup", `a "device" is on no port group: remove it, or write as: nic`)
		o.refuseKey("mac", `the guest has the MAC address of a "device": remove it, or write as: nic`)
	}
	o.requireDistinct(seen, "MAC address", "mac", f.MAC)
	o.requireDistinct(seen, "PCI address", "address", f.Address)
	return f
}

// refuseKey reports a key that does not go with the others.
func (o object) refuseKey(key, why string) {
	if v, found := o.fields[key]; found {
		o.AddMistake(v, "%s: %s", o.NameValue(v), why)
	}
}

const wantPort = "the name of a physical port, such as vmnic2"

var (
	portForm    = regexp.MustCompile(`^vmnic[0-9]{1,4}$`)
	addressForm = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	serverForm  = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?$`)
)

func parsePort(s string) (string, bool) { return s, portForm.MatchString(s) }

func parseServer(s string) (string, bool) { return s, serverForm.MatchString(s) }

func parseAddress(s string) (string, bool) {
	s = strings.ToLower(s)
	return s, addressForm.MatchString(s)
}

// parseLine accepts a name as the API carries it: at most 80 characters, on one line.
func parseLine(s string) (string, bool) { return s, isLine(s, 80) }

// parseHost accepts the name of a host, which may be a whole DNS name.
func parseHost(s string) (string, bool) { return s, isLine(s, 255) }

func isLine(s string, most int) bool {
	return utf8.RuneCountInString(s) <= most && strings.TrimSpace(s) == s && excerpt.Clean(s) == s
}

// parseSwitchName accepts the name of a virtual switch: HostNetworkSystem.AddVirtualSwitch limits
func parseSwitchName(s string) (string, bool) {
	return s, isLine(s, 32)
}

func parseMAC(s string) (string, bool) {
	mac, err := net.ParseMAC(s)
	return mac.String(), err == nil && len(mac) == 6 && mac[0]&1 == 0 && mac.String() != "00:00:00:00:00:00"
}

func parseThumbprint(s string) (string, bool) {
	digits := strings.ToUpper(strings.ReplaceAll(s, ":", ""))
	_, err := hex.DecodeString(digits)
	return digits, err == nil && len(digits) == 64
}

package netannotation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// MaxElements is the largest number of networks in an annotation.
const MaxElements = 64

// Parse reads the annotation of a pod in a namespace: either a JSON list, or
// names with commas between them, each [namespace/]name[@interface]. An empty
// annotation asks for nothing.
//
// The error wraps vf.ErrInvalid and says which element is wrong. Keys of the JSON form
// count in any case, and the last of several that are the same (see fold). Unknown ones
// are let through, as Multus does, and listed in Element.Ignored.
func Parse(annotation, namespace string) ([]Element, error) {
	out, err := parseElements(annotation, namespace)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Networks, err)
	}
	return out, nil
}

// ParseDefault reads the annotation DefaultNetwork, in the same format. It returns no element, or
// one.
func ParseDefault(annotation string) ([]Element, error) {
	out, err := parseElements(annotation, DefaultNamespace)
	if err == nil && len(out) > 1 {
		err = fmt.Errorf("%w: it names %d networks; want one", vf.ErrInvalid, len(out))
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", DefaultNetwork, err)
	}
	return out, nil
}

func parseElements(annotation, namespace string) (out []Element, err error) {
	text := strings.TrimSpace(annotation)
	if len(text) > netconf.MaxText {
		return nil, fmt.Errorf("%w: it has %d bytes; want at most %d", vf.ErrInvalid, len(text), netconf.MaxText)
	}
	switch {
	case text == "":
		return nil, nil
	case strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{"):
		out, err = parseList(text, namespace)
	default:
		out, err = parseShort(text, namespace)
	}
	if err == nil {
		err = refuseSameNames(out)
	}
	return out, err
}

// refuseSameNames refuses two attachments of one interface name.
func refuseSameNames(all []Element) error {
	seen := map[string]Element{}
	for _, e := range all {
		first, twice := seen[e.Interface]
		if twice && e.Interface != "" {
			return fmt.Errorf("interface %s: %w: %s and %s both ask for it", e.Interface, vf.ErrInvalid, first, e)
		}
		seen[e.Interface] = e
	}
	return nil
}

func parseShort(text, namespace string) ([]Element, error) {
	items := strings.Split(text, ",")
	if len(items) > MaxElements {
		return nil, tooMany(len(items))
	}
	var out []Element
	for i, item := range items {
		e, err := shortElement(item, namespace)
		if err != nil {
			return nil, elementError(i, strings.TrimSpace(item), "%s", err)
		}
		out = append(out, e)
	}
	return out, nil
}

// shortElement reads [namespace/]name[@interface]. Space around each part is ignored, and a
// namespace or an interface that is empty is none, as Multus reads them.
func shortElement(item, namespace string) (Element, error) {
	e := Element{Namespace: namespace, Name: item}
	if ns, name, ok := strings.Cut(item, "/"); ok {
		e.Namespace, e.Name = cmp.Or(strings.TrimSpace(ns), namespace), name
	}
	name, device, _ := strings.Cut(e.Name, "@")
	e.Name, e.Interface = strings.TrimSpace(name), strings.TrimSpace(device)
	if e.Interface != "" && (!isInterface(e.Interface) || strings.Contains(e.Interface, "@")) {
		return e, fmt.Errorf("%q after @ is no name for an interface: want 1 to 15 characters without / : @ and spaces", e.Interface)
	}
	return e, e.CheckNames()
}

func tooMany(n int) error {
	return fmt.Errorf("%w: %d networks; want at most %d", vf.ErrInvalid, n, MaxElements)
}

func elementError(i int, item, format string, args ...any) error {
	return fmt.Errorf("element %d (%s): %w: %s", i+1, excerpt.Quote(item), vf.ErrInvalid, fmt.Sprintf(format, args...))
}

// Names of Kubernetes objects (RFC 1123, k8s.io/apimachinery validation).
var (
	objectName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// CheckNames checks the names of the network attachment definition, which end up in
// paths and messages.
func (e Element) CheckNames() error {
	switch {
	case e.Name == "":
		return fmt.Errorf("the network's name is missing: want [namespace/]name[@interface]")
	case len(e.Name) > 253 || !objectName.MatchString(e.Name):
		return fmt.Errorf("%s is no name of a network: want lower-case letters, digits, '-' and '.', a letter or digit at both ends", excerpt.Quote(e.Name))
	case !namespaceName.MatchString(e.Namespace):
		return fmt.Errorf("%s is no namespace: want lower-case letters, digits and '-', at most 63", excerpt.Quote(e.Namespace))
	}
	return nil
}

// isInterface checks a name as Linux's dev_valid_name does (net/core/dev.c), and for ASCII.
func isInterface(s string) bool {
	return s != "" && len(s) <= 15 && s != "." && s != ".." &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == ':' })
}

func parseList(text, namespace string) ([]Element, error) {
	if strings.HasPrefix(text, "{") {
		text = "[" + text + "]" // other readers take an object without the list, too
	}
	o, err := strictjson.Parse([]byte(`{"networks":`+string(foldAnnotation(text))+`}`), "")
	if err != nil || !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%w: %s is neither a JSON list nor names with commas between them", vf.ErrInvalid, excerpt.Quote(text))
	}
	items := o.Objects("networks")
	if len(items) > MaxElements {
		return nil, tooMany(len(items))
	}
	var out []Element
	for _, in := range items {
		out = append(out, parseElement(in, namespace))
	}
	if err := o.Err(); err != nil {
		return nil, err
	}
	for i, in := range items {
		out[i].Ignored = unknownKeys(out[i], in.Keys())
	}
	return out, nil
}

func parseElement(o *strictjson.Object, namespace string) Element {
	e := Element{
		Name: o.String("name"), Namespace: cmp.Or(o.String("namespace"), namespace), DeviceID: o.String("deviceID"),
		Interface: cmp.Or(o.String("interface"), o.String("interfaceRequest")), InfinibandGUID: o.String("infiniband-guid"),
	}
	if err := e.CheckNames(); err != nil && !o.Failed("name") {
		o.Fail("name", "%s%s", err, suggestName(o.Keys()))
	}
	if e.Interface != "" && !isInterface(e.Interface) {
		o.Fail("interface", "want 1 to 15 characters without / : and spaces")
	}
	if mac, ok := strictjson.Text(o, "mac", vf.ParseMAC); ok {
		e.MAC = &mac
	}
	if _, err := net.ParseMAC(e.InfinibandGUID); e.InfinibandGUID != "" && err != nil {
		o.Fail("infiniband-guid", "want bytes in hexadecimal, e.g. c2:11:22:33:44:55:66:77")
	}
	e.IPs = parseAddresses(o, "ips", func(s string) error {
		if !strings.Contains(s, "/") {
			return isAddress(s)
		}
		_, err := netip.ParsePrefix(s)
		return err
	})
	e.DefaultRoute = parseAddresses(o, "default-route", isAddress)
	e.PortMappings = portMappings(o)
	e.Bandwidth = parseBandwidth(o)
	e.CNIArgs = parseArguments(o)
	return e
}

// isAddress refuses a text that is no IP address, and an address with a zone, which means nothing
// in another netns.
func isAddress(s string) error {
	a, err := netip.ParseAddr(s)
	if err == nil && a.Zone() != "" {
		err = errors.New("it has a zone")
	}
	return err
}

// parseAddresses reads a list of addresses, or one alone.
func parseAddresses(o *strictjson.Object, key string, parse func(string) error) []string {
	var all []string
	if raw := o.Raw(key); len(raw) > 0 && raw[0] == '"' {
		if s := o.String(key); s != "" {
			all = []string{s}
		}
	} else {
		all = o.Strings(key)
	}
	for _, s := range all {
		if parse(s) != nil {
			o.Fail(key, "%s: want IP addresses, e.g. 172.16.91.5", excerpt.Quote(s))
		}
	}
	return all
}

const maxPort = 65535

func portMappings(o *strictjson.Object) []PortMapping {
	var out []PortMapping
	for _, in := range o.Objects("portMappings") {
		host, _ := in.Uint("hostPort", 0, maxPort)
		container, ok := in.Uint("containerPort", 1, maxPort)
		if !ok && !in.Failed("containerPort") {
			in.Fail("containerPort", "missing; want a port between 1 and 65535")
		}
		m := PortMapping{HostPort: int(host), ContainerPort: int(container), Protocol: in.String("protocol"), HostIP: in.String("hostIP")}
		switch strings.ToLower(m.Protocol) {
		case "", "tcp", "udp", "sctp":
		default:
			in.Fail("protocol", "want tcp, udp or sctp")
		}
		out = append(out, m)
	}
	return out
}

// parseBandwidth reads rates in bit/s, which may be larger than 32 bits have.
func parseBandwidth(o *strictjson.Object) *Bandwidth {
	in := o.Object("bandwidth")
	if in == nil {
		return nil
	}
	number := func(key string) int {
		raw := in.Raw(key)
		if raw == nil {
			return 0
		}
		var n int
		if json.Unmarshal(raw, &n) != nil || n < 0 {
			in.Fail(key, "want a whole number of bits, 0 or more, without quotes")
		}
		return n
	}
	return &Bandwidth{
		IngressRate: number("ingressRate"), IngressBurst: number("ingressBurst"),
		EgressRate: number("egressRate"), EgressBurst: number("egressBurst"),
	}
}

func parseArguments(o *strictjson.Object) map[string]json.RawMessage {
	in := o.Object("cni-args")
	if in.Empty() {
		return nil
	}
	out := map[string]json.RawMessage{}
	for _, k := range in.Keys() {
		if raw := in.Raw(k); raw != nil {
			out[k] = raw
		}
	}
	return out
}

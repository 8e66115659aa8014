package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// tryAnnotation reads the networks annotation of a pod in namespace default.
func tryAnnotation(input *yaml.Node) (Outcome, error) {
	var text string
	if err := input.Decode(&text); err != nil {
		return nil, err
	}
	elements, err := netannotation.Parse(text, "default")
	if err != nil {
		return nil, err
	}
	if len(elements) == 0 {
		return Outcome{"no networks"}, nil
	}
	var out Outcome
	for i, e := range elements {
		if e.Interface == "" {
			e.Interface = fmt.Sprintf("net%d", i+1)
		}
		out = append(out, describeElement(e))
	}
	return out, nil
}

// describeElement names the network that a pod gets, its interface, and the other settings
// that the pod requests.
func describeElement(e netannotation.Element) string {
	out := []string{e.Namespace + "/" + e.Name + " as " + e.Interface}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if e.MAC != nil {
		add("mac %s", e.MAC)
	}
	if len(e.IPs) > 0 {
		add("ips %s", strings.Join(e.IPs, " "))
	}
	switch {
	case len(e.DefaultRoute) > 0:
		add("default-route %s", strings.Join(e.DefaultRoute, " "))
	case e.DefaultRoute != nil:
		add("default-route none")
	}
	for _, p := range e.PortMappings {
		add("port %d to %d %s", p.HostPort, p.ContainerPort, p.Protocol)
	}
	if b := e.Bandwidth; b != nil {
		add("bandwidth %d %d %d %d", b.IngressRate, b.IngressBurst, b.EgressRate, b.EgressBurst)
	}
	if e.DeviceID != "" {
		add("device %s", e.DeviceID)
	}
	if e.InfinibandGUID != "" {
		add("guid %s", e.InfinibandGUID)
	}
	for _, k := range slices.Sorted(maps.Keys(e.CNIArgs)) {
		add("%s=%s", k, e.CNIArgs[k])
	}
	return strings.Join(out, ", ")
}

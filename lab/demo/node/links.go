package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// linksScript prints a line for each VF by the kernel's sysfs ("PF index PCI-address"), a blank
// line, and all links.
const linksScript = `
	for virtfn in /sys/class/net/*/device/virtfn*; do
		[ -e "$virtfn" ] || continue
		pf=${virtfn#/sys/class/net/}
		echo "${pf%%/*} ${virtfn##*virtfn} $(basename "$(readlink "$virtfn")")"
	done
	echo
	ip -details -json link show`

// VFs has every VF of a node as the kernel shows it, by PF and index ("enp1s0#3"): the
// attributes that stay the same while a VF is at rest, as text. It is read with ip(8),
// independently of Culvert.
type VFs map[string]string

// VFs lists the node's VFs.
func (n Node) VFs(ctx context.Context) (VFs, error) {
	out, err := n.Script(ctx, "list VFs", linksScript)
	if err != nil {
		return nil, err
	}
	return parseLinks(out)
}

// steady lists the attributes of a VF's netdevice that change only when a program changes them.
// It leaves out carrier, the states of queues and the index of the interface.
var steady = []string{"ifname", "address", "permaddr", "mtu", "promiscuity", "allmulti", "master", "altnames", "parentdev"}

// parseLinks reads what linksScript prints.
func parseLinks(text []byte) (VFs, error) {
	table, rest, ok := bytes.Cut(append([]byte("\n"), text...), []byte("\n\n"))
	if !ok {
		return nil, fmt.Errorf("read the list of links: no blank line in %q", lastPart(string(text)))
	}
	var links []map[string]any
	if err := json.Unmarshal(rest, &links); err != nil {
		return nil, fmt.Errorf("read the list of links: %w", err)
	}
	byDevice, byName := map[string]map[string]any{}, map[string]map[string]any{}
	for _, l := range links {
		byDevice[stringOf(l["parentdev"])], byName[stringOf(l["ifname"])] = l, l
	}
	seen := VFs{}
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		var pf, pci string
		var index int
		if lines.Text() == "" {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %s", &pf, &index, &pci); err != nil {
			return nil, fmt.Errorf("read the list of VFs: %q: %w", lines.Text(), err)
		}
		seen[fmt.Sprintf("%s#%d", pf, index)] = fmt.Sprintf("%s %s; %s", pci, describeNetdevice(byDevice[pci]), describeHeld(byName[pf], index))
	}
	return seen, nil
}

func stringOf(v any) string { s, _ := v.(string); return s }

// describeNetdevice describes a VF's own netdevice.
func describeNetdevice(l map[string]any) string {
	if l == nil {
		return "no netdevice on the host"
	}
	parts := []string{}
	for _, key := range steady {
		if v, ok := l[key]; ok {
			parts = append(parts, fmt.Sprintf("%s %v", key, v))
		}
	}
	flags, _ := l["flags"].([]any)
	for _, f := range flags {
		switch f {
		case "UP", "PROMISC", "ALLMULTI", "NOARP":
			parts = append(parts, strings.ToLower(stringOf(f)))
		}
	}
	return strings.Join(parts, " ")
}

// describeHeld lists the PF's settings for a VF, in the order of the keys.
func describeHeld(pf map[string]any, index int) string {
	list, _ := pf["vfinfo_list"].([]any)
	for _, e := range list {
		info, _ := e.(map[string]any)
		if n, ok := info["vf"].(float64); !ok || int(n) != index {
			continue
		}
		parts := []string{"the PF holds"}
		for _, key := range slices.Sorted(maps.Keys(info)) {
			if key != "vf" && key != "stats" {
				parts = append(parts, fmt.Sprintf("%s %v", key, info[key]))
			}
		}
		return strings.Join(parts, " ")
	}
	return "the PF holds nothing"
}

// Changes returns, by name, the earlier and the present state of each VF that changed.
func (before VFs) Changes(after VFs) map[string]string {
	out := map[string]string{}
	for name, was := range before {
		if is := after[name]; is == "" {
			out[name] = "it is gone; it was " + was
		} else if was != is {
			out[name] = fmt.Sprintf("it was %s; it is %s", was, is)
		}
	}
	return out
}

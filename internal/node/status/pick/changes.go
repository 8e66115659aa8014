package pick

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Changes returns the differences between two lists of VFs, in the order of the later one; VFs that
// are gone come last. at is the time of the later list.
func Changes(before, after []api.VF, at time.Time) (out []api.VFChange) {
	type key struct {
		node string
		id   vf.ID
	}
	keyOf := func(v api.VF) key { return key{v.Node, v.ID} }
	was := map[key]api.VF{}
	for _, v := range before {
		was[keyOf(v)] = v
	}
	for _, v := range after {
		old, known := was[keyOf(v)]
		delete(was, keyOf(v))
		c := api.VFChange{Time: at, Op: api.Modify, Node: v.Node, VF: v.Name, Changes: compareVFs(old, v)}
		if !known {
			c.Op = api.Add
		}
		if !known || len(c.Changes) > 0 {
			out = append(out, c)
		}
	}
	for _, v := range before {
		if _, gone := was[keyOf(v)]; gone {
			out = append(out, api.VFChange{Time: at, Op: api.Remove, Node: v.Node, VF: v.Name})
		}
	}
	return out
}

// compareVFs returns what differs between two pictures of a VF, of the things that people watch.
func compareVFs(before, after api.VF) (out []api.Change) {
	old, now := describeVF(before), describeVF(after)
	for i, part := range now {
		if old[i].value != part.value {
			out = append(out, api.Change{Op: api.Modify, Attribute: part.name, From: old[i].value, To: part.value})
		}
	}
	return out
}

type part struct{ name, value string }

func describeVF(v api.VF) []part {
	owner, phase, problem := v.UsedBy, v.Phase, ""
	if v.Owner != nil {
		owner = v.Owner.String()
	}
	if v.Missing {
		phase = api.PhaseMissing
	}
	if n := len(v.Differences) + v.MoreDifferences; n > 0 {
		problem = vf.Differences(v.Differences)
	}
	settings := v.Settings
	return []part{
		{"phase", phase}, {"owner", owner}, {"network", v.Network}, {"addresses", strings.Join(slices.Sorted(slices.Values(v.Addresses)), " ")},
		{"mac", cmp.Or(v.MAC, settings.MAC).String()}, {"driver", v.Driver}, {"netdevice", v.Netdevice}, {"pool", v.Pool},
		{"carrier", map[bool]string{true: "none", false: ""}[v.NoCarrier]}, {"vlan", formatNumber(int(settings.VLAN.ID))},
		{"max_tx_rate", formatNumber(int(settings.MaxTxRate))}, {"min_tx_rate", formatNumber(int(settings.MinTxRate))}, {"problem", problem},
	}
}

func formatNumber(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

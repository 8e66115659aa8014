package page

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
)

// mostFound is how many VFs a search returns.
const mostFound = 50

// findVFs returns the first VFs that match a query.
func findVFs(ctx context.Context, source Source, query string) ([]Found, error) {
	words := strings.Fields(strings.ToLower(query))
	out := []Found{}
	if len(words) == 0 {
		return out, nil
	}
	err := source.ReadNodes(ctx, "", func(n api.NodeStatus) bool {
		for _, v := range n.VFs {
			if hasWords(v, words) && len(out) < mostFound {
				out = append(out, Found{Node: n.Node, VF: v})
			}
		}
		return len(out) < mostFound
	})
	return out, err
}

// hasWords reports whether each of the words is in one of the VF's names. The words are in lower case.
func hasWords(v api.VF, words []string) bool {
	names := append([]string{v.Name, v.PCI.String(), cmp.Or(v.MAC, v.Settings.MAC).String(), v.UsedBy, v.Network, v.Pool}, v.Addresses...)
	if v.Owner != nil {
		names = append(names, v.Owner.String())
	}
	return !slices.ContainsFunc(words, func(word string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(strings.ToLower(name), word) })
	})
}

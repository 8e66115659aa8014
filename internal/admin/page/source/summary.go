package source

import (
	"cmp"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

// Bounds on the lists of an overview, whose size must not depend on the number of VFs.
const (
	mostProblems  = 200
	mostInSegment = 200
	mostInNetwork = 20
)

// summary is what the overview shows of one node, without its problems.
type summary struct {
	row      page.NodeRow
	pools    []page.PoolRow
	segments []page.SegmentRow
	networks []api.Network
}

func summariseNode(n api.NodeStatus) summary {
	s := summary{row: page.NodeRow{Name: n.Node, Version: n.Version, Time: n.Time, PFs: len(n.PFs)}, networks: status.NetworksOf(n)}
	for _, pf := range n.PFs {
		if !pf.Carrier {
			s.row.LinkDown++
		}
		addCounts(&s.row.VFs, pf.VFs)
		if pf.Segment != "" {
			s.segments = append(s.segments, page.SegmentRow{Name: pf.Segment, PFs: []page.NodePF{{Node: n.Node, PF: pf.Name, Carrier: pf.Carrier}}})
		}
	}
	for _, p := range n.Pools {
		s.pools = append(s.pools, page.PoolRow{Name: p.Name, Nodes: 1, VFs: p.VFs})
	}
	return s
}

func addCounts(to *api.Counts, n api.Counts) {
	to.Total += n.Total
	to.Used += n.Used
	to.Free += n.Free
	to.Quarantined += n.Quarantined
	to.Making += n.Making
	to.Unmanaged += n.Unmanaged
}

// makeOverview makes the overview of a cluster. Its nodes need no VFs: their summaries, by name, have what
// the overview shows of them.
func makeOverview(st api.ClusterStatus, summaries map[string]summary) page.Overview {
	out := page.Overview{Name: st.Cluster, Time: st.Time, Nodes: []page.NodeRow{}, Policies: st.Policies}
	networks := st.Networks
	pools, segments := map[string]*page.PoolRow{}, map[vf.Segment]*page.SegmentRow{}
	for _, n := range st.Nodes {
		s := summaries[n.Node]
		s.row.Ready, s.row.Problems = n.Ready, len(n.Problems)
		out.Nodes = append(out.Nodes, s.row)
		networks = append(networks, s.networks...)
		for _, p := range s.pools {
			addPool(pools, p)
		}
		for _, seg := range s.segments {
			addSegment(segments, seg)
		}
	}
	out.Pools = listSorted(pools)
	out.Segments = listSorted(segments)
	out.Networks = boundNetworks(status.MergeNetworks(networks))
	out.Problems, out.MoreProblems = firstProblems(st)
	return out
}

func addPool(all map[string]*page.PoolRow, p page.PoolRow) {
	row := all[p.Name]
	if row == nil {
		row = &page.PoolRow{Name: p.Name}
		all[p.Name] = row
	}
	row.Nodes += p.Nodes
	addCounts(&row.VFs, p.VFs)
}

func addSegment(all map[vf.Segment]*page.SegmentRow, s page.SegmentRow) {
	row := all[s.Name]
	if row == nil {
		row = &page.SegmentRow{Name: s.Name}
		all[s.Name] = row
	}
	for _, pf := range s.PFs {
		if len(row.PFs) == mostInSegment {
			row.More++
			continue
		}
		row.PFs = append(row.PFs, pf)
	}
}

// listSorted returns the values of a map in the order of their keys; never nil.
func listSorted[K cmp.Ordered, T any](all map[K]*T) []T {
	out := []T{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[key])
	}
	return out
}

// boundNetworks cuts the lists of networks.
func boundNetworks(all []api.Network) []page.NetworkRow {
	out := []page.NetworkRow{}
	for _, n := range all {
		row := page.NetworkRow{Network: n}
		row.Nodes, row.MoreNodes = cutList(n.Nodes)
		row.Owners, row.MoreOwners = cutList(n.Owners)
		out = append(out, row)
	}
	return out
}

func cutList(all []string) (first []string, more int) {
	if len(all) <= mostInNetwork {
		return all, 0
	}
	return slices.Clone(all[:mostInNetwork]), len(all) - mostInNetwork
}

// firstProblems returns the problems of no single node and the first one of each node, and how many more
// there are.
func firstProblems(st api.ClusterStatus) (out []page.NodeProblem, more int) {
	out = []page.NodeProblem{}
	for _, p := range st.Problems {
		out = append(out, page.NodeProblem{Problem: p})
	}
	total := len(out)
	for _, n := range st.Nodes {
		total += len(n.Problems)
		if len(n.Problems) > 0 {
			out = append(out, page.NodeProblem{Node: n.Node, Problem: n.Problems[0]})
		}
	}
	out = out[:min(len(out), mostProblems)]
	return out, total - len(out)
}

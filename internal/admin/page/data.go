package page

import (
	"context"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Source is the host or the cluster that the page shows. Its methods read, and change nothing. The server
// calls them while Follow runs, some of them at once.
type Source interface {
	// Follow keeps the source up to date until ctx ends, while a page is open. It calls changed whenever
	// the overview or a node may have changed.
	Follow(ctx context.Context, changed func()) error
	// ReadOverview returns all nodes in short.
	ReadOverview(ctx context.Context) (Overview, error)
	// ReadNodes calls visit with each node, or with the one of that name, until visit returns false. The
	// error is vf.ErrNotFound if there is none of that name.
	ReadNodes(ctx context.Context, name string, visit func(api.NodeStatus) bool) error
	// ReadHistory returns the owners that a VF of a node had, and its events, oldest first.
	ReadHistory(ctx context.Context, node, vf string) (History, error)
	// ReadEvents returns at most limit events of a node, or of all nodes if node is empty, newest first.
	ReadEvents(ctx context.Context, node string, limit int) ([]api.Event, error)
	// ReadPlans returns the effect of the files that the user named with --plan.
	ReadPlans(ctx context.Context) ([]Plan, error)
}

// Overview is a host or a cluster in short: one row for each node, and what concerns several nodes.
// Its size does not depend on the number of VFs.
type Overview struct {
	// Name is that of the cluster, or of the host.
	Name string `json:"name"`
	// Cluster is false for a host.
	Cluster  bool                `json:"cluster"`
	Time     time.Time           `json:"time"`
	Nodes    []NodeRow           `json:"nodes"` // nil in an event summary
	Pools    []PoolRow           `json:"pools"`
	Segments []SegmentRow        `json:"segments"`
	Networks []NetworkRow        `json:"networks"`
	Policies []api.ClusterPolicy `json:"policies"`
	// Problems are those that concern no single node, and the first of each node: at most 200.
	Problems []NodeProblem `json:"problems"`
	// MoreProblems is how many more there are.
	MoreProblems int `json:"moreProblems,omitempty"`
	// HasRates: the source reads the counters of VFs, so the page shows live rates. A cluster's objects
	// have none.
	HasRates bool `json:"hasRates"`
	// Plans: the user named files with --plan.
	Plans bool `json:"plans"`
}

// NodeRow is one node in short.
type NodeRow struct {
	Name     string     `json:"name"`
	Ready    bool       `json:"ready"`
	Version  string     `json:"version"`
	Time     time.Time  `json:"time"` // of the node's report
	PFs      int        `json:"pfs"`
	LinkDown int        `json:"linkDown"` // PFs without a link
	VFs      api.Counts `json:"vfs"`
	Problems int        `json:"problems"`
}

// PoolRow is a pool of all nodes together.
type PoolRow struct {
	Name  string     `json:"name"` // prefix/name
	Nodes int        `json:"nodes"`
	VFs   api.Counts `json:"vfs"`
}

// SegmentRow is an L2 segment with a name.
type SegmentRow struct {
	Name vf.Segment `json:"name"`
	PFs  []NodePF   `json:"pfs"` // at most 200
	More int        `json:"more,omitempty"`
}

// NodePF names a PF of a node.
type NodePF struct {
	Node    string `json:"node"`
	PF      string `json:"pf"`
	Carrier bool   `json:"carrier"`
}

// NetworkRow is a network with the first of its nodes and owners: at most 20 of each.
type NetworkRow struct {
	api.Network
	MoreNodes  int `json:"moreNodes,omitempty"`
	MoreOwners int `json:"moreOwners,omitempty"`
}

// NodeProblem is a problem of a node, or of none.
type NodeProblem struct {
	Node string `json:"node,omitempty"`
	api.Problem
}

// History is the past of one VF.
type History struct {
	Spans  []api.Span  `json:"spans"`
	Events []api.Event `json:"events"`
	// Command shows the history where the source has none: a cluster's objects do not have it.
	Command string `json:"command,omitempty"`
}

// Plan is the effect of one file on one node.
type Plan struct {
	File string   `json:"file"`
	Node string   `json:"node,omitempty"`
	Plan api.Plan `json:"plan"`
	// Error is set if there is no plan.
	Error string `json:"error,omitempty"`
}

// Found is a VF that matches the words of a search.
type Found struct {
	Node string `json:"node"`
	VF   api.VF `json:"vf"`
}

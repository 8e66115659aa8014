// Package conduct plans a measurement and runs it. It chooses the paths between the ends and the arms
// for each path, and decides the order, the number and the length of the runs. It also decides whether
// a run proves its path. A flow is the traffic over one path of a run; most runs have one flow.
//
// The input is an [Order] of ends and presets. The output is a [bench.Result], which says when runs are
// missing. A run that does not prove its path is void: the result gives the reason, and the run is made
// again. Package preset turns a name such as "m4" into arms. The program culvert-bench calls this
// package.
package conduct

// Package demo shows Culvert's main job on two lab nodes, end to end: VFs are
// made at boot, one is given to a container on each node beside an overlay
// interface as Flannel would give it, both ways are measured in turns, and
// every VF is taken back and compared with what it was before.
//
// In go a source tree with its programs built; out come step lines, a report
// for people (report.txt, report.svg) and one for programs (demo.json).
// cmd/culvert calls [Run]. The order is in run.go; what is done on one node is
// in package demo/node.
package demo

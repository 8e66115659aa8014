// Package demo shows Culvert's main job on two lab nodes, end to end: VFs are
// made at boot, one is given to a container on each node beside an overlay
// interface as Flannel would give it, both ways are measured in turns, and
// every VF is taken back and compared with what it was before.
//
// [RunKubernetes] shows the same on a cluster: Culvert is installed, pods of
// people's manifests get VFs, and what a VF adds to a pod's start is timed.
//
// In go a source tree with its programs built; out come step lines, a report
// for people (report.txt, report.html with report.json.gz) and one for programs
// (demo.json), or those with -k8s in their names. cmd/culvert calls both. The order
// is in run.go and kubernetes.go; what is done on one node is in package
// lab/demo/node.
package demo

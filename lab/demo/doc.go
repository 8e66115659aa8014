// Package demo shows Culvert's main job on two lab nodes. culvertd makes the VFs at boot and gives one
// to a container on each node. The container also has an overlay interface as Flannel would make it.
// The demo measures both networks in turns, takes every VF back and compares it with its state before.
//
// [RunKubernetes] shows the same on a cluster: it installs Culvert, starts the pods of published
// manifests with VFs, and measures how much a VF adds to the start of a pod.
//
// The input is a source tree with its programs built. The output is a line for each step, a report for
// people (report.txt, report.html with report.json.gz) and one for programs (demo.json); RunKubernetes
// adds -k8s to these names. The program culvert-lab calls both functions. run.go and kubernetes.go have
// the order of the steps, and package lab/demo/node has the work on one node.
package demo

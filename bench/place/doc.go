// Package place puts an agent where traffic is to start or stop.
//
// In goes a person's text for a place ("netns:a", "ssh:root@b", "lab:culvert/worker01") or the
// wish for pods in a cluster; out comes a connection to `culvert-bench agent` there, on a pipe,
// and the way to end it. Opening a place may add a temporary folder with the program, or pods.
// Close removes these, or the end of the pipe does, and at the latest the next run. Nodes of labs
// are reached by the program culvert-lab, pods by kubectl, other hosts by ssh. The program
// culvert-bench opens places and hands the pipes on.
package place

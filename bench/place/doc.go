// Package place puts an agent where traffic is to start or stop.
//
// In goes what a person wrote of a network namespace ("netns:a", "ssh:root@b",
// "lab:culvert/worker01") or the wish for pods in a cluster; out comes a
// connection to `culvert-bench agent` there, on a pipe, and the way to end it.
// Whatever a place needs that was not there, the program in a temporary folder or
// pods, is taken back by Close, by the end of the pipe, and at the latest by the
// next run. Nodes of labs are reached by the program culvert-lab, pods by kubectl,
// other hosts by ssh. The program culvert-bench opens places and hands the pipes on.
package place

// Package place starts an agent where traffic begins or ends.
//
// The input is a person's text for a place ("netns:a", "ssh:root@b", "lab:culvert/worker01") or a
// request for pods in a cluster. The output is a connection to `culvert-bench agent` there, on a pipe,
// and a function that ends it. Opening a place may add a temporary folder with the program, or pods.
// Close removes them; if the program dies first, the end of the pipe removes them, and the next run
// removes the rest. The program culvert-lab reaches the nodes of labs, kubectl reaches pods, and ssh
// reaches other hosts. The program culvert-bench opens places and passes the pipes on.
package place

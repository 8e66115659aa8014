// Package why answers the question that people ask first: why does my pod wait, or my guest? The
// objects of a cluster, or the status of a host, go in. The causes come out, the most probable
// first, each with its source and the next step. It reads nothing itself: package clusterview
// reads the objects, and the CLI prints the answer.
package why

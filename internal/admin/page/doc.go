// Package page serves the page of culvert ui: a host or a cluster as a picture that stays up to date.
// A Source goes in, which reads culvertd's socket or a cluster with the user's own rights, and HTTP on
// loopback comes out. The files of the folder web are the page: plain ES modules without a build step.
// cmd/culvert calls it.
//
//	GET /?token=T           the user's first request: the token becomes a cookie
//	GET /                   the page, and its files by their names
//	GET /data/overview      Overview
//	GET /data/node?name=N   api.NodeStatus
//	GET /data/find?q=WORDS  the first 50 of []Found: VFs whose name, PCI address, MAC, address,
//	                        owner, network or pool has each of the words
//	GET /data/events?node=N&limit=100      []api.Event, newest first
//	GET /data/history?node=N&vf=NAME       History
//	GET /data/plans         []Plan
//	GET /stream?node=N      server-sent events, of which node is absent while the page shows no node:
//	    event: overview     Overview, at first and when more changed than rows of nodes
//	    event: rows         []NodeRow: those that changed
//	    event: node         api.NodeStatus of N, at first and when it changed
//	    event: rates        []api.VFFlow of N: the traffic of each VF since the event before
//	    event: failure      {"error": "..."}: the source cannot be read; it is tried again
//
// An error is a status code and {"error": "what, and the next step"}.
package page

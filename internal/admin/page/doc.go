// Package page serves the page of culvert ui: a host or a cluster as a picture that stays up to date.
// A Source goes in, which reads culvertd's socket or a cluster with the user's own rights, and HTTP on
// loopback comes out. The files of the folder web are the page: plain ES modules without a build step.
// cmd/culvert calls it, and package source has its Sources.
//
// Any local user and any page in the user's browser can reach a port on loopback. So each request must
// have the printed Host and come from no other page, and needs the cookie of a session. Only the URL with
// the token, which the command prints, begins a session. docs/threat-model.md names each protection and
// its test.
//
//	GET /?token=T           the user's first request: the token becomes a cookie, and works once
//	GET /                   the page, and its files by their names
//	GET /data/overview      Overview
//	GET /data/node?name=N   api.NodeStatus
//	GET /data/find?q=WORDS  the first 50 of []Found: VFs whose name, PCI address, MAC, address,
//	                        owner, network or pool has each of the words
//	GET /data/events?node=N&limit=100      []api.Event, newest first
//	GET /data/history?node=N&vf=NAME       History
//	GET /data/plans         []Plan
//	GET /stream?node=N      server-sent events, of which node is absent while the page shows no node:
//	    event: overview     Overview, at first, after a failure, and when nodes came or went
//	    event: summary      Overview without nodes: more changed than rows of nodes
//	    event: rows         []NodeRow: those that changed
//	    event: node         api.NodeStatus of N, at first and when it changed
//	    event: rates        []api.VFFlow of N: the traffic of each VF since the event before
//	    event: alive        {"time": "..."}: the source was read then, also if nothing changed
//	    event: failure      {"error": "..."}: the source cannot be read; it is tried again, and the last
//	                        picture stays until the next overview
//
// All streams share one feed, which reads the source once a tick while a page is open.
//
// An error is a status code and {"error": "what, and the next step"}.
package page

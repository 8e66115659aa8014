// Package rpc connects the programs of one node with culvertd by a unix socket. A connection has
// one JSON request, and one JSON response or a stream of them (api.RPCRequest, api.RPCResponse).
// The socket's file mode 0600, and a function that checks the peer's credentials of each
// connection, decide who may connect.
//
// In a dialog the server puts questions to the client of a request before it answers: the shim
// runs other CNI plugins for culvertd, which has no place on the host to run one from.
//
// culvertd serves; culvert and culvert-cni call. The client half stays light: the shim is
// exec'd for every attachment of every pod.
package rpc

import "time"

// DefaultSocket is the socket on which culvertd listens.
const DefaultSocket = "/run/culvert/culvertd.sock"

const (
	// maxRequest bounds a request, in bytes.
	maxRequest = 1 << 20
	// maxReply bounds the answer to one question of a dialog, and maxQuestion the question, in
	// bytes. maxQuestions bounds the questions that are open at once in a connection.
	maxReply     = 1 << 20
	maxQuestion  = 1 << 20
	maxQuestions = 16
	// maxResponse bounds the response that a client reads, in bytes.
	maxResponse = 64 << 20
	// maxConnections bounds the clients that are served at once, and so the
	// memory that requests take; further ones wait in the kernel's queue.
	maxConnections = 256
	// requestTime is how long a client may take to send its request, and responseTime how long to
	// receive one response.
	requestTime  = 10 * time.Second
	responseTime = 30 * time.Second
)

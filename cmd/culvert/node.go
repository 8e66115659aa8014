package main

import (
	"context"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
)

// node is the culvertd that the commands ask.
type node struct{ socket string }

// statusBound bounds the time to read the state of nodes, completionBound the time that a
// person waits after Tab.
const (
	statusBound     = 30 * time.Second
	completionBound = 2 * time.Second
)

func (n *node) readStatus(ctx context.Context) (st api.NodeStatus, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusBound)
	defer cancel()
	err = rpc.Call(ctx, n.socket, api.MethodStatus, nil, &st)
	return st, err
}

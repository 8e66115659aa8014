// Command node is culvertd on a kernel in memory, for package story. The tests of package skew build
// it from this tree and from the tree of an older commit.
//
//	node DIR   the ledger, the socket and the answers are in DIR
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/culvert-net/culvert/test/skew/story"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := story.Run(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

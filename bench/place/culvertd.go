package place

import (
	"context"
	"fmt"
	"strings"
)

// Expendable is the flag of an agent in another program's container, which the kernel ends first where
// the container's memory is short.
const Expendable = "--expendable"

// OpenCulvertd starts an agent in the pod of a node's culvertd, beside culvertd's socket. It asks the
// API server for no more than a user who measures may do anyway (docs/bench.md): a user who may exec
// into pods of this namespace may exec into culvertd's. The pods of a measurement have no part in it.
func (c Cluster) OpenCulvertd(ctx context.Context, node string) (*Pipe, error) {
	out, err := c.runKubectl(ctx, c.System, nil, "get", "pods", "--selector", "app.kubernetes.io/name=culvertd", "--field-selector", "spec.nodeName="+node+",status.phase=Running",
		"--output", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return nil, fmt.Errorf("look for the pod of culvertd on %s: %w", node, err)
	}
	names := strings.Fields(string(out))
	if len(names) == 0 {
		return nil, fmt.Errorf("no pod of culvertd runs on %s in namespace %s: --system-namespace names another; where culvertd runs on the host itself, measure with --from ssh:%[1]s", node, c.System)
	}
	return c.execAgent(ctx, c.System, names[0], Expendable)
}

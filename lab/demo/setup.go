package demo

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// setupCode is the code that decides what nodes have before Culvert is installed. Each file whose
// functions nodeSetup calls belongs to it.
//
//go:embed setup.go node/container.go node/node.go node/overlay.go
var setupCode embed.FS

// nodeSetup returns the work on nodes that does not depend on Culvert's programs: containerd runs,
// the CNI project's plugins are installed, and the nodes are joined to the overlay. Labs start from
// a snapshot that was taken after it.
func nodeSetup(parts node.Parts) (*lab.Setup, error) {
	key, err := setupKey(setupCode, parts.CNI)
	return &lab.Setup{
		Key: key,
		Run: func(ctx context.Context, l *lab.Lab, step func(string, ...any)) error {
			step("starting containerd; joining the nodes to the overlay: VXLAN, bridge, veth, MTU 1450")
			return onAll(ctx, l, func(n node.Node, ctx context.Context) error {
				var g errgroup.Group
				g.Go(func() error { return n.Lab.Copy(ctx, n.Name, parts.CNI, "/opt/cni/bin") })
				g.Go(func() error { return prepareContainers(ctx, n) })
				g.Go(func() error { return n.JoinOverlay(ctx, nodeCount) })
				return g.Wait()
			})
		},
	}, err
}

// prepareContainers starts containerd, and a container once: the programs that start one are then in
// the node's memory.
func prepareContainers(ctx context.Context, n node.Node) error {
	const first = "first"
	if err := n.Prepare(ctx); err != nil {
		return err
	}
	if err := n.AddNetns(ctx, first); err != nil {
		return err
	}
	c, err := n.Start(ctx, first, "sleep", "infinity")
	if err != nil {
		return err
	}
	if err := c.Delete(ctx); err != nil {
		return err
	}
	return n.DelNetns(ctx, first)
}

// prepareSetup returns a [lab.Options.Prepare] that wants a setup and no layer.
func prepareSetup(setup *lab.Setup) func(context.Context, func(string, ...any)) (lab.Software, error) {
	return func(context.Context, func(string, ...any)) (lab.Software, error) {
		return lab.Software{Setup: setup}, nil
	}
}

// setupKey identifies the work of nodeSetup: by its code, and by the folder of the plugins, whose
// name has their versions.
func setupKey(code fs.FS, plugins string) (string, error) {
	sum, err := lab.HashFiles(code)
	return fmt.Sprintf("demo %s %s", sum, plugins), err
}

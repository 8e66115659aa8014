package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Layer is software that nodes have on their disks besides that of the image. It is installed
// once, on a lab of its own, and the disk is kept with the image; the nodes' disks are layered on
// it.
type Layer struct {
	// Name identifies the content of the layer: another name means another layer. It is a valid
	// part of a lab's name, of at most 24 characters.
	Name string
	// Install installs the software on the only node of a lab that was made for it, and ends the
	// programs that use the disk.
	Install func(ctx context.Context, l *Lab, node string, step func(format string, args ...any)) error
}

// errKept makes Up take the lab of a layer down again once the layer is kept.
var errKept = errors.New("the layer is kept")

// findDisk returns the file that nodes' disks are layered on: the image's own, or the layer's.
// a is the addition of the image. findDisk makes a layer that does not exist. When two callers come
// at once, one makes it and the other waits for it.
func (y *Layer) findDisk(ctx context.Context, p *Steps, img image, a Addition) (string, error) {
	if y == nil {
		return img.diskPath(), nil
	}
	made := img.layer(y.Name)
	if made.isBuilt() {
		made.markUsed()
		return made.diskPath(), nil
	}
	p.Step("installing %s on a disk that nodes start from (once; kept in %s)", y.Name, filepath.Dir(img.dir))
	node := nodeName(1)
	_, err := Up(ctx, Options{
		Name: "layer-" + y.Name, Nodes: 1, Addition: a, NoSnapshot: true,
		Prepare: func(context.Context, func(string, ...any)) (Software, error) {
			if made.isBuilt() { // another caller made it while this one waited
				return Software{}, errKept
			}
			return Software{}, nil
		},
		Finish: func(ctx context.Context, l *Lab, _ func(string, ...any)) error {
			if err := y.Install(ctx, l, node, p.Step); err != nil {
				return err
			}
			if err := l.powerOff(ctx, node); err != nil {
				return err
			}
			if err := os.MkdirAll(made.dir, 0o755); err != nil {
				return err
			}
			return errors.Join(os.Rename(l.paths.diskPath(node), made.diskPath()), errKept)
		},
	})
	if !errors.Is(err, errKept) || !made.isBuilt() {
		return "", fmt.Errorf("install %s: %w", y.Name, err)
	}
	made.removeOldImages(time.Now())
	return made.diskPath(), nil
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// offTime bounds the shutdown of a node.
const offTime = 2 * time.Minute

// powerOff shuts a node down cleanly, so that its disk is consistent.
func (l *Lab) powerOff(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, offTime, fmt.Errorf("%s is not off after %s", node, offTime))
	defer cancel()
	// The connection may end before the command, so its error says nothing.
	_, _ = l.Exec(ctx, node, Cmd{Argv: []string{"systemctl", "poweroff"}})
	for {
		nodes, err := l.Nodes()
		if err != nil {
			return fmt.Errorf("power %s off: %w", node, err)
		}
		for _, n := range nodes {
			if n.Name == node && n.State == Off {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// layer returns the layer with a name: an image beside the one whose disk it is layered on.
func (i image) layer(name string) image {
	return image{hash: i.hash, dir: i.dir + "-layer-" + name}
}

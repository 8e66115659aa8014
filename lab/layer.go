package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Layer is software that nodes have on their disks besides the image's. It is
// installed once, on a lab of its own, and kept with the image; nodes start from
// it.
type Layer struct {
	// Name decides what the layer holds: another one is another layer. It is a valid
	// part of a lab's name, of at most 24 characters.
	Name string
	// Install puts the software on the one node of a lab that has nothing else to
	// do, and ends what uses the disk.
	Install func(ctx context.Context, l *Lab, node string, step func(format string, args ...any)) error
}

// errKept ends the bringing up of a layer's lab, which is of no use any more.
var errKept = errors.New("the layer is kept")

// disk returns the file that nodes' disks are layered on: the image's own, or the
// layer's, which is made if it is not there. Of two callers at once one makes it,
// and the other waits for it.
func (y *Layer) disk(ctx context.Context, p *Steps, img image) (string, error) {
	if y == nil {
		return img.disk(), nil
	}
	file := img.layer(y.Name)
	if there(file) {
		_ = os.Chtimes(file, time.Time{}, time.Now()) // it is in use; at worst it is made again
		return file, nil
	}
	p.Step("installing %s on a disk that nodes start from (once; kept in %s)", y.Name, filepath.Dir(img.dir))
	node := nodeName(1)
	_, err := Up(ctx, Options{
		Name: "layer-" + y.Name, Nodes: 1, NoSnapshot: true,
		Prepare: func(context.Context, func(string, ...any)) (Software, error) {
			if there(file) { // while this waited
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
			return errors.Join(os.Rename(l.paths.disk(node), file), errKept)
		},
	})
	if !errors.Is(err, errKept) || !there(file) {
		return "", fmt.Errorf("install %s: %w", y.Name, err)
	}
	img.pruneLayers(time.Now())
	return file, nil
}

func there(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// offTime bounds a node's way down.
const offTime = 2 * time.Minute

// powerOff takes a node down in order, so that its disk is whole.
func (l *Lab) powerOff(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, offTime, fmt.Errorf("%s is not off after %s", node, offTime))
	defer cancel()
	// The command may end with the connection.
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

// layer is the file of the layer with a name: beside the image, whose disk it
// is layered on.
func (i image) layer(name string) string { return i.dir + "-layer-" + name + ".qcow2" }

// pruneLayers removes layers that nobody used for long. At worst they stay.
func (i image) pruneLayers(now time.Time) {
	files, _ := filepath.Glob(image{dir: filepath.Join(filepath.Dir(i.dir), "*")}.layer("*"))
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()) > imageAge {
			_ = os.Remove(file)
		}
	}
}

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/culvert-net/culvert/lab/parts"
)

// Parts are folders of this host with the programs that nodes get.
type Parts struct {
	Top string // the source tree, with build/bin in it
	CNI string // cnitool, bridge, host-local and other plugins
}

// FindParts finds the programs of the source tree at top. It builds the CNI project's from
// their Go modules when the cache has none of this version, and reports that to step.
func FindParts(ctx context.Context, top string, step func(string)) (Parts, error) {
	top, err := filepath.Abs(top)
	if err != nil {
		return Parts{}, err
	}
	p := Parts{Top: top}
	for _, program := range []string{"culvert", "culvertd", "culvert-cni", "culvert-bench"} {
		if _, err := os.Stat(filepath.Join(top, "build/bin", program)); err != nil {
			return p, fmt.Errorf("find Culvert's programs: %w: run make build in the source tree first", err)
		}
	}
	p.CNI, err = parts.Find(ctx, top, "cni", func(format string, args ...any) { step(fmt.Sprintf(format, args...)) })
	return p, err
}

package place

import (
	"context"
	"fmt"
	"strings"
)

// Cable returns the function that pulls the cable of a machine's PF, or plugs it in again. It
// returns nil unless all places are nodes of one lab: no other cable can be pulled from here.
func Cable(specs []Spec) func(ctx context.Context, machine, pf string, in bool) error {
	name := ""
	for _, s := range specs {
		of, _, _ := strings.Cut(s.Machine, "/")
		if s.Kind != Lab || name != "" && of != name {
			return nil
		}
		name = of
	}
	if name == "" {
		return nil
	}
	return func(ctx context.Context, machine, pf string, in bool) error {
		if pf == "" {
			return fmt.Errorf("the interface on %s is no VF, so its cable is not known", machine)
		}
		m, err := findLab(ctx, name+"/"+machine)
		if err != nil {
			return err
		}
		_, err = m.runCommand(ctx, "link", machine, pf, map[bool]string{true: "up", false: "down"}[in])
		return err
	}
}

package cni

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// WhereaboutsMode says who gives out the addresses of networks with ipam of type whereabouts.
// It must be the same on all nodes: plugin and pools do not know of each other's addresses.
type WhereaboutsMode string

// The modes.
const (
	WhereaboutsAuto   WhereaboutsMode = "auto"   // the plugin where whereabouts is installed in the cluster, else Culvert
	WhereaboutsPlugin WhereaboutsMode = "plugin" // the plugin of that name
	WhereaboutsPools  WhereaboutsMode = "pools"  // Culvert
)

// ParseWhereaboutsMode reads the flag --whereabouts.
func ParseWhereaboutsMode(s string) (WhereaboutsMode, error) {
	switch m := WhereaboutsMode(s); m {
	case WhereaboutsAuto, WhereaboutsPlugin, WhereaboutsPools:
		return m, nil
	}
	return "", fmt.Errorf("--whereabouts %q: %w: want auto, plugin or pools", s, vf.ErrInvalid)
}

// whereaboutsGroup is the API group of whereabouts' own objects: where the cluster has it,
// whereabouts is installed, though its plugin may not have arrived on a new node.
const whereaboutsGroup = "whereabouts.cni.cncf.io"

// whereaboutsLook is how long the cluster's answer counts, so that not every attach waits for it.
const whereaboutsLook = time.Minute

// Serves returns a function for Handler.ServesWhereabouts. hasGroup reports whether the cluster has
// an API group. Nil stands for no connection to a cluster: then auto is plugin, since pools of this
// node alone would give out the same addresses as other nodes.
func (m WhereaboutsMode) Serves(hasGroup func(ctx context.Context, group string) (bool, error)) func(context.Context) (bool, error) {
	if m != WhereaboutsAuto || hasGroup == nil {
		return func(context.Context) (bool, error) { return m == WhereaboutsPools, nil }
	}
	var (
		mu        sync.Mutex // guards the rest
		installed bool
		asked     time.Time
	)
	return func(ctx context.Context) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if !asked.IsZero() && time.Since(asked) < whereaboutsLook {
			return !installed, nil
		}
		has, err := hasGroup(ctx, whereaboutsGroup)
		if err != nil {
			return false, fmt.Errorf("whether whereabouts is installed in the cluster: %w", err)
		}
		installed, asked = has, time.Now()
		return !installed, nil
	}
}

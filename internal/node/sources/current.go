package sources

import (
	"sync/atomic"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/node/desired"
)

// Current is the present wanted Spec of the node. The zero value wants nothing.
type Current struct {
	spec    atomic.Pointer[desired.Spec]
	changed change.Signal
}

// Spec returns the wanted Spec.
func (c *Current) Spec() desired.Spec {
	if s := c.spec.Load(); s != nil {
		return *s
	}
	return desired.Spec{}
}

// WatchSpec returns the wanted Spec and a channel that is closed when another one
// replaces it.
func (c *Current) WatchSpec() (desired.Spec, <-chan struct{}) {
	changed := c.changed.Next()
	return c.Spec(), changed
}

// SetSpec replaces the wanted Spec; the reconciler's next pass follows it.
func (c *Current) SetSpec(s desired.Spec) {
	c.spec.Store(&s)
	c.changed.Notify()
}

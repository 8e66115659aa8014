package wanted

import (
	"sync/atomic"

	"github.com/culvert-net/culvert/desired"
)

// Current is the Spec that is wanted of the node now. Make one with NewCurrent.
type Current struct{ value atomic.Pointer[version] }

// version is a Spec and the channel that is closed when another one replaces it.
type version struct {
	spec     desired.Spec
	replaced chan struct{}
}

// NewCurrent returns a Current that wants nothing.
func NewCurrent() *Current {
	c := &Current{}
	c.value.Store(&version{replaced: make(chan struct{})})
	return c
}

// Spec returns the wanted Spec.
func (c *Current) Spec() desired.Spec { return c.value.Load().spec }

// WatchSpec returns the wanted Spec and a channel that is closed when another one
// replaces it.
func (c *Current) WatchSpec() (desired.Spec, <-chan struct{}) {
	v := c.value.Load()
	return v.spec, v.replaced
}

// SetSpec replaces the wanted Spec; the reconciler's next pass follows it.
func (c *Current) SetSpec(s desired.Spec) {
	old := c.value.Swap(&version{spec: s, replaced: make(chan struct{})})
	close(old.replaced)
}

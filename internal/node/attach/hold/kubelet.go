package hold

import (
	"context"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// GivenBound is how long Outside waits for the kubelet, and kubeletPause how long it does not ask a
// kubelet again that has not answered. A pass asks for each VF that has changed, and would wait
// GivenBound for each of them.
const (
	GivenBound   = 2 * time.Second
	kubeletPause = 5 * time.Second
)

// kubelet shares the answers to Config.Given. An answer is for everyone who asked before that
// question began. The zero value is ready.
type kubelet struct {
	mu     sync.Mutex // guards the fields below, and is held during a question
	begun  time.Time  // of the last question
	failed time.Time  // by Config.Now: when the last question failed
	given  func(vf.PCIAddr) string
	err    error
}

// ask returns the answer to a question that begins after the call, or the error of the last question
// if that failed less than kubeletPause ago.
func (k *kubelet) ask(ctx context.Context, c Config) (func(vf.PCIAddr) string, error) {
	called := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if since := c.Now().Sub(k.failed); k.begun.After(called) || k.err != nil && since >= 0 && since < kubeletPause {
		return k.given, k.err
	}
	k.begun = time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), GivenBound) // others may wait for the answer
	defer cancel()
	if k.given, k.err = c.Given(ctx); k.err != nil {
		k.failed = c.Now()
	}
	return k.given, k.err
}

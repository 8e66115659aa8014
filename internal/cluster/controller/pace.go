package controller

import (
	"sync"
	"time"
)

// Each write of an AddressPool goes to every node, and a pool of 1,000 nodes has 200 KB: the API
// server would send gigabytes a second. So the controller pauses between the writes of a pool
// with many blocks, and the requests of that time share the next write. A pool of pacedBlocks or
// fewer is written at once, one of 1,000 blocks every 350 ms.
const (
	pacedBlocks  = 256
	timePerBlock = 350 * time.Microsecond
)

// poolPace says when a pool may be written again. The zero value is ready to use.
type poolPace struct {
	mu   sync.Mutex // guards next
	next map[string]pacedWrite
}

type pacedWrite struct{ written, next time.Time }

// noteWrite records a write of a pool with a number of blocks.
func (p *poolPace) noteWrite(pool string, blocks int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, pool)
	if blocks <= pacedBlocks {
		return
	}
	if p.next == nil {
		p.next = map[string]pacedWrite{}
	}
	p.next[pool] = pacedWrite{now, now.Add(time.Duration(blocks) * timePerBlock)}
}

// timeLeft returns how long to wait before the next write of a pool.
func (p *poolPace) timeLeft(pool string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.next[pool]
	if w.written.After(now) { // the clock was set back
		return 0
	}
	return max(0, w.next.Sub(now))
}

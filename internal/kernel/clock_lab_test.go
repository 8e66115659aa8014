package kernel_test

import (
	"testing"
	"time"
)

// clock adds up the parts of a benchmark's iterations.
type clock struct {
	b     *testing.B
	last  time.Time
	names []string
	total map[string]time.Duration
}

func newClock(b *testing.B) *clock {
	return &clock{b: b, last: time.Now(), total: map[string]time.Duration{}}
}

func (c *clock) lap(name string) {
	if _, ok := c.total[name]; !ok {
		c.names = append(c.names, name)
	}
	now := time.Now()
	c.total[name] += now.Sub(c.last)
	c.last = now
}

// report adds one metric a part to the benchmark's line.
func (c *clock) report() {
	for _, name := range c.names {
		c.b.ReportMetric(float64(c.total[name].Microseconds())/1000/float64(c.b.N), name+"-ms")
	}
}

package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/rpc"
)

// apply makes culvertd have that many VFs on each PF.
func (n *node) apply(first, second int) error {
	var got api.ApplyResult
	req := api.HostRequest{File: "host.yaml", Content: n.hostYAML(first, second)}
	if err := rpc.Call(context.Background(), n.socket, "host.apply", req, &got); err != nil {
		return err
	}
	if !got.Applied || len(got.Problems) > 0 {
		return errors.New("host.yaml was not applied: " + string(n.log()))
	}
	return nil
}

func (n *node) noVFs() error {
	return os.WriteFile(filepath.Join("/sys/class/net", n.pfs[0], "device/sriov_numvfs"), []byte("0"), 0)
}

// makes are the times of making 7 VFs, by culvertd and by the kernel alone.
type makes struct{ culvert, floor []time.Duration }

func (n *node) make() (c, f time.Duration, err error) {
	if err := n.apply(0, perPF); err != nil {
		return 0, 0, err
	}
	err = n.freeze(func() (err error) {
		f, err = n.timed(func() error { return n.floor("make", n.pfs[0], strconv.Itoa(perPF)) })
		return errors.Join(err, n.noVFs())
	})
	if err != nil {
		return 0, 0, err
	}
	c, err = n.timed(func() error { return n.apply(perPF, perPF) })
	if err != nil {
		return 0, 0, err
	}
	st, err := n.ready(context.Background())
	n.vfs = st.VFs
	return c, f, err
}

// makesFor returns what the two benchmarks share, as turnsFor does.
func (n *node) makesFor(b *testing.B) makes {
	b.Helper()
	m, ok := n.made[b.N]
	if !ok {
		for range b.N {
			c, f, err := n.make()
			if err != nil {
				b.Fatal(err)
			}
			m.culvert, m.floor = append(m.culvert, c), append(m.floor, f)
		}
		n.made[b.N] = m
	}
	return m
}

// BenchmarkVFCreate makes 7 VFs of one PF: from host.yaml being applied to the
// answer that all are ready, with their addresses, drivers and baselines.
func BenchmarkVFCreate(b *testing.B) {
	m := host.makesFor(b)
	report(b, m.culvert)
	b.ReportMetric(ratio(m.culvert, m.floor), "x-floor")
}

func BenchmarkVFCreateFloor(b *testing.B) { report(b, host.makesFor(b).floor) }

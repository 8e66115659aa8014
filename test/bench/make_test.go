package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench/floor"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
)

// apply makes culvertd create that many VFs on the first PF.
func (n *node) apply(first int, kept bool) error {
	var got api.ApplyResult
	req := api.HostRequest{File: "host.yaml", Content: n.hostYAML(first, kept)}
	if err := rpc.Call(context.Background(), n.socket, api.MethodHostApply, req, &got); err != nil {
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

// makes has the times to make 7 VFs, by culvertd and by the kernel alone: as interfaces, and
// with the host's driver kept off them.
type makes struct{ culvert, floor, kept, floorKept []time.Duration }

func (m *makes) round(n *node) error {
	if err := n.apply(0, false); err != nil {
		return err
	}
	err := n.freeze(func() error {
		for _, f := range []struct {
			bind bool
			into *[]time.Duration
		}{{true, &m.floor}, {false, &m.floorKept}} {
			if err := take(n, f.into, func() error { return n.floor(floor.Make{PF: n.pfs[0], VFs: perPF, Bind: f.bind}) }); err != nil {
				return err
			}
			if err := n.noVFs(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := take(n, &m.kept, func() error { return n.apply(perPF, true) }); err != nil {
		return err
	}
	if err := n.apply(0, false); err != nil {
		return err
	}
	if err := take(n, &m.culvert, func() error { return n.apply(perPF, false) }); err != nil {
		return err
	}
	st, err := n.ready(context.Background())
	n.vfs = st.VFs
	return err
}

// take adds the time that fn takes.
func take(n *node, into *[]time.Duration, fn func() error) error {
	d, err := n.timed(fn)
	*into = append(*into, d)
	return err
}

// makesFor returns the times that the benchmarks share, as turnsFor does.
func (n *node) makesFor(b *testing.B) *makes {
	b.Helper()
	i := n.calls[b.Name()]
	n.calls[b.Name()]++
	for len(n.made) <= i {
		m := &makes{}
		for range b.N {
			if err := m.round(n); err != nil {
				b.Fatal(err)
			}
		}
		n.made = append(n.made, m)
	}
	return n.made[i]
}

// BenchmarkVFCreate makes 7 VFs of one PF: from host.yaml being applied to the
// answer that all are ready, with their addresses, drivers and baselines.
func BenchmarkVFCreate(b *testing.B) {
	m := host.makesFor(b)
	report(b, m.culvert)
	b.ReportMetric(ratio(m.culvert, m.floor), "x-floor")
}

func BenchmarkVFCreateFloor(b *testing.B) { report(b, host.makesFor(b).floor) }

// BenchmarkVFCreateKept is the same for guests: the host's driver is kept off the VFs, which are
// bound to vfio-pci (P17).
func BenchmarkVFCreateKept(b *testing.B) {
	m := host.makesFor(b)
	report(b, m.kept)
	b.ReportMetric(ratio(m.culvert, m.kept), "x-faster")
}

func BenchmarkVFCreateFloorKept(b *testing.B) {
	m := host.makesFor(b)
	report(b, m.floorKept)
	b.ReportMetric(ratio(m.floor, m.floorKept), "x-faster")
}

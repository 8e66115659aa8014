package flow

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

func vfOf(index int, owner string, generation uint64, t *vf.Traffic) api.VF {
	v := api.VF{Name: "enp1s0#" + string(rune('0'+index)), ID: vf.ID{Index: index}, PF: "enp1s0", Index: index, Generation: generation, Traffic: t}
	if owner != "" {
		v.Owner = &vf.Owner{Kind: vf.OwnerPod, Name: owner}
	}
	return v
}

// The loudest VF comes first. A VF has no flow if it has no counters, a new owner or a netdevice that
// was made anew. Free VFs are left out.
func TestBetween(t *testing.T) {
	start := time.Now()
	before := api.NodeStatus{Time: start, VFs: []api.VF{
		vfOf(0, "a/quiet", 1, &vf.Traffic{RxBytes: 1000, TxBytes: 5000}),
		vfOf(1, "a/loud", 1, &vf.Traffic{RxBytes: 1000, RxPackets: 10, TxDropped: 5}),
		vfOf(2, "a/old", 1, &vf.Traffic{RxBytes: 1000}),
		vfOf(3, "a/rebound", 1, &vf.Traffic{RxBytes: 1000}),
		vfOf(4, "", 1, &vf.Traffic{}),
		vfOf(5, "a/dpdk", 1, nil),
	}}
	after := api.NodeStatus{Time: start.Add(2 * time.Second), VFs: []api.VF{
		vfOf(0, "a/quiet", 1, &vf.Traffic{RxBytes: 1000, TxBytes: 6000}),
		vfOf(1, "a/loud", 1, &vf.Traffic{RxBytes: 251000, RxPackets: 210, TxDropped: 9}),
		vfOf(2, "a/new", 3, &vf.Traffic{RxBytes: 9000}),
		vfOf(3, "a/rebound", 1, &vf.Traffic{RxBytes: 10}),
		vfOf(4, "", 1, &vf.Traffic{RxBytes: 9}),
		vfOf(5, "a/dpdk", 1, nil),
	}}
	type line struct {
		owner  string
		rx, tx *api.Flow
	}
	var got []line
	for _, f := range Between(before, after) {
		if f.Seconds != 2 {
			t.Errorf("%s: %g seconds", f.Name, f.Seconds)
		}
		got = append(got, line{f.Owner.Name, f.Rx, f.Tx})
	}
	want := []line{
		{"a/loud", &api.Flow{Bits: 1e6, Packets: 100}, &api.Flow{Dropped: 2}},
		{"a/quiet", &api.Flow{}, &api.Flow{Bits: 4000}},
		{"a/new", nil, nil}, {"a/rebound", nil, nil}, {"a/dpdk", nil, nil},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

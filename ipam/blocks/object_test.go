package blocks

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/vf"
)

func TestObjects(t *testing.T) {
	p := Pool{Network: "n", Blocks: []Block{
		{Run: run("10.0.0.2-10.0.0.5"), Node: "a"}, {Run: run("10.0.0.6"), Node: "b", Claim: "x"}, {Run: run("fd00::1-fd00::5"), Node: "b", GoneSince: time.Unix(1e9, 0)},
	}}
	got, err := FromObject(&v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Network: "n", Blocks: p.Object()}})
	if diff := cmp.Diff(show(p), show(got)); diff != "" || err != nil || got.Total() != 10 {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	asked := []Request{{Network: "n", Ranges: runs("10.0.0.2-10.0.0.5"), Used: 3, Claims: []Claim{{addr("10.0.0.9"), "x", true}}}, {Network: "other"}}
	demands, ids, err := Demands(&v1alpha1.NodeState{Status: v1alpha1.NodeStateStatus{AddressRequests: ToObject(asked)}}, "n")
	if diff := cmp.Diff([]Demand{{Request: asked[0]}}, demands, byAddr); diff != "" || err != nil || len(ids) != 1 {
		t.Errorf("%v %v (-want +got):\n%s", err, ids, diff)
	}
}

func TestDamagedPools(t *testing.T) {
	for text, want := range map[string]string{
		`[{"node":"a","first":"10.0.0.1","last":"10.0.0.9"},{"node":"b","first":"10.0.0.9","last":"10.0.0.9"}]`: "blocks 10.0.0.1-10.0.0.9 of node a and 10.0.0.9 of node b overlap",
		`[{"node":"a","first":"10.0.0.9","last":"10.0.0.1"}]`:                                                   `blocks[0]: invalid: "10.0.0.9"-"10.0.0.1"`,
		`[{"node":"a","first":"10.0.0.9","last":"fd00::1"}]`:                                                    "one family",
		`[{"first":"10.0.0.1","last":"10.0.0.9"}]`:                                                              "node is missing",
	} {
		o := v1alpha1.AddressPool{}
		if err := json.Unmarshal([]byte(text), &o.Spec.Blocks); err != nil {
			t.Fatal(err)
		}
		if _, err := FromObject(&o); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Whatever is in the objects: what is read has blocks that do not overlap, and
// granting from it keeps it so.
func FuzzObjects(f *testing.F) {
	f.Add(`[{"node":"a","first":"10.0.0.1","last":"10.0.0.9"}]`, `[{"network":"n","used":5,"ranges":[{"first":"10.0.0.1","last":"10.0.0.200"}],"claims":[{"address":"10.0.0.77","id":"x"}]}]`)
	f.Add(`[{"node":"a","first":"::ffff:10.0.0.1","last":"10.0.0.9"}]`, `[{"network":"n","used":-9223372036854775808,"ranges":[{"first":"::","last":"ffff::"},{"first":"::","last":"ffff::"}]}]`)
	f.Fuzz(func(t *testing.T, pool, requests string) {
		o, s := v1alpha1.AddressPool{}, v1alpha1.NodeState{}
		s.Name = "node"
		if json.Unmarshal([]byte(pool), &o.Spec.Blocks) != nil || json.Unmarshal([]byte(requests), &s.Status.AddressRequests) != nil {
			return
		}
		p, err := FromObject(&o)
		if err != nil {
			return
		}
		demands, _, _ := Demands(&s, "n")
		p, _ = Grant(p, demands, 2)
		o.Spec.Blocks = p.Object()
		if _, err := FromObject(&o); err != nil {
			t.Errorf("granted %v: %v", demands, err)
		}
	})
}

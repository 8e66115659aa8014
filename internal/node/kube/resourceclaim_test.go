package kube

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// A claim is read with one GET, and no watch. Consumers that are no pods do not count, and a claim
// without an allocation has no devices.
func TestResourceClaim(t *testing.T) {
	s, config := newAPI(t)
	c, err := New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	opaque := map[string]any{"driver": "culvert.dev", "parameters": map[string]any{"vlan": 7}}
	s.add("resourceclaims", "d", "vf", map[string]any{"uid": "u1", "annotations": map[string]any{"resource.kubernetes.io/pod-claim-name": "net"}}, map[string]any{"status": map[string]any{
		"reservedFor": []any{
			map[string]any{"resource": "pods", "name": "a", "uid": "p1"},
			map[string]any{"resource": "jobs", "apiGroup": "batch", "name": "j", "uid": "j1"},
		},
		"allocation": map[string]any{"devices": map[string]any{
			"results": []any{
				map[string]any{"request": "wire", "driver": "culvert.dev", "pool": "n1/a", "device": "vf-3", "adminAccess": true},
				map[string]any{"request": "gpu/big", "driver": "gpu.example", "pool": "n1", "device": "g", "shareID": "s"},
			},
			"config": []any{
				map[string]any{"source": "FromClaim", "requests": []any{"wire"}, "opaque": opaque},
				map[string]any{"source": "FromClass"},
			},
		}},
	}})
	got, err := c.ResourceClaim(t.Context(), "d", "vf")
	want := api.ResourceClaim{
		Namespace: "d", Name: "vf", UID: "u1", PodClaim: "net", Pods: []api.ClaimPod{{Name: "a", UID: "p1"}}, Allocated: true,
		Results: []api.ClaimResult{
			{Request: "wire", Driver: "culvert.dev", Pool: "n1/a", Device: "vf-3", AdminAccess: true},
			{Request: "gpu/big", Driver: "gpu.example", Pool: "n1", Device: "g", ShareID: "s"},
		},
		Configs: []api.ClaimConfig{{Source: api.FromClaim, Requests: []string{"wire"}, Driver: "culvert.dev", Parameters: []byte(`{"vlan":7}`)}},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v: -want +got\n%s", err, d)
	}
	if got := s.log(""); len(got) != 1 {
		t.Errorf("requests: %v", got)
	}
	s.add("resourceclaims", "d", "new", map[string]any{"uid": "u2"}, nil)
	if got, err := c.ResourceClaim(t.Context(), "d", "new"); err != nil || got.Allocated || got.String() != "d/new" {
		t.Errorf("a claim that is not allocated: %+v, %v", got, err)
	}
	if _, err := c.ResourceClaim(t.Context(), "d", "none"); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no claim: %v", err)
	}
	s.setDown(true)
	if _, err := c.ResourceClaim(t.Context(), "d", "vf"); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("no API server: %v", err)
	}
}

package kube

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
)

// The status of a claim is one server-side apply, which names the claim's UID, in place of an older one that
// waits. No devices leave Culvert no entries.
func TestSetClaimDevices(t *testing.T) {
	s, config := newAPI(t)
	s.refuse = 3
	c := start(t, config)
	claim := api.ResourceClaim{Namespace: "d", Name: "vf", UID: "u1"}
	d := api.ClaimDevice{
		Pool: "n1/a", Device: "vf-3", Ready: true, Reason: "Attached", Message: "pod a has it as net1", Since: time.Unix(0, 0),
		Interface: "net1", MAC: "02:00:00:00:00:01", Addresses: make([]string, 20), Data: api.ClaimDeviceData{APIVersion: "culvert.dev/v1alpha1", Kind: "VFStatus", VLAN: 7},
		Clean: api.ClaimCondition{Status: "True", Reason: "ReadBack", Message: "it is", Since: time.Unix(60, 0)},
	}
	idle := api.ClaimDevice{Pool: "n1/a", Device: "vf-4", Reason: "ClaimWithoutNetwork"}
	c.SetClaimDevices(claim, []api.ClaimDevice{d, idle})
	until(t, "the status", func() bool { return len(s.writes()) == 1 })
	const head = "PATCH /apis/resource.k8s.io/v1/namespaces/d/resourceclaims/vf/status "
	var got struct {
		Metadata map[string]string
		Status   struct{ Devices []deviceStatus }
	}
	first := s.writes()[0]
	if first[:min(len(head), len(first))] != head || json.Unmarshal([]byte(first[len(head):]), &got) != nil {
		t.Fatal(first)
	}
	want := deviceStatus{
		Driver: "culvert.dev", Pool: "n1/a", Device: "vf-3", Data: d.Data, Conditions: []deviceCondition{{"Ready", "True", "Attached", "pod a has it as net1", "1970-01-01T00:00:00Z"}, {"Clean", "True", "ReadBack", "it is", "1970-01-01T00:01:00Z"}},
		NetworkData: &networkData{"net1", make([]string, mostAddresses), "02:00:00:00:00:01"},
	}
	if diff := cmp.Diff(want, got.Status.Devices[0]); diff != "" || got.Metadata["uid"] != "u1" {
		t.Errorf("%v\n%s", got.Metadata, diff)
	}
	if o := got.Status.Devices[1]; o.NetworkData != nil || o.Conditions[0].Status != "False" {
		t.Errorf("a device without a network: %+v", o)
	}
	c.SetClaimDevices(claim, nil)
	until(t, "the end", func() bool { return len(s.writes()) == 2 })
	if want := head + `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"vf","namespace":"d","uid":"u1"},"status":{}}`; s.writes()[1] != want {
		t.Errorf("%s\nwant %s", s.writes()[1], want)
	}
}

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/claim"
)

// mostAddresses bounds the addresses of a device (k8s.io/api/resource/v1, NetworkDeviceDataMaxIPs).
const mostAddresses = 16

// deviceStatus is an entry of status.devices of a ResourceClaim (k8s.io/api/resource/v1,
// AllocatedDeviceStatus).
type deviceStatus struct {
	Driver      string              `json:"driver"`
	Pool        string              `json:"pool"`
	Device      string              `json:"device"`
	Conditions  []deviceCondition   `json:"conditions"`
	Data        api.ClaimDeviceData `json:"data"`
	NetworkData *networkData        `json:"networkData,omitempty"`
}

type deviceCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   string `json:"lastTransitionTime"`
}

type networkData struct {
	InterfaceName   string   `json:"interfaceName,omitempty"`
	IPs             []string `json:"ips,omitempty"`
	HardwareAddress string   `json:"hardwareAddress,omitempty"`
}

// SetClaimDevices writes Culvert's entries of status.devices of a ResourceClaim, if it is still that claim,
// in one request; no devices remove them. It returns at once; the status is written when the API server
// takes it. A later call for the claim replaces one that waits.
//
// The request is a server-side apply: the list has entries of other drivers, whose owners other managers
// are, and a merge patch would replace it as a whole.
func (c *Client) SetClaimDevices(about api.ResourceClaim, devices []api.ClaimDevice) {
	status := map[string]any{}
	if len(devices) > 0 {
		all := make([]deviceStatus, 0, len(devices))
		for _, d := range devices {
			all = append(all, statusOfDevice(d))
		}
		status["devices"] = all
	}
	body, _ := json.Marshal(map[string]any{ // texts and numbers only
		"apiVersion": resourceV1.String(), "kind": "ResourceClaim",
		"metadata": map[string]any{"namespace": about.Namespace, "name": about.Name, "uid": about.UID}, "status": status,
	})
	c.writer.putWrite("devices "+about.UID, waiting{
		what: fmt.Sprintf("devices of ResourceClaim %s", about),
		write: func(ctx context.Context) error {
			return c.resources.Patch(types.ApplyPatchType).Namespace(about.Namespace).Resource("resourceclaims").Name(about.Name).SubResource("status").
				Param("fieldManager", "culvertd").Param("force", "true").Body(body).Do(ctx).Error()
		},
	})
}

func statusOfDevice(d api.ClaimDevice) deviceStatus {
	ready := "False"
	if d.Ready {
		ready = "True"
	}
	out := deviceStatus{
		Driver: claim.Driver, Pool: d.Pool, Device: d.Device, Data: d.Data,
		Conditions: []deviceCondition{{Type: "Ready", Status: ready, Reason: d.Reason, Message: d.Message, Since: d.Since.UTC().Format(time.RFC3339)}},
	}
	if c := d.Clean; c.Status != "" {
		out.Conditions = append(out.Conditions, deviceCondition{Type: "Clean", Status: c.Status, Reason: c.Reason, Message: c.Message, Since: c.Since.UTC().Format(time.RFC3339)})
	}
	if d.Interface != "" || d.MAC != "" || len(d.Addresses) > 0 {
		out.NetworkData = &networkData{d.Interface, d.Addresses[:min(len(d.Addresses), mostAddresses)], d.MAC}
	}
	return out
}

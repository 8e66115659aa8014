package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/culvert-net/culvert/internal/api"
)

// resourceClaim is the part of a resource.k8s.io/v1 ResourceClaim that is read.
type resourceClaim struct {
	object `json:",inline"`
	Status struct {
		Allocation  *claimAllocation `json:"allocation,omitempty"`
		ReservedFor []claimConsumer  `json:"reservedFor,omitempty"`
	} `json:"status,omitempty"`
}

type claimAllocation struct {
	Devices struct {
		Results []claimResult `json:"results,omitempty"`
		Config  []claimConfig `json:"config,omitempty"`
	} `json:"devices,omitempty"`
}

type claimResult struct {
	Request     string `json:"request"`
	Driver      string `json:"driver"`
	Pool        string `json:"pool"`
	Device      string `json:"device"`
	AdminAccess bool   `json:"adminAccess,omitempty"`
	ShareID     string `json:"shareID,omitempty"`
}

type claimConfig struct {
	Source   string   `json:"source"`
	Requests []string `json:"requests,omitempty"`
	Opaque   *struct {
		Driver     string          `json:"driver"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"opaque,omitempty"`
}

// claimConsumer is a pod if its resource is pods of the core group.
type claimConsumer struct {
	APIGroup string `json:"apiGroup,omitempty"`
	Resource string `json:"resource"`
	Name     string `json:"name"`
	UID      string `json:"uid"`
}

// DeepCopyObject is for runtime.Object. No caller changes what the copies share.
func (c *resourceClaim) DeepCopyObject() runtime.Object {
	out := *c
	out.object = c.copyMeta()
	return &out
}

// ResourceClaim asks the API server for a ResourceClaim, with one GET. culvertd watches no claims:
// the ledger keeps what it needs of one. Errors are vf.ErrNotFound and vf.ErrNotReady.
func (c *Client) ResourceClaim(ctx context.Context, namespace, name string) (api.ResourceClaim, error) {
	var claim resourceClaim
	if err := c.getObject(ctx, c.resources, "resourceclaims", namespace, name, &claim); err != nil {
		return api.ResourceClaim{}, fmt.Errorf("ResourceClaim %s/%s: %w", namespace, name, err)
	}
	return claimOf(&claim), nil
}

// podClaimName is the annotation of a claim that a ResourceClaimTemplate made (k8s.io/api/resource/v1,
// PodResourceClaimAnnotation).
const podClaimName = "resource.kubernetes.io/pod-claim-name"

func claimOf(c *resourceClaim) api.ResourceClaim {
	out := api.ResourceClaim{Namespace: c.Namespace, Name: c.Name, UID: string(c.UID), PodClaim: c.Annotations[podClaimName]}
	for _, r := range c.Status.ReservedFor {
		if r.APIGroup == "" && r.Resource == "pods" {
			out.Pods = append(out.Pods, api.ClaimPod{Name: r.Name, UID: r.UID})
		}
	}
	if c.Status.Allocation == nil {
		return out
	}
	out.Allocated = true
	for _, r := range c.Status.Allocation.Devices.Results {
		out.Results = append(out.Results, api.ClaimResult(r))
	}
	for _, f := range c.Status.Allocation.Devices.Config {
		if f.Opaque != nil {
			out.Configs = append(out.Configs, api.ClaimConfig{Source: f.Source, Requests: f.Requests, Driver: f.Opaque.Driver, Parameters: f.Opaque.Parameters})
		}
	}
	return out
}

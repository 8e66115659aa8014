package view

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api"
)

// daemonName is what the DaemonSet of dist/kubernetes calls its pods, by label.
const daemonName = "culvertd"

// pod is the part of a core/v1 Pod that tells whether it serves.
type pod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		Reason     string `json:"reason"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
			Reason string `json:"reason"`
		} `json:"conditions"`
		Containers []struct {
			State struct {
				Waiting *struct {
					Reason string `json:"reason"`
				} `json:"waiting"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// daemons are the pods of culvertd. Who may read Culvert's objects need not be
// allowed to read pods: then nobody knows.
func (c *Cluster) daemons(ctx context.Context) ([]api.DaemonPod, error) {
	pods, err := list[pod](ctx, c, "/api/v1/pods", map[string]string{"labelSelector": "app.kubernetes.io/name=" + daemonName})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain("pods", err)
	}
	var out []api.DaemonPod
	for _, p := range pods {
		out = append(out, p.daemon())
	}
	slices.SortFunc(out, func(a, b api.DaemonPod) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// daemon tells whether the pod serves, and else the shortest reason there is.
func (p pod) daemon() api.DaemonPod {
	out := api.DaemonPod{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName}
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			out.Ready, out.Reason = c.Status == "True", c.Reason
		}
	}
	if out.Ready {
		out.Reason = ""
		return out
	}
	for _, c := range p.Status.Containers {
		if c.State.Waiting != nil {
			out.Reason = c.State.Waiting.Reason
		}
	}
	out.Reason = cmp.Or(p.Status.Reason, out.Reason, p.Status.Phase)
	return out
}

package clusterview

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/internal/api"
)

// daemonName is the value of the label that the DaemonSet of dist/kubernetes gives its pods.
const daemonName = "culvertd"

// pod is the part of a core/v1 Pod that shows whether it serves.
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

// listDaemons returns the pods of culvertd, or none without an error for a user who may read
// Culvert's objects and not pods.
func (c *Cluster) listDaemons(ctx context.Context) ([]api.DaemonPod, error) {
	pods, err := listObjects[pod](ctx, c, "/api/v1/pods", map[string]string{"labelSelector": "app.kubernetes.io/name=" + daemonName})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explainError("pods", err)
	}
	var out []api.DaemonPod
	for _, p := range pods {
		out = append(out, p.describeDaemon())
	}
	slices.SortFunc(out, func(a, b api.DaemonPod) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// describeDaemon returns whether the pod is ready and, if it is not, the shortest reason.
func (p pod) describeDaemon() api.DaemonPod {
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

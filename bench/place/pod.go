package place

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// object is JSON that kubectl takes.
type object = map[string]any

// manifest is a pod that waits: its program is an agent whose input never ends, for
// the image has nothing else to wait with. The agent that measures is another one.
func (p *Pods) manifest(pod Pod, now time.Time) object {
	annotations := object{leaseKey: until(now)}
	if p.cluster.Network != "" && !pod.Host {
		annotations["k8s.v1.cni.cncf.io/networks"] = p.cluster.Network
	}
	return object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{
			"name":        pod.Name,
			"labels":      object{"app.kubernetes.io/managed-by": "culvert-bench", labelRun: p.run},
			"annotations": annotations,
		},
		"spec": object{
			// The one in the node's network sees the node's processes, and says who took the processors.
			"nodeName": pod.Node, "hostNetwork": pod.Host, "hostPID": pod.Host, "restartPolicy": "Never",
			"terminationGracePeriodSeconds": 1, "activeDeadlineSeconds": int(lifeTime.Seconds()),
			"automountServiceAccountToken": false, "enableServiceLinks": false,
			"tolerations": []object{{"operator": "Exists"}},
			"containers": []object{{
				"name": "agent", "image": p.cluster.Image, "command": []string{"culvert", "bench", "agent"}, "stdin": true,
				"securityContext": object{"runAsUser": 0, "capabilities": object{"add": []string{"NET_ADMIN", "NET_RAW", "SYS_NICE"}}},
			}},
		},
	}
}

// podState is what is read of a pod.
type podState struct {
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		Reason     string `json:"reason"`
		Message    string `json:"message"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
		Containers []struct {
			State struct {
				Waiting *struct {
					Reason  string `json:"reason"`
					Message string `json:"message"`
				} `json:"waiting"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// waits says what a pod waits for; empty when it is ready.
func (p podState) waits() string {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return ""
		}
	}
	for _, c := range p.Status.Containers {
		if w := c.State.Waiting; w != nil {
			return w.Reason + " " + w.Message
		}
	}
	if p.Status.Reason != "" {
		return p.Status.Reason + " " + p.Status.Message
	}
	return fmt.Sprintf("it is %s: does the node exist, and has its kubelet started it?", p.Status.Phase)
}

func (c Cluster) list(ctx context.Context, selector string) ([]podState, error) {
	out, err := c.kubectl(ctx, nil, "get", "pods", "--selector", selector, "--output", "json")
	if err != nil {
		return nil, err
	}
	var all struct {
		Items []podState `json:"items"`
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("read the list of pods: %w", err)
	}
	return all.Items, nil
}

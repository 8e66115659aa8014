package place

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/program"
)

// object is JSON that kubectl takes.
type object = map[string]any

// leastCapabilities returns the capabilities that an agent needs, and its pod has no others (bench/conduct,
// TestRunWithTheCapabilitiesOfPods). moreCapabilities also has BPF, which lets it discard frames by an
// eBPF program. Without BPF the agent counts frames by a packet socket, and the result says so.
func leastCapabilities() []string { return []string{"NET_ADMIN", "NET_RAW", "SYS_NICE"} }

func moreCapabilities() []string { return append(leastCapabilities(), "BPF") }

// podManifest returns the manifest of a pod that waits. Its program is an agent whose input never
// ends, since the image has no other program that waits. Another agent measures.
func (p *Pods) podManifest(pod Pod, capabilities []string, now time.Time) object {
	annotations := object{leaseKey: leaseEnd(now)}
	if pod.Networks != "" {
		annotations["k8s.v1.cni.cncf.io/networks"] = pod.Networks
	}
	labels := p.runLabels()
	if pod.Role == Stops && !pod.Host {
		labels[labelEnd] = p.run
	}
	return object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": pod.Name, "namespace": pod.Namespace, "labels": labels, "annotations": annotations},
		"spec": object{
			// The agent in the node's network sees the node's processes, and reports which of them
			// used the processors.
			"nodeName": pod.Node, "hostNetwork": pod.Host, "hostPID": pod.Host, "restartPolicy": "Never",
			"terminationGracePeriodSeconds": 1, "activeDeadlineSeconds": int(lifeTime.Seconds()),
			"automountServiceAccountToken": false, "enableServiceLinks": false,
			"tolerations": []object{{"operator": "Exists"}},
			"containers": []object{{
				"name": "agent", "image": p.cluster.Image, "command": []string{program.Bench, "agent"}, "stdin": true,
				"securityContext": object{
					"runAsUser": 0, "allowPrivilegeEscalation": false, "seccompProfile": object{"type": "RuntimeDefault"},
					"capabilities": object{"drop": []string{"ALL"}, "add": capabilities},
				},
			}},
		},
	}
}

// serviceManifest returns the manifest of a Service that leads to the pod where traffic ends, on
// the ports that engines listen on.
func (p *Pods) serviceManifest(now time.Time) object {
	var ports []object
	for _, port := range bench.ServicePorts {
		for _, protocol := range []string{"TCP", "UDP"} {
			ports = append(ports, object{"name": fmt.Sprintf("%s-%d", strings.ToLower(protocol), port), "port": port, "protocol": protocol})
		}
	}
	return object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": p.serviceName(), "namespace": p.cluster.To.Namespace, "labels": p.runLabels(), "annotations": object{leaseKey: leaseEnd(now)}},
		"spec":     object{"selector": object{labelEnd: p.run}, "ports": ports},
	}
}

func (p *Pods) serviceName() string { return "culvert-bench-" + p.run }

func (p *Pods) runLabels() object {
	return object{"app.kubernetes.io/managed-by": "culvert-bench", labelRun: p.run}
}

// state has the fields that are read of a pod or Service.
type state struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName  string `json:"nodeName"`
		ClusterIP string `json:"clusterIP"`
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

// waitReason returns what a pod waits for, or "" if it is ready.
func (p state) waitReason() string {
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

// listObjects returns the objects of some kinds in all namespaces of the measurement.
func (c Cluster) listObjects(ctx context.Context, kinds, selector string) (all []state, err error) {
	for _, namespace := range c.listNamespaces() {
		out, err := c.runKubectl(ctx, namespace, nil, "get", kinds, "--selector", selector, "--output", "json")
		if err != nil {
			return nil, fmt.Errorf("list %s in namespace %s: %w", kinds, namespace, err)
		}
		var in struct {
			Items []state `json:"items"`
		}
		if err := json.Unmarshal(out, &in); err != nil {
			return nil, fmt.Errorf("read the list of %s in namespace %s: %w", kinds, namespace, err)
		}
		all = append(all, in.Items...)
	}
	return all, nil
}

package clusterview

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/internal/api"
)

// components are the sources of events that Culvert writes: culvertd, and culvert-controller.
var components = []string{"culvertd", "culvert"}

// event is the part of a core/v1 Event that a page shows.
type event struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Involved struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"involvedObject"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Source  struct {
		Host string `json:"host"`
	} `json:"source"`
	First *time.Time `json:"firstTimestamp"`
	Last  *time.Time `json:"lastTimestamp"`
	Time  *time.Time `json:"eventTime"`
}

// isOf reports whether the event is of a node: a culvertd wrote it there, or it is about the node.
func (e event) isOf(node string) bool {
	return node == "" || e.Source.Host == node || e.Involved.Name == node && e.Involved.Namespace == ""
}

// describeEvent returns the event as a node has it.
func (e event) describeEvent() api.Event {
	name := e.Involved.Name
	if e.Involved.Namespace != "" {
		name = e.Involved.Namespace + "/" + name
	}
	out := api.Event{Type: e.Type, Reason: e.Reason, Object: strings.TrimSpace(e.Involved.Kind + " " + name), Text: e.Message, Time: e.Metadata.CreationTimestamp.Time}
	for _, at := range []*time.Time{e.Time, e.First, e.Last} {
		if at != nil && at.After(out.Time) {
			out.Time = *at
		}
	}
	return out
}

// ListEvents returns at most limit of the cluster's events that Culvert wrote about a node, or about
// anything if node is empty, newest first. The API server keeps them for an hour by default.
func (c *Cluster) ListEvents(ctx context.Context, node string, limit int) ([]api.Event, error) {
	out := []api.Event{}
	for _, component := range components {
		err := eachObject(ctx, c, "/api/v1/events", map[string]string{"fieldSelector": "source=" + component}, func(e event) {
			if e.isOf(node) {
				out = append(out, e.describeEvent())
			}
		})
		if err != nil {
			return nil, c.explainError("events", err)
		}
	}
	slices.SortStableFunc(out, func(a, b api.Event) int { return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Object, b.Object)) })
	return out[:min(len(out), limit)], nil
}

// NodeLabels returns the labels of the cluster's Nodes, by their names.
func (c *Cluster) NodeLabels(ctx context.Context) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	err := eachObject(ctx, c, "/api/v1/nodes", nil, func(n struct {
		Metadata networkMeta `json:"metadata"`
	}) {
		out[n.Metadata.Name] = n.Metadata.Labels
	})
	if err != nil {
		return nil, c.explainError("nodes", err)
	}
	return out, nil
}

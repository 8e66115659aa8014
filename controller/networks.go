package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/intake/cni"
	"github.com/culvert-net/culvert/netannotation"
	"github.com/culvert-net/culvert/vf"
)

// networks refuses NetworkAttachmentDefinitions of ours that no node could
// attach: what culvertd's own parser refuses, and settings that no NIC of the
// network's resource has.
type networks struct {
	client client.Reader
}

// definition is the part of a NetworkAttachmentDefinition that is read.
type definition struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Config string `json:"config"`
	} `json:"spec"`
}

// Handle is admission.Handler.
func (n *networks) Handle(ctx context.Context, req admission.Request) admission.Response {
	var d definition
	if err := json.Unmarshal(req.Object.Raw, &d); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the network: %w", err))
	}
	ours, err := d.ours()
	if err != nil {
		return admission.Denied("spec.config: " + err.Error())
	}
	var warnings []string
	for _, c := range ours {
		wrong, maybe, err := n.judge(ctx, d, c)
		if err != nil {
			maybe = []string{"not compared with the nodes' NICs: " + err.Error()}
		}
		if len(wrong) > 0 {
			return admission.Denied("spec.config: " + strings.Join(wrong, "; "))
		}
		warnings = append(warnings, maybe...)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// ours returns the configurations for our plugin: the one there is, or those of
// a list. A network of other plugins has none, and neither has one without a
// configuration, which the nodes have in a file. The error is the parser's.
func (d definition) ours() ([]cni.Config, error) {
	raw := []byte(d.Spec.Config)
	var top struct {
		CNIVersion json.RawMessage   `json:"cniVersion"`
		Name       json.RawMessage   `json:"name"`
		Type       string            `json:"type"`
		Plugins    []json.RawMessage `json:"plugins"`
	}
	if json.Unmarshal(raw, &top) != nil {
		return nil, nil //nolint:nilerr // not JSON, or not as CNI has it: whoever it is for will say so
	}
	plugins := top.Plugins
	if plugins == nil {
		plugins = []json.RawMessage{raw}
	}
	var out []cni.Config
	for i, p := range plugins {
		var keys map[string]json.RawMessage
		if json.Unmarshal(p, &keys) != nil || !isOurs(keys["type"]) {
			continue
		}
		complete := p
		for key, value := range map[string]json.RawMessage{"cniVersion": top.CNIVersion, "name": top.Name} {
			if value != nil && keys[key] == nil {
				complete = with(complete, key, value)
				keys[key] = value
			}
		}
		if keys["name"] == nil { // the meta plugin gives it the object's
			name, _ := json.Marshal(d.Metadata.Name) // a string
			complete = with(complete, "name", name)
		}
		c, err := cni.ParseConfig(complete)
		if err != nil && top.Plugins != nil {
			err = fmt.Errorf("plugins[%d]: %w", i, err)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// with puts a key into a JSON object, in front of the others, so that keys that
// are there twice still are.
func with(object []byte, key string, value json.RawMessage) []byte {
	s := strings.TrimSpace(string(object))
	rest := strings.TrimSpace(s[1:])
	if rest != "}" {
		rest = "," + rest
	}
	return []byte(`{"` + key + `":` + string(value) + rest)
}

// isOurs reports whether a plugin's type is one that culvertd serves.
func isOurs(raw json.RawMessage) bool {
	var name string
	return json.Unmarshal(raw, &name) == nil && slices.Contains([]string{"sriov", "culvert", "culvert-cni"}, name)
}

// judge compares a network's settings with the NICs of its resource: wrong is
// what none of them can do, maybe what some cannot.
func (n *networks) judge(ctx context.Context, d definition, c cni.Config) (wrong, maybe []string, err error) {
	resource := d.Metadata.Annotations[netannotation.ResourceName]
	if resource == "" {
		resource = c.Pool
	}
	if resource == "" {
		return nil, nil, nil // any VF
	}
	var states v1alpha1.NodeStateList
	if err := n.client.List(ctx, &states); err != nil {
		return nil, nil, fmt.Errorf("list the nodes' states: %w", err)
	}
	var (
		count    int
		failures []string
	)
	for _, s := range states.Items {
		for _, pf := range pfsOf(s.Status, resource) {
			count++
			if err := pf.Fits(c.Spec, "its NodePolicy"); err != nil {
				failures = append(failures, fmt.Sprintf("%s (node %s)", strings.ReplaceAll(err.Error(), "\n", "; "), s.Name))
			}
		}
	}
	switch {
	case count == 0 && len(states.Items) > 0:
		return nil, []string{fmt.Sprintf("no node has a VF of resource %s: declare the pool in a NodePolicy, or correct the annotation %s", resource, netannotation.ResourceName)}, nil
	case count > 0 && len(failures) == count:
		return failures[:1], nil, nil
	}
	return nil, failures[:min(len(failures), 4)], nil
}

// pfsOf are the PFs of a node whose VFs are in a pool, which may be named without
// its prefix.
func pfsOf(s v1alpha1.NodeStateStatus, pool string) []vf.PF {
	var out []vf.PF
	for _, p := range s.Pools {
		if _, bare, _ := strings.Cut(p.Name, "/"); p.Name != pool && bare != pool {
			continue
		}
		for _, pf := range s.PFs {
			if slices.Contains(p.PFs, pf.Name) {
				out = append(out, toPF(pf))
			}
		}
	}
	return out
}

// toPF is what a NodeState tells of a PF. Its link counts as up: it may be by
// the time a pod is attached.
func toPF(s v1alpha1.PFState) vf.PF {
	pf := vf.PF{
		Name: s.Name, Vendor: s.Vendor, Device: s.Device, Driver: s.Driver, Carrier: true, SpeedMbps: int(s.SpeedMbps),
		MTU: int(s.MTU), MaxMTU: int(s.MaxMTU), TotalVFs: int(s.TotalVFs), NumVFs: int(s.NumVFs), Abilities: vf.Abilities{},
	}
	pf.PCI, _ = vf.ParsePCIAddr(s.PCI)
	pf.ID, _ = vf.ParsePFID(s.ID)
	for _, setting := range s.Unable {
		pf.Abilities[vf.Setting(setting)] = vf.No
	}
	return pf
}

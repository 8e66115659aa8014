package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// networkSpec has the fields of a SriovNetwork.
type networkSpec struct {
	NetworkNamespace string `json:"networkNamespace"`
	ResourceName     string `json:"resourceName"`
	Capabilities     string `json:"capabilities"`
	IPAM             string `json:"ipam"`
	VLAN             int    `json:"vlan"`
	VLANQoS          int    `json:"vlanQoS"`
	VLANProto        string `json:"vlanProto"`
	SpoofChk         string `json:"spoofChk"`
	Trust            string `json:"trust"`
	LinkState        string `json:"linkState"`
	MinTxRate        *int   `json:"minTxRate"`
	MaxTxRate        *int   `json:"maxTxRate"`
	MetaPlugins      string `json:"metaPlugins"`
}

// plugin is the configuration of a network of type sriov.
type plugin struct {
	CNIVersion   string          `json:"cniVersion,omitempty"`
	Name         string          `json:"name,omitempty"`
	Type         string          `json:"type"`
	VLAN         *int            `json:"vlan,omitempty"`
	VLANQoS      int             `json:"vlanQoS,omitempty"`
	VLANProto    string          `json:"vlanProto,omitempty"`
	SpoofChk     string          `json:"spoofchk,omitempty"`
	Trust        string          `json:"trust,omitempty"`
	LinkState    string          `json:"link_state,omitempty"`
	MinTxRate    *int            `json:"min_tx_rate,omitempty"`
	MaxTxRate    *int            `json:"max_tx_rate,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	IPAM         json.RawMessage `json:"ipam,omitempty"`
}

// list is the configuration of a network of several plugins.
type list struct {
	CNIVersion string            `json:"cniVersion"`
	Name       string            `json:"name"`
	Plugins    []json.RawMessage `json:"plugins"`
}

// nadSpec is the spec of a NetworkAttachmentDefinition.
type nadSpec struct {
	Config string `json:"config"`
}

// networkVersion is the version of the CNI specification that the operator writes.
const networkVersion = "1.0.0"

// network converts a SriovNetwork.
func (c *converter) network(o Object) {
	var s networkSpec
	if err := decode(o.Spec, &s); err != nil {
		c.lose(o, "spec", "not converted: %v", err)
		return
	}
	if s.ResourceName == "" || o.Name == "" {
		c.lose(o, "spec.resourceName", "not converted: it is missing")
		return
	}
	text, err := s.config(o.Name)
	if err != nil {
		c.lose(o, "", "not converted: %v", err)
		return
	}
	namespace := cmp.Or(s.NetworkNamespace, o.Namespace)
	if _, err := config.Own(api.NetworkDefinition{Namespace: namespace, Name: o.Name, Config: text}); err != nil {
		c.lose(o, "", "not converted: %v", err)
		return
	}
	m := Manifest{
		APIVersion: "k8s.cni.cncf.io/v1", Kind: KindDefinition,
		Metadata: Metadata{Name: o.Name, Namespace: namespace, Annotations: map[string]string{
			netannotation.ResourceName: c.options.operatorPrefix() + "/" + s.ResourceName, AnnotationFrom: o.String(),
		}},
		Spec: nadSpec{Config: text},
	}
	c.Manifests = append(c.Manifests, m)
	c.note(o, "", "becomes %s", m)
}

// config returns spec.config of the network.
func (s networkSpec) config(name string) (string, error) {
	p := plugin{
		CNIVersion: networkVersion, Name: name, Type: netconf.TypeSRIOV, VLANQoS: s.VLANQoS, VLANProto: s.VLANProto,
		SpoofChk: s.SpoofChk, Trust: s.Trust, LinkState: s.LinkState, MinTxRate: s.MinTxRate, MaxTxRate: s.MaxTxRate,
	}
	if s.VLAN != 0 || s.VLANProto != "" { // the operator always writes it, and vlanProto needs one
		p.VLAN = &s.VLAN
	}
	for _, text := range []struct {
		field, value string
		to           *json.RawMessage
	}{{"capabilities", s.Capabilities, &p.Capabilities}, {"ipam", s.IPAM, &p.IPAM}} {
		if text.value == "" {
			continue
		}
		if !json.Valid([]byte(text.value)) {
			return "", fmt.Errorf("spec.%s: not JSON: correct it", text.field)
		}
		*text.to = json.RawMessage(text.value)
	}
	if s.MetaPlugins == "" {
		return indented(p)
	}
	l := list{CNIVersion: p.CNIVersion, Name: p.Name}
	p.CNIVersion, p.Name = "", ""
	first, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	var more []json.RawMessage
	if err := json.Unmarshal([]byte("["+s.MetaPlugins+"]"), &more); err != nil {
		return "", fmt.Errorf("spec.metaPlugins: want configurations of plugins, with commas between them: %w", err)
	}
	l.Plugins = append(append(l.Plugins, first), more...)
	return indented(l)
}

func indented(v any) (string, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return string(text) + "\n", err
}

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/suggest"
)

// Judgement says whether nodes can use a NetworkAttachmentDefinition, as far as its text shows.
// The admission webhook and culvert net check get it from Judge, and nodes read networks by the
// same parsers.
type Judgement struct {
	// List are the plugins that could be read; none where the configuration is a file on the
	// nodes.
	List netconf.List
	// Own are the configurations of Culvert's plugins.
	Own []Config
	// Warnings lists accepted settings that the author may not have meant.
	Warnings []string
	// Err is the reason why nodes refuse a pod that asks for the network. If List has none of
	// Culvert's plugins, nodes refuse it only where culvertd sets up the networks of pods.
	Err error
	// NoAddress is the reason why whereabouts gives the pods of the network no address. It counts for
	// networks of all plugins.
	NoAddress error
}

// Judge reads a network attachment definition as the nodes do.
func Judge(n api.NetworkDefinition) Judgement {
	l, err := ParseDefinition(n)
	j := Judgement{List: l, Err: err}
	if err == nil {
		if j.Own, err = OwnConfigs(l); err != nil {
			j.Err = fmt.Errorf("spec.config: %w", err)
		}
	}
	if err := netconf.CheckSize(len(n.Config)); err != nil {
		j.Warnings = append(j.Warnings, "spec.config: culvertd refuses a pod that asks for this network, where it serves pods without Multus: "+err.Error())
	}
	j.judgeIPAMTypes()
	j.judgeRepeated(n.Config)
	j.judgeWhereabouts()
	for _, c := range j.Own {
		for _, w := range c.Warnings {
			j.Warnings = append(j.Warnings, "spec.config: "+w)
		}
	}
	return j
}

// judgeRepeated warns of keys that other plugins' configurations have twice. Own has the warnings about
// Culvert's plugins.
func (j *Judgement) judgeRepeated(text string) {
	isOwn := func(key string) bool {
		for i, p := range j.List.Plugins {
			if p.IsOwn() && (len(j.List.Plugins) == 1 && !strings.HasPrefix(key, "plugins[") || strings.HasPrefix(key, fmt.Sprintf("plugins[%d].", i))) {
				return true
			}
		}
		return false
	}
	for _, key := range strictjson.FindRepeated([]byte(text)) {
		if j.Err == nil && !isOwn(key) {
			j.Warnings = append(j.Warnings, fmt.Sprintf("spec.config: %s: given twice; the last one counts", key))
		}
	}
}

// judgeIPAMTypes refuses IPAM plugins that no node executes, and warns of those that only nodes
// execute whose administrator has added them.
func (j *Judgement) judgeIPAMTypes() {
	for _, name := range ipamTypes(j.List) {
		err := ipam.AnyType().Check(name)
		switch {
		case err != nil && j.Err == nil:
			j.Err = fmt.Errorf("spec.config: %w", err)
		case err == nil && !ipam.IsDefault(name):
			j.Warnings = append(j.Warnings, fmt.Sprintf("spec.config: ipam.type %s: only nodes whose culvertd --ipam-types has it (chart: node.ipamTypes) execute that plugin%s", name, suggestIPAM(name)))
		}
	}
}

// moreIPAM are IPAM plugins of other projects.
var moreIPAM = []string{"aws-cni", "azure-vnet-ipam", "calico-ipam", "cilium-cni", "kube-ovn", "nv-ipam", "ovn-k8s-cni-overlay", "spiderpool"}

// suggestIPAM returns the known IPAM plugin that the name of an unknown one resembles, as the tail of
// a message.
func suggestIPAM(name string) string {
	if slices.Contains(moreIPAM, name) {
		return ""
	}
	return suggest.DidYouMean(name, slices.Concat(ipam.DefaultTypes(), moreIPAM))
}

// judgeWhereabouts judges the sections ipam of type whereabouts.
func (j *Judgement) judgeWhereabouts() {
	for i, p := range j.List.Plugins {
		place := "spec.config: "
		if len(j.List.Plugins) > 1 {
			place += fmt.Sprintf("plugins[%d]: ", i)
		}
		for _, section := range p.IPAMSections() {
			if _, is := ipam.WhereaboutsPool(section); !is {
				continue
			}
			warnings, err := ipam.JudgeWhereabouts(section)
			if err != nil && j.NoAddress == nil {
				j.NoAddress = fmt.Errorf("%swhereabouts gives pods no address: %w", place, err)
			}
			for _, w := range warnings {
				j.Warnings = append(j.Warnings, place+w)
			}
		}
	}
}

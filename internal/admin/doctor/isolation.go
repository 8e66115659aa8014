package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/screen"
)

// Cluster is an API server's answer about the networks of all pods.
type Cluster struct {
	Name string
	Err  string // why the API server did not answer; the rest is empty then
	// Pods are the pods that request networks when they start again.
	Pods     []api.Pod
	Networks []api.NetworkDefinition
	// Isolated, Global and Mode are culvertd's --namespace-isolation, --global-namespaces
	// and --pod-networks.
	Isolated bool
	Global   []string
	Mode     string
	Multus   string // a pod of it; empty when none runs
}

// mostRefused bounds the networks that checkIsolation lists, and the pods of each.
const mostRefused = 12

// checkIsolation lists the pods to which namespace isolation refuses a network, or would refuse it
// if it were on, and the command that admits them.
func checkIsolation(e *examination) {
	c := e.Cluster
	if c == nil {
		if e.hasKubelet() {
			e.addFinding(finding{check: "isolation", severity: api.SeverityNote, object: host, mend: []string{"culvert doctor --kubeconfig FILE"}},
				"which pods namespace isolation would refuse was not looked at: that takes a kubeconfig")
		}
		return
	}
	object := "cluster " + c.Name
	if c.Err != "" {
		e.addFinding(finding{check: "isolation", severity: api.SeverityNote, object: object, mend: []string{"culvert doctor --kubeconfig FILE    # of a user who may list both in all namespaces"}},
			"which pods namespace isolation would refuse takes a list of pods and network-attachment-definitions: %s", c.Err)
		return
	}
	if other := e.otherMeta(); other != "" {
		e.addNote("isolation", object, "%s, so namespace isolation is not Culvert's: not checked", other)
		return
	}
	refused := c.findRefused()
	for i, id := range slices.Sorted(maps.Keys(refused)) {
		if i == mostRefused {
			e.addNote("isolation", object, "%s more have pods that namespace isolation refuses: run culvert doctor again when these are settled", screen.Plural(len(refused)-i, "network"))
			return
		}
		e.addRefusal(id, refused[id])
	}
	if len(refused) == 0 {
		refuses := "would refuse"
		if c.Isolated {
			refuses = "refuses"
		}
		e.addOK("isolation", object, "of %s with networks, namespace isolation %s none", screen.Plural(len(c.Pods), "pod"), refuses)
	}
}

// hasKubelet reports whether this host is a node of a running cluster.
func (e *examination) hasKubelet() bool {
	_, ok := findRunning(e.Host, "kubelet", "k3s-server", "k3s-agent")
	return ok
}

// otherMeta returns which other meta plugin sets up the networks of pods; empty if Culvert does.
func (e *examination) otherMeta() string {
	switch c := e.Cluster; {
	case c.Mode == "never":
		return "culvertd runs with --pod-networks=never"
	case c.Mode == "always":
		return ""
	case c.Multus != "":
		return "Multus runs there (pod " + c.Multus + ")"
	}
	for _, c := range e.CNI.Configs {
		if slices.ContainsFunc(c.Types, netconf.IsMultus) {
			return "Multus is on this node (" + c.File + ")"
		}
	}
	return ""
}

// refusals are the pods that may not use a network.
type refusals struct {
	network          api.NetworkDefinition
	pods, namespaces []string
}

// findRefused returns the refusals of each network, by namespace/name. It leaves out missing
// networks and annotations that cannot be read: culvertd refuses these pods for other reasons.
func (c *Cluster) findRefused() map[string]*refusals {
	networks := map[string]api.NetworkDefinition{}
	for _, n := range c.Networks {
		networks[n.Namespace+"/"+n.Name] = n
	}
	all := map[string]*refusals{}
	for _, p := range c.Pods {
		asked, _ := netannotation.Parse(p.Annotations[netannotation.Networks], p.Namespace)
		instead, _ := netannotation.ParseDefault(p.Annotations[netannotation.DefaultNetwork])
		for _, element := range slices.Concat(asked, instead) {
			id := element.Namespace + "/" + element.Name
			n, ok := networks[id]
			if !ok || netannotation.MayUse(p.Namespace, n.Namespace, n.Annotations, c.Global) {
				continue
			}
			if all[id] == nil {
				all[id] = &refusals{network: n}
			}
			r := all[id]
			r.pods, r.namespaces = append(r.pods, p.String()), append(r.namespaces, p.Namespace)
		}
	}
	return all
}

// addRefusal reports the pods that are refused one network. One command has all their namespaces,
// since each value of the annotation replaces the previous one.
func (e *examination) addRefusal(id string, r *refusals) {
	f := finding{check: "isolation", severity: api.SeverityNote, object: "network " + id,
		why: "the command lets all pods of these namespaces use it: leave out a namespace that should not",
		mend: []string{fmt.Sprintf("kubectl annotate --overwrite network-attachment-definition -n %s %s %s=%s",
			r.network.Namespace, r.network.Name, netannotation.Namespaces, netannotation.Admit(r.network.Annotations, r.namespaces))}}
	slices.Sort(r.pods)
	pods := slices.Compact(r.pods) // a pod may ask for a network twice
	what := "namespace isolation would refuse it to %s: %s"
	if e.Cluster.Isolated {
		f.severity, what = api.SeverityWarning, "namespace isolation refuses it to %s at the next start: %s"
	}
	e.addFinding(f, what, screen.Plural(len(pods), "pod"), nameFirst(pods, mostRefused))
}

package verdict

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/vf"
)

// fixed has the addresses of a network that every pod of a template asks for.
type fixed struct {
	network   string
	addresses []string
	mac       string
	// isUnique: Culvert gives each of the addresses to one pod of the cluster.
	isUnique bool
}

// judgeReplicas reports the addresses that several pods of a template ask for, or the pods of several
// templates.
func (v *Verdict) judgeReplicas(p podTemplate, d document, all files) {
	for _, f := range fixedIn(p.makePod(d).Annotations, d, all.rules.Find) {
		v.warnOfOthers(f, p.nameClaimant(d), all.claims)
		switch {
		case p.count.perNode:
			v.warnOfNodes(f)
		case p.count.n > 1:
			v.judgeShared(f, p.count)
		case p.count.n == 1 && overlapsInUpdate(d):
			v.warnOfUpdate(f)
		}
	}
}

// judgeShared judges several pods that ask for one address.
func (v *Verdict) judgeShared(f fixed, c count) {
	others := "other one never starts"
	if c.n > 2 {
		others = fmt.Sprintf("other %d never start", c.n-1)
	}
	text := strings.Join(f.addresses, ", ")
	switch {
	case text == "":
	case !f.isUnique:
		v.addWarning("network %s: %d pods at a time ask for %s: either only one of them starts, or they have one address", f.network, c.n, text)
	case c.ends:
		v.addWarning("network %s: %d pods at a time ask for %s: only one of them runs, and the others wait until it ends", f.network, c.n, text)
	default:
		v.addRefusal("network %s: %d pods at a time ask for %s: one of them has it, and the %s: leave the choice to ipam, write an object for each pod, or let them share it (ipam of type static with \"shared\": true)",
			f.network, c.n, text, others)
	}
	if f.mac != "" {
		v.addWarning("network %s: %d pods at a time ask for MAC address %s: on one node only one of them starts, and on several nodes the segment has that MAC address several times",
			f.network, c.n, f.mac)
	}
}

// claimsIn returns the templates that ask for each address of a network, by fixed.listClaims.
func claimsIn(documents []document, find pod.Definitions) map[string][]string {
	out := map[string][]string{}
	names := map[string]bool{}
	for _, d := range documents {
		names[d.String()] = true
	}
	for _, d := range documents {
		for _, p := range podsIn(d) {
			if p.count.n == 0 || isMadeBy(d, names) {
				continue
			}
			for _, f := range fixedIn(p.makePod(d).Annotations, d, find) {
				for _, claim := range f.listClaims() {
					if name := p.nameClaimant(d); !slices.Contains(out[claim], name) {
						out[claim] = append(out[claim], name)
					}
				}
			}
		}
	}
	return out
}

// isMadeBy reports whether an owner of an object is among names: the owner asks for the same addresses.
func isMadeBy(d document, names map[string]bool) bool {
	return slices.ContainsFunc(objectsIn(valueBelow(d.whole, "metadata")["ownerReferences"]), func(owner map[string]any) bool {
		kind, _ := owner["kind"].(string)
		name, _ := owner["name"].(string)
		return names[migrate.Object{Kind: kind, Namespace: d.Namespace, Name: name}.String()]
	})
}

// nameClaimant names a template.
func (p podTemplate) nameClaimant(d document) string {
	if p.place == "" || slices.Contains(builtinWorkloads, d.Kind) {
		return d.String()
	}
	return d.String() + " (" + excerpt.Line(p.place) + ")"
}

// listClaims returns the addresses that no two pods on one node have at a time, with their network.
func (f fixed) listClaims() (out []string) {
	if f.isUnique {
		out = slices.Clone(f.addresses)
	}
	if f.mac != "" {
		out = append(out, "MAC address "+f.mac)
	}
	for i, claim := range out {
		out[i] = "network " + f.network + ": " + claim
	}
	return out
}

// warnOfOthers warns of other templates in the files that ask for the same address.
func (v *Verdict) warnOfOthers(f fixed, claimant string, claims map[string][]string) {
	for _, claim := range f.listClaims() {
		if !slices.Contains(claims[claim], claimant) {
			continue
		}
		for _, other := range claims[claim] {
			if other != claimant {
				where := ""
				if f.mac != "" && strings.HasSuffix(claim, f.mac) {
					where = ", on one node"
				}
				v.addWarning("%s: %s asks for it too, and only one of the two runs at a time%s", claim, other, where)
				break
			}
		}
	}
}

// warnOfNodes warns of a DaemonSet, whose pods on all nodes ask for one address.
func (v *Verdict) warnOfNodes(f fixed) {
	if f.mac != "" {
		v.addWarning("network %s: the pod of each node asks for MAC address %s: with several nodes the segment has it several times", f.network, f.mac)
	}
	if len(f.addresses) > 0 {
		v.addWarning("network %s: the pod of each node asks for %s: on a second node the pod does not start, or it has the same address", f.network, strings.Join(f.addresses, ", "))
	}
}

// warnOfUpdate warns of a Deployment whose update starts a pod before it ends the one with the
// address.
func (v *Verdict) warnOfUpdate(f fixed) {
	what, where := f.addresses, ""
	if len(what) == 0 {
		what, where = []string{"MAC address " + f.mac}, " on the same node"
	}
	v.addWarning("network %s: an update does not end: the new pod waits%s for %s, which the old pod has until the new one runs: write strategy: {type: Recreate}",
		f.network, where, strings.Join(what, ", "))
}

// overlapsInUpdate reports whether an update of a Deployment of one pod starts the new pod before it
// ends the old one. The default of maxSurge is 25%, which is one pod.
func overlapsInUpdate(d document) bool {
	if d.Kind != kindDeployment {
		return false
	}
	strategy := valueBelow(d.whole, "spec", "strategy")
	surge := valueBelow(strategy, "rollingUpdate")["maxSurge"]
	return strategy["type"] != "Recreate" && surge != 0 && surge != "0%"
}

// fixedIn returns the fixed addresses of the networks that annotations of a pod name.
func fixedIn(annotations map[string]string, d document, find pod.Definitions) (out []fixed) {
	namespace := podTemplate{}.makePod(d).Namespace
	elements, _ := netannotation.ParseDefault(annotations[netannotation.DefaultNetwork]) // judgePod reports the errors
	more, _ := netannotation.Parse(annotations[netannotation.Networks], namespace)
	for _, e := range append(elements, more...) {
		if f, ok := fixedOf(e, find); ok {
			out = append(out, f)
		}
	}
	return out
}

// fixedOf returns the fixed addresses of one network of a pod: those that the pod asks for, and
// otherwise those of the network itself.
func fixedOf(e netannotation.Element, find pod.Definitions) (fixed, bool) {
	f := fixed{network: e.Namespace + "/" + e.Name, addresses: wantedAddresses(e)}
	if e.MAC != nil {
		f.mac = e.MAC.String()
	} else if text := argumentText(e, "mac"); len(text) == 1 {
		f.mac = excerpt.Line(text[0])
	}
	n, err := find(e.Namespace, e.Name)
	if errors.Is(err, vf.ErrNotFound) {
		return f, len(f.addresses) > 0 || f.mac != ""
	}
	own, err := config.Own(n)
	if err != nil {
		return f, false // the network is refused
	}
	for _, c := range own {
		if c.Spec.MAC != nil && f.mac == "" {
			f.mac = c.Spec.MAC.String()
		}
		if c.IPAM.Shared {
			f.addresses = nil
			continue
		}
		f.isUnique = f.isUnique || !c.IPAM.IsZero() && !c.IPAM.IsDelegated() && !c.IPAM.IsUniqueOnNode()
		if len(f.addresses) == 0 && c.IPAM.Type == ipam.TypeStatic {
			for _, a := range c.IPAM.Static {
				f.addresses = append(f.addresses, a.Prefix.Addr().String())
			}
		}
	}
	return f, len(f.addresses) > 0 || f.mac != ""
}

// wantedAddresses returns the addresses that a pod asks for.
func wantedAddresses(e netannotation.Element) (out []string) {
	for _, text := range append(slices.Clone(e.IPs), argumentText(e, "ips")...) {
		address, _, _ := strings.Cut(text, "/")
		if address = excerpt.Line(address); !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	return out
}

// argumentText returns the texts of a key of cni-args: a list, or one text.
func argumentText(e netannotation.Element, key string) []string {
	var many []string
	if json.Unmarshal(e.CNIArgs[key], &many) == nil {
		return many
	}
	var one string
	if json.Unmarshal(e.CNIArgs[key], &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}

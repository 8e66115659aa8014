package migrate

import "fmt"

// Check says what is left to do after a migration: nothing when the old parts are gone, culvertd
// runs, every pod with networks runs and every network is served.
func Check(c Cluster) []Note {
	var out []Note
	left := func(object, format string, args ...any) {
		out = append(out, Note{Object: object, Text: fmt.Sprintf(format, args...), Lost: true})
	}
	for _, p := range c.Parts() {
		if p.Goes && p.workload.Replicas > 0 {
			left(p.Workload, "the %s is still there: %s", p.Name, p.Why)
		}
	}
	switch {
	case !c.Installed:
		left("Culvert", "it is not installed: kubectl apply --server-side -f dist/kubernetes/culvert.yaml")
	case len(c.Daemons) == 0:
		left("Culvert", "no culvertd runs: kubectl -n culvert-system get pods")
	}
	for _, d := range c.Daemons {
		if !d.Ready {
			left("culvertd "+d.Name, "it is not ready on node %s: %s", d.Node, d.Reason)
		}
	}
	out = append(out, c.Unapplied...)
	for _, p := range c.Pods {
		if !p.Ready {
			left(p.String(), "it is not ready: %s", p.Reason)
		}
	}
	for _, n := range c.judged() {
		if n.Lost {
			out = append(out, n)
		}
	}
	return out
}

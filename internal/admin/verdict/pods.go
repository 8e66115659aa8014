package verdict

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// podTemplate is a pod in an object: the object itself, the template of a workload of any kind, or
// the pod of a guest of KubeVirt.
type podTemplate struct {
	place       string // the path of the template; empty for the object itself
	annotations map[string]any
	selector    map[string]any // its nodeSelector
	count       count
	guest       *guest // nil for a pod that is no guest
}

// kinds that are pods themselves, so that their own annotations are those of the pod.
var podKinds = []string{kindPod, kindGuest}

// podsIn finds the pods in an object that ask for networks. Kinds of other projects have their pods
// at different places, so it looks at all places.
func podsIn(d document) []podTemplate {
	if d.Err != nil {
		return nil
	}
	f := podFinder{left: mostMaps}
	whole := maps.Clone(d.whole)
	delete(whole, "status")
	if !slices.Contains(podKinds, d.Kind) {
		delete(whole, "metadata") // its annotations are those of the object itself
	}
	f.searchMap(whole, podPlace{count: count{n: 1, perNode: d.Kind == kindDaemonSet}})
	if own := valueBelow(d.whole, "metadata", "annotations"); len(f.pods) == 0 && !f.hasTemplate && givesAnnotations(d) && asksForNetworks(own) {
		f.addPod(podTemplate{annotations: own}, podPlace{count: count{n: 1}})
	}
	return f.pods
}

// givesAnnotations reports whether an object may give its own annotations to its pods, as KServe's
// InferenceServices do. Kubernetes' own kinds and guests of KubeVirt do not.
func givesAnnotations(d document) bool {
	group, _, _ := strings.Cut(d.APIVersion, "/")
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") && group != "kubevirt.io"
}

// Bounds on the search in an object. The deepest templates in use have ten levels.
const (
	mostMaps     = 100_000
	deepestLevel = 24
)

// podPlace is where a podFinder searches.
type podPlace struct {
	path  string
	depth int
	count count
}

func (p podPlace) enterPath(path string) podPlace {
	p.path, p.depth = path, p.depth+1
	return p
}

type podFinder struct {
	left int // how many maps may still be searched
	pods []podTemplate
	// hasTemplate is set if there is a template of pods, whose annotations count.
	hasTemplate bool
}

func (f *podFinder) searchValue(value any, at podPlace) {
	if at.depth > deepestLevel {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		f.searchMap(v, at)
	case []any:
		for i, element := range v {
			f.searchValue(element, at.enterPath(elementPath(at.path, i)))
		}
	}
}

func (f *podFinder) searchMap(m map[string]any, at podPlace) {
	if f.left--; f.left < 0 {
		return
	}
	at.count = at.count.countWithin(m)
	f.hasTemplate = f.hasTemplate || valueBelow(m, "template", "spec")["containers"] != nil
	skip := ""
	if annotations := valueBelow(m, "metadata", "annotations"); asksForNetworks(annotations) {
		f.addPod(podTemplate{annotations: annotations, selector: valueBelow(m, "spec", "nodeSelector")}, at)
		skip = "metadata"
	} else if asksForNetworks(m) { // podMetadata.annotations, podAnnotations and the like
		f.addPod(podTemplate{annotations: m}, at)
	}
	if g := guestOf(m); g != nil {
		f.addPod(podTemplate{annotations: g.makeAnnotations(), selector: valueBelow(m, "nodeSelector"), guest: g}, at)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key != skip {
			below := at.enterPath(keyPath(at.path, key))
			below.count = at.count.countBelow(m, key)
			f.searchValue(m[key], below)
		}
	}
}

func (f *podFinder) addPod(p podTemplate, at podPlace) {
	p.place, p.count = at.path, at.count
	f.pods = append(f.pods, p)
}

// asksForNetworks reports whether annotations ask for networks.
func asksForNetworks(annotations map[string]any) bool {
	for _, key := range []string{netannotation.Networks, netannotation.DefaultNetwork} {
		if value := annotations[key]; value != nil && value != "" {
			return true
		}
	}
	return false
}

// makePod returns the pod of the template in a document.
func (p podTemplate) makePod(d document) api.Pod {
	out := api.Pod{Namespace: cmp.Or(d.Namespace, defaultNamespace), Name: d.Name, UID: "judged", Annotations: map[string]string{}}
	for key, value := range p.annotations {
		out.Annotations[key], _ = value.(string)
	}
	return out
}

// judgePods judges the pods in a document, and reports whether it has any.
func (v *Verdict) judgePods(d document, all files) bool {
	pods := podsIn(d)
	for _, p := range pods {
		var one Verdict
		one.judgeTemplate(p, d, all)
		place := ""
		if len(pods) > 1 && p.place != "" {
			place = excerpt.Line(p.place) + ": "
		}
		for _, text := range one.Refusals {
			v.addRefusal("%s%s", place, text)
		}
		for _, text := range one.Warnings {
			v.addWarning("%s%s", place, text)
		}
	}
	return len(pods) > 0 || v.strayAnnotations(d)
}

func (v *Verdict) judgeTemplate(p podTemplate, d document, all files) {
	for _, key := range []string{netannotation.Networks, netannotation.DefaultNetwork} {
		text, isText := p.annotations[key].(string)
		switch {
		case p.annotations[key] != nil && !isText:
			v.addRefusal("annotation %s: want a text: put the list in quotes", key)
			return
		case hasPlaceholder(text):
			v.addWarning("annotation %s %s has a placeholder, and was not judged", key, excerpt.Quote(text))
			return
		}
	}
	made := p.makePod(d)
	v.judgePod(made, all)
	v.judgeNodes(made, maps.Clone(p.selector), all)
	if p.guest != nil {
		v.judgeGuest(*p.guest, made, all)
	}
	v.judgeReplicas(p, d, all)
}

// hasPlaceholder reports whether a text has a part that another program fills in: a workflow, a
// policy, envsubst.
func hasPlaceholder(text string) bool {
	return slices.ContainsFunc([]string{"{{", "${", "$("}, func(mark string) bool { return strings.Contains(text, mark) })
}

// builtinWorkloads are the kinds of Kubernetes that make pods of a template.
var builtinWorkloads = []string{"DaemonSet", kindDeployment, "ReplicaSet", "StatefulSet", "Job", kindCronJob, "ReplicationController"}

// strayAnnotations warns of an object that asks for networks in its own annotations, which no pods
// get.
func (v *Verdict) strayAnnotations(d document) bool {
	if !asksForNetworks(valueBelow(d.whole, "metadata", "annotations")) {
		return false
	}
	if group, _, _ := strings.Cut(d.APIVersion, "/"); !slices.Contains(builtinWorkloads, d.Kind) && (group == "" || strings.Contains(group, ".") && group != "kubevirt.io") {
		return false
	}
	if !slices.Contains(builtinWorkloads, d.Kind) {
		v.addWarning("metadata.annotations asks for networks, which has no effect on a %s: write it into the annotations of pods", d.Kind)
		return true
	}
	place := "spec.template"
	if d.Kind == kindCronJob {
		place = "spec.jobTemplate.spec.template"
	}
	v.addWarning("metadata.annotations asks for networks, and its pods do not have that annotation: write it into %s.metadata.annotations", place)
	return true
}

// count is how many pods of a template run at once.
type count struct {
	n int
	// perNode: each node has so many. ends: the pods end, and others start in their place.
	perNode, ends bool
}

// mostPods bounds a count.
const mostPods = 1_000_000

func (c count) multiplyBy(n int) count {
	c.n = min(c.n*max(min(n, mostPods), 0), mostPods)
	return c
}

// countWithin returns the count inside an object that may have replicas of its own: replicas of a
// workload, or parallelism and completions of a Job.
func (c count) countWithin(m map[string]any) count {
	if n, ok := m["replicas"].(int); ok {
		c = c.multiplyBy(n)
	}
	if n, ok := m["parallelism"].(int); ok {
		if completions, ok := m["completions"].(int); ok {
			n = min(n, completions)
		}
		c = c.multiplyBy(n)
		c.ends = true
	}
	return c
}

// countBelow returns the count inside the key of an object. A group of a LeaderWorkerSet has a size: one
// leader, and workers.
func (c count) countBelow(m map[string]any, key string) count {
	size, ok := m["size"].(int)
	if !ok || key != "workerTemplate" {
		return c
	}
	if m["leaderTemplate"] != nil {
		size--
	}
	return c.multiplyBy(size)
}

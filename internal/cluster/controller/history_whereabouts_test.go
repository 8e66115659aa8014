package controller

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// I4: whereabouts goes at any moment of a history, while pods have its addresses. They run on, and
// no node hands out one of these addresses until the pod has ended.
//
// tools/go test ./internal/cluster/controller -run TestI4HistoriesOfAWhereaboutsThatGoes -rapid.checks=30000 -rapid.seed=0
func TestI4HistoriesOfAWhereaboutsThatGoes(t *testing.T) {
	section := []byte(`{"type":"whereabouts","range":"10.0.0.0/28"}`)
	config, err := ipam.Reader{}.ParseWhereabouts(section)
	if err != nil {
		t.Fatal(err)
	}
	checkHistories(t, "1000", func(t *rapid.T) *past {
		p := newPast(t, config.Pool, config, &otherStack{sandboxes: map[string]netip.Addr{}})
		for range rapid.IntRange(0, 5).Draw(t, "pods") {
			p.startOther()
		}
		p.save()
		return p
	})
}

// otherStack is whereabouts, with the pods that have its addresses. Their network-status is on the
// API server.
type otherStack struct {
	gone      bool
	pods      int
	sandboxes map[string]netip.Addr // by the key of the pod
}

// serves reports whether the plugin gives out the addresses of new pods.
func (o *otherStack) serves() bool { return o != nil && !o.gone }

func (o *otherStack) leave() {
	if o != nil {
		o.gone = true
	}
}

// restore ends the pods that the restored API server lacks, as the kubelet does. Pods that ended
// since the backup are there again, without the addresses in their network-status.
func (o *otherStack) restore(there objects) {
	if o != nil {
		maps.DeleteFunc(o.sandboxes, func(pod string, _ netip.Addr) bool { return there[pod] == nil })
	}
}

// holders returns the pods by their addresses.
func (o *otherStack) holders() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	if o != nil {
		for pod, a := range o.sandboxes {
			out[a] = "a pod of whereabouts, " + pod
		}
	}
	return out
}

// otherActions returns the actions of whereabouts.
func (p *past) otherActions() map[string]func(*rapid.T) {
	o := p.other
	if o == nil {
		return nil
	}
	return map[string]func(*rapid.T){
		"pod of whereabouts starts": func(*rapid.T) { p.startOther() },
		"pod of whereabouts ends": func(t *rapid.T) {
			if len(o.sandboxes) > 0 {
				pod := rapid.SampledFrom(slices.Sorted(maps.Keys(o.sandboxes))).Draw(t, "pod")
				delete(o.sandboxes, pod)
				p.server.put(pod, nil)
			}
		},
		"whereabouts goes": func(*rapid.T) { o.gone = true },
	}
}

// startOther starts a pod that whereabouts gives one of the first addresses.
func (p *past) startOther() {
	o, a := p.other, netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(1, 6).Draw(p.t, "address of whereabouts"))})
	if _, taken := o.holders()[a]; o.gone || taken {
		return
	}
	o.pods++
	pod := &metav1.PartialObjectMetadata{}
	pod.Namespace, pod.Name = "default", fmt.Sprintf("p%d", o.pods)
	pod.Annotations = map[string]string{netannotation.Networks: "w", netannotation.Status: fmt.Sprintf(`[{"name":"default/w","ips":[%q]}]`, a)}
	o.sandboxes["pod/"+pod.Name] = a
	p.server.put("pod/"+pod.Name, pod)
}

// podsSeen counts the pods on the API server.
func (p *past) podsSeen() int { return len(podsIn(p.server.last())) }

// podsIn returns the pods among objects.
func podsIn(all objects) (out []metav1.PartialObjectMetadata) {
	for key, o := range all {
		if pod, is := o.(*metav1.PartialObjectMetadata); is && strings.HasPrefix(key, "pod/") {
			out = append(out, *pod)
		}
	}
	return out
}

// whereaboutsDefinition is the network of the pods.
func whereaboutsDefinition() *unstructured.Unstructured {
	u := definitionOf("default", "w", "")
	u.Object["spec"] = map[string]any{"config": `{"cniVersion": "1.0.0", "name": "w", "type": "sriov", "ipam": {"type": "whereabouts", "range": "10.0.0.0/28"}}`}
	return u
}

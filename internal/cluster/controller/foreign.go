package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// foreignLook is how long one list of pods is used, since many nodes that start request blocks at
// once.
const foreignLook = 10 * time.Second

// mostForeign bounds how many addresses of one network a pod's network-status may keep from the
// nodes, since the author of a pod can write that annotation.
const mostForeign = 8

// foreignPage is how many pods the API server returns at a time.
const foreignPage = 500

// foreignAddresses collects the addresses of networks from the network-status of pods that have
// not ended. An address of which no node has a block comes from another stack, such as the plugin
// host-local before a migration (I4).
type foreignAddresses struct {
	live client.Reader
	now  func() time.Time

	mu     sync.Mutex // guards all below
	listed time.Time
	seen   map[string][]netip.Addr // by network, namespace/name
}

// ofPool returns the addresses of a pool that pods have.
func (f *foreignAddresses) ofPool(ctx context.Context, pool string) ([]netip.Addr, error) {
	if v1alpha1.IsDeclaredPool(pool) {
		return f.ofDeclared(ctx, pool)
	}
	return f.of(ctx, pool)
}

// of returns the addresses of a network that pods have. A network without a namespace is that of
// a file on the nodes.
func (f *foreignAddresses) of(ctx context.Context, network string) ([]netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil || f.now().Sub(f.listed) > foreignLook {
		seen, err := f.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the addresses of pods: %w", err)
		}
		f.seen, f.listed = seen, f.now()
	}
	if !strings.Contains(network, "/") {
		return joinNamed(f.seen, network), nil
	}
	return f.seen[network], nil
}

// joinNamed returns the addresses of the networks that have a name in any namespace. A
// NetworkAttachmentDefinition with an empty spec.config stands for the file of its name, and pods
// ask for it by namespace and name.
func joinNamed(seen map[string][]netip.Addr, name string) (out []netip.Addr) {
	for network, addresses := range seen {
		if strings.HasSuffix(network, "/"+name) {
			out = append(out, addresses...)
		}
	}
	return out
}

// list asks the API server for the metadata of pods that have not ended. A pod whose init
// containers run or whose image is missing is Pending, and its sandbox has addresses.
func (f *foreignAddresses) list(ctx context.Context) (map[string][]netip.Addr, error) {
	unended := client.MatchingFieldsSelector{Selector: fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)}
	out, next := map[string][]netip.Addr{}, ""
	for {
		var pods metav1.PartialObjectMetadataList
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := f.live.List(ctx, &pods, unended, client.Limit(foreignPage), client.Continue(next)); err != nil {
			return nil, err
		}
		for _, p := range pods.Items {
			for network, addresses := range addressesOf(p.Namespace, p.Annotations) {
				out[network] = append(out[network], addresses...)
			}
		}
		if next = pods.Continue; next == "" {
			return out, nil
		}
	}
}

// statusEntry is the part of an element of network-status that is read.
type statusEntry struct {
	Name    string   `json:"name"`
	IPs     []string `json:"ips"`
	Default bool     `json:"default"`
}

// addressesOf returns the addresses in a pod's network-status by network, for the networks that
// the pod asks for. Multus before 3.7 writes the name in the network's configuration; the order
// of the elements then shows which network it is.
func addressesOf(namespace string, annotations map[string]string) map[string][]netip.Addr {
	var entries []statusEntry
	asked, err := netannotation.Parse(annotations[netannotation.Networks], namespace)
	if err != nil || len(asked) == 0 || json.Unmarshal([]byte(annotations[netannotation.Status]), &entries) != nil {
		return nil
	}
	entries = slices.DeleteFunc(entries, func(e statusEntry) bool { return e.Default })
	out := map[string][]netip.Addr{}
	for i, e := range entries {
		network := e.Name
		if !strings.Contains(network, "/") && len(entries) == len(asked) {
			network = asked[i].Namespace + "/" + asked[i].Name
		}
		if !slices.ContainsFunc(asked, func(a netannotation.Element) bool { return a.Namespace+"/"+a.Name == network }) {
			continue
		}
		for _, ip := range e.IPs {
			if a, err := netip.ParseAddr(ip); err == nil && len(out[network]) < mostForeign {
				out[network] = append(out[network], a.Unmap())
			}
		}
	}
	return out
}

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
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// foreignLook is how long one list of pods is used, since many nodes that start request blocks at
// once.
const foreignLook = 10 * time.Second

// mostForeign bounds how many addresses a pod's network-status may keep from the nodes, for each
// time that the pod asks for a network: the author of a pod can write that annotation.
const mostForeign = 8

// foreignPage is how many pods the API server returns at a time.
const foreignPage = 500

// foreignAddresses collects the addresses of networks from the network-status of pods that have
// not ended. An address of which no node has a block comes from another stack, such as the plugin
// host-local before a migration (I4).
type foreignAddresses struct {
	live        client.Reader
	now         func() time.Time
	definitions *config.Definitions // nil keeps none
	everyPod    netannotation.EveryPod

	mu     sync.Mutex // guards all below
	listed time.Time
	seen   map[string][]netip.Addr // by network, namespace/name
}

// ofPool returns the addresses of a pool that pods have.
func (f *foreignAddresses) ofPool(ctx context.Context, pool string) ([]netip.Addr, error) {
	seen, err := f.allSeen(ctx)
	_, isWhereabouts := ipam.WhereaboutsName(pool)
	switch {
	case err != nil:
		return nil, err
	case isWhereabouts || v1alpha1.IsDeclaredPool(pool):
		return f.ofShared(ctx, seen, pool)
	case strings.Contains(pool, "/"):
		return seen[pool], nil
	}
	return joinNamed(seen, pool), nil
}

// ofShared returns the addresses that pods have of the networks of a shared pool. A network of
// which the cluster does not know the configuration may have any pool of whereabouts: its
// definition is a file on the nodes, cannot be read, or was deleted while pods run on.
func (f *foreignAddresses) ofShared(ctx context.Context, seen map[string][]netip.Addr, pool string) (out []netip.Addr, err error) {
	networks, err := listShared(ctx, f.live, f.definitions)
	if err != nil {
		return nil, err
	}
	declared := v1alpha1.IsDeclaredPool(pool)
	for name, addresses := range seen {
		n, known := networks[name]
		unknown := !known || n.IsFile || n.Unread
		if n.hasPool(pool) || unknown && !declared {
			out = append(out, addresses...)
		}
	}
	return out, nil
}

// allSeen returns the addresses that pods have by their networks.
func (f *foreignAddresses) allSeen(ctx context.Context) (map[string][]netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil || f.now().Sub(f.listed) > foreignLook {
		seen, err := f.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the addresses of pods: %w", err)
		}
		f.seen, f.listed = seen, f.now()
	}
	return f.seen, nil
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
			for network, addresses := range addressesOf(f.everyPod, p.Namespace, p.Annotations) {
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
// every pod gets and those that the pod asks for. Multus before 3.7 writes the name in the network's configuration; the order
// of the elements then shows which network it is. The pod asks for its default network by another
// annotation; the default network of the cluster is not among them.
func addressesOf(everyPod netannotation.EveryPod, namespace string, annotations map[string]string) map[string][]netip.Addr {
	var entries []statusEntry
	asked, err := everyPod.Parse(annotations[netannotation.Networks], namespace)
	if err != nil || json.Unmarshal([]byte(annotations[netannotation.Status]), &entries) != nil {
		return nil
	}
	most := map[string]int{} // by network
	out := map[string][]netip.Addr{}
	add := func(network string, e statusEntry) {
		for _, ip := range e.IPs {
			if a, err := netip.ParseAddr(ip); err == nil && len(out[network]) < most[network] {
				out[network] = append(out[network], a.Unmap())
			}
		}
	}
	defaults, err := netannotation.ParseDefault(annotations[netannotation.DefaultNetwork])
	if err != nil {
		defaults = nil
	}
	for _, a := range slices.Concat(asked, defaults) {
		most[nameOf(a)] += mostForeign
	}
	others := slices.DeleteFunc(slices.Clone(entries), func(e statusEntry) bool { return e.Default })
	for i, e := range others {
		if !strings.Contains(e.Name, "/") && len(others) == len(asked) {
			e.Name = nameOf(asked[i])
		}
		add(e.Name, e)
	}
	for _, e := range entries {
		if e.Default && len(defaults) == 1 {
			add(nameOf(defaults[0]), e)
		}
	}
	return out
}

// nameOf returns namespace/name of a network that a pod asks for.
func nameOf(e netannotation.Element) string { return e.Namespace + "/" + e.Name }

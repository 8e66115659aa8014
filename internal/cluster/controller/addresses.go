package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// absentLook is how often Addresses examines the blocks of nodes that are gone.
const absentLook = time.Minute

// podLook is how soon Addresses looks again for pods that nodes report and that the cache lacks.
const podLook = 5 * time.Second

// nodeKind is core/v1's Node, of which the controller reads only the metadata.
var nodeKind = schema.GroupVersionKind{Version: "v1", Kind: "Node"}

// Addresses grants blocks of addresses to nodes and takes them back: one AddressPool for each
// network, see ipam/blocks. A request is the name of a network. It may run in several processes
// at once and die at any moment, since it writes a pool as a whole and only on the version that
// it has read.
type Addresses struct {
	// Client may answer from a cache that is behind; Live asks the API server.
	Client client.Client
	Live   client.Reader
	// Foreign returns the addresses of a network that pods have, whichever stack gave them. It is
	// nil if there is no other stack.
	Foreign func(ctx context.Context, network string) ([]netip.Addr, error)
	// Definitions keeps the NetworkAttachmentDefinitions that were parsed; nil keeps none.
	Definitions *config.Definitions
	Now         func() time.Time
	Log         *slog.Logger
	Events      record.EventRecorder // nil reports none

	absences   blocks.Absences
	endings    blocks.Endings
	roll       blocks.RollCall
	departures departures
	pace       poolPace
	shared     sharedCache
}

// Reconcile updates the pool of one network by the requests of the nodes.
func (a *Addresses) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	network := req.Name
	object, err := a.pool(ctx, a.Client, network)
	if err != nil || object == nil {
		return ctrl.Result{}, err
	}
	if wait := a.pace.timeLeft(network, a.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	// The pool is read before the nodes, so it is safe to take blocks back. The write fails if
	// the pool has changed since.
	pool, err := blocks.FromObject(object)
	if err != nil {
		a.Log.Error("pool is not served", "net", network, "err", err)
		return ctrl.Result{}, nil // the next change of the pool wakes Reconcile
	}
	r, err := a.reports(ctx, network)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := object.DeepCopy()
	if err := a.nameOwner(ctx, object, &pool, r); err != nil {
		return ctrl.Result{}, err
	}
	if err := a.confine(ctx, &pool, &r); err != nil {
		return ctrl.Result{}, err
	}
	if object.ResourceVersion == "" {
		if is, err := a.mayMake(ctx, pool, r); err != nil || !is {
			return r.again(), err
		}
	}
	result, err := a.serve(ctx, before, object, pool, r)
	switch {
	case raced(err):
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("network %s: %w", network, err)
	}
	return result, nil
}

// serve judges a declared pool, calls the roll if the API server may have been restored, and grants
// addresses.
func (a *Addresses) serve(ctx context.Context, before, object *v1alpha1.AddressPool, pool blocks.Pool, r reports) (ctrl.Result, error) {
	granting, err := a.judgeDeclared(ctx, object, pool.Declared)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case !granting:
		return ctrl.Result{}, a.save(ctx, before, object)
	case a.callRoll(object, pool, r):
		return a.grant(ctx, before, object, pool, r)
	}
	return ctrl.Result{RequeueAfter: answerLook}, a.save(ctx, before, object)
}

// raced reports whether another writer was faster. Reconcile then tries again shortly, when the
// cache has that write.
func raced(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// grant takes back the blocks that nodes have no more right to, and grants the addresses that
// they request.
func (a *Addresses) grant(ctx context.Context, before, object *v1alpha1.AddressPool, pool blocks.Pool, r reports) (ctrl.Result, error) {
	own := map[string][]blocks.Block{}
	for _, b := range pool.Blocks {
		own[b.Node] = append(own[b.Node], b)
	}
	released, err := blocks.Release(pool, &a.absences, a.Now(), func(node string) (blocks.NodeView, error) { return a.view(ctx, pool.Network, node, own[node]) })
	if err != nil {
		return ctrl.Result{}, err
	}
	var unconfirmed blocks.Unconfirmed
	r.demands, unconfirmed = blocks.Confirm(released, r.demands, func(pod, node string) bool { return isPodOn(ctx, a.Client, pod, node) })
	reserved := blocks.Reserve(released, &a.endings, r.demands, a.Now())
	granted, outcome, err := a.grantFree(ctx, reserved, r)
	if err != nil {
		return ctrl.Result{}, err
	}
	outcome.Disputed = slices.Concat(unconfirmed.Disputed, outcome.Disputed)
	granted, outcome.Starved = a.fit(object, reserved, granted, r.demands, outcome.Starved)
	a.describe(object, granted, r, outcome)
	if err := a.save(ctx, before, object); err != nil {
		return ctrl.Result{}, fmt.Errorf("write AddressPool %s: %w", object.Name, err)
	}
	if unconfirmed.Count > 0 {
		return ctrl.Result{RequeueAfter: podLook}, nil
	}
	waits := slices.ContainsFunc(granted.Reservations, func(r blocks.Reservation) bool { return !r.Since.IsZero() })
	if waits || slices.ContainsFunc(granted.Blocks, func(b blocks.Block) bool { return !b.GoneSince.IsZero() }) {
		return ctrl.Result{RequeueAfter: absentLook}, nil
	}
	return r.again(), nil
}

// isPodOn reports whether a pod, by its namespace/name, is on a node. No culvertd can change the node of
// a pod.
func isPodOn(ctx context.Context, from client.Reader, pod, node string) bool {
	namespace, name, _ := strings.Cut(pod, "/")
	p := &corev1.Pod{}
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p, client.UnsafeDisableDeepCopy)
	return err == nil && p.Spec.NodeName == node
}

// fit returns granted, if etcd accepts its object. Otherwise it returns the pool without new
// grants, and sets a condition. It also returns the nodes that get nothing.
func (a *Addresses) fit(o *v1alpha1.AddressPool, before, granted blocks.Pool, demands []blocks.Demand, starved []string) (blocks.Pool, []string) {
	fits, refused := blocks.Fit(before, granted, demands)
	if len(refused) == 0 {
		meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionTooLarge)
		return fits, starved
	}
	a.setCondition(o, v1alpha1.ConditionTooLarge, true, reasons.TooLarge, fmt.Sprintf(
		"its %d blocks are %d bytes, and etcd would soon refuse the object: %s get no more of them; declare a pool with a larger blockSize, or divide the network among several pools",
		len(fits.Blocks), fits.Bytes(), listSome(refused)))
	return fits, mergeNames(starved, refused)
}

// mergeNames returns the names of two lists, sorted, each once.
func mergeNames(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// grantFree grants the addresses that the nodes request, except those that pods have from another
// stack. It lists pods only if there is something to grant.
func (a *Addresses) grantFree(ctx context.Context, p blocks.Pool, r reports) (blocks.Pool, blocks.Outcome, error) {
	granted, outcome := blocks.Grant(p, r.demands, r.nodes)
	if a.Foreign == nil || granted.Total() == p.Total() {
		return granted, outcome, nil
	}
	var err error
	if p.Foreign, err = a.Foreign(ctx, p.Network); err != nil {
		return p, outcome, err
	}
	granted, outcome = blocks.Grant(p, r.demands, r.nodes)
	return granted, outcome, nil
}

// pool reads a network's pool. A pool that does not exist has no resourceVersion, or is nil if
// only a person may make it. pool returns vf.ErrInvalid if another pool has that AddressPool.
func (a *Addresses) pool(ctx context.Context, from client.Reader, network string) (*v1alpha1.AddressPool, error) {
	o := &v1alpha1.AddressPool{}
	name := v1alpha1.AddressPoolName(network)
	err := from.Get(ctx, client.ObjectKey{Name: name}, o)
	switch {
	case apierrors.IsNotFound(err) && v1alpha1.IsDeclaredPool(network):
		return nil, nil
	case apierrors.IsNotFound(err):
		return &v1alpha1.AddressPool{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.AddressPoolSpec{Network: network},
		}, nil
	case err != nil:
		return nil, fmt.Errorf("read AddressPool %s: %w", name, err)
	case o.PoolID() != network:
		return nil, fmt.Errorf("AddressPool %s: %w: it is %s, and %s needs an AddressPool of that name: delete it when it is not in use, or give the network another name", name, vf.ErrInvalid, o.PoolID(), network)
	}
	return o.DeepCopy(), nil
}

// reports has the nodes' reports about a network. It leaves out nodes whose Node object is gone.
type reports struct {
	demands []blocks.Demand // by node, since the cache lists NodeStates in any order
	outside []string        // descriptions of requests that the network does not declare
	// declared is set if a network declares addresses, or lets pods choose them.
	declared bool
	answers  []blocks.RollCallAnswer
	nodes    int // how many Node objects there are
}

// reports reads the nodes' reports about a network. It changes no object of the cache: a copy of
// the NodeStates of a large cluster takes longer than the rest of a look.
func (a *Addresses) reports(ctx context.Context, network string) (reports, error) {
	var states v1alpha1.NodeStateList
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(nodeKind.GroupVersion().WithKind("NodeList"))
	if err := errors.Join(a.Client.List(ctx, &states, client.UnsafeDisableDeepCopy), a.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy)); err != nil {
		return reports{}, fmt.Errorf("list what nodes need: %w", err)
	}
	out := reports{nodes: len(nodes.Items)}
	uids := make(map[string]types.UID, len(nodes.Items))
	for i := range nodes.Items {
		uids[nodes.Items[i].Name] = nodes.Items[i].UID
	}
	for i := range states.Items {
		s := &states.Items[i]
		uid, there := uids[s.Name]
		if !there {
			continue // its Node object is gone, or has not been seen yet and wakes Reconcile later
		}
		current := isOf(s, uid)
		out.answers = append(out.answers, answerOf(s, current))
		if !current {
			continue
		}
		d, _, err := blocks.Demands(s, network)
		if err != nil {
			a.Log.Warn("request left out", "net", network, "err", err)
		}
		for k := range d {
			d[k].UID = string(uid)
		}
		out.demands = append(out.demands, d...)
	}
	slices.SortStableFunc(out.demands, func(a, b blocks.Demand) int { return cmp.Compare(a.Node, b.Node) })
	out.answers = append(out.answers, a.departures.see(out.answers, a.Now())...)
	return out, nil
}

// isOf reports whether a NodeState belongs to the Node object with a UID. NodeStates of earlier
// versions of culvertd have no UID.
func isOf(s *v1alpha1.NodeState, uid types.UID) bool {
	return s.Status.NodeUID == "" || s.Status.NodeUID == string(uid)
}

// view returns the UID and the claims of a node; own has the node's blocks in a pool. Release
// takes back blocks whose claims are missing, so view asks the API server for claims that the
// cache lacks. The claims are unknown while the node cannot read its ledger
// (TestI4UnreadAddressKeepsClaims).
func (a *Addresses) view(ctx context.Context, pool, node string, own []blocks.Block) (v blocks.NodeView, err error) {
	v.UID, err = a.nodeUID(ctx, node, own)
	claimed := slices.ContainsFunc(own, func(b blocks.Block) bool { return b.Claim != "" })
	if err != nil || v.UID == "" || !claimed && allOf(own, v.UID) {
		return v, err
	}
	if allOf(own, v.UID) {
		if cached, err := a.claims(ctx, a.Client, pool, node, v); err == nil && cached.Known && hasClaims(cached, own) {
			return cached, nil
		}
	}
	return a.claims(ctx, a.Live, pool, node, v)
}

// claims adds to the view of a node the claims in its NodeState.
func (a *Addresses) claims(ctx context.Context, from client.Reader, pool, node string, v blocks.NodeView) (blocks.NodeView, error) {
	s := &v1alpha1.NodeState{}
	err := from.Get(ctx, client.ObjectKey{Name: node}, s)
	if apierrors.IsNotFound(err) {
		return v, nil
	}
	if err != nil {
		return v, fmt.Errorf("read NodeState %s: %w", node, err)
	}
	_, v.Claims, err = blocks.Demands(s, pool)
	if err != nil {
		a.Log.Warn("request left out", "net", pool, "err", err)
	}
	v.Known = s.Status.AddressesUnread == 0 && isOf(s, types.UID(v.UID))
	return v, nil
}

// hasClaims reports whether a node makes all claims that its blocks were granted for.
func hasClaims(v blocks.NodeView, own []blocks.Block) bool {
	return !slices.ContainsFunc(own, func(b blocks.Block) bool {
		return b.Claim != "" && !slices.ContainsFunc(v.Claims, func(c blocks.Claim) bool { return c.ID == b.Claim })
	})
}

// allOf reports whether all blocks belong to the Node object with a UID.
func allOf(all []blocks.Block, uid string) bool {
	return !slices.ContainsFunc(all, func(b blocks.Block) bool { return b.UID != uid })
}

// nodeUID returns the UID of the Node object that has the name of the blocks' node, empty when
// there is none. The cache may be stale, so nodeUID asks the API server before it reports that a
// block's Node is gone.
func (a *Addresses) nodeUID(ctx context.Context, node string, own []blocks.Block) (string, error) {
	n := metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(nodeKind)
	if a.Client.Get(ctx, client.ObjectKey{Name: node}, &n) == nil && allOf(own, string(n.UID)) {
		return string(n.UID), nil
	}
	err := a.Live.Get(ctx, client.ObjectKey{Name: node}, &n)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read Node %s: %w", node, err)
	}
	return string(n.UID), nil
}

// describe writes the granted blocks and the conditions into the object.
func (a *Addresses) describe(o *v1alpha1.AddressPool, p blocks.Pool, r reports, out blocks.Outcome) {
	o.Spec.Blocks, o.Spec.Wanted, o.Spec.Reservations = p.Object(), p.WantedAddresses(), blocks.ReservationObjects(p.Reservations)
	nodes := map[string]bool{}
	for _, b := range p.Blocks {
		nodes[b.Node] = true
	}
	if addresses := blocks.Addresses(r.demands); addresses > 0 && p.Declared == nil { // else no node needs any at the moment
		o.Status.Addresses = addresses
	}
	o.Status.Granted, o.Status.Nodes, o.Status.ClusterNodes, o.Status.Starved = p.Total(), int32(len(nodes)), int32(r.nodes), out.Starved
	a.setCondition(o, v1alpha1.ConditionExhausted, len(out.Starved) > 0, reasons.Exhausted,
		fmt.Sprintf("there are no addresses left for %s, or they have their share: widen the range of %s", listSome(out.Starved), rangeOwner(o)))
	a.setCondition(o, v1alpha1.ConditionDisputed, len(out.Disputed) > 0, reasons.Disputed, strings.Join(out.Disputed[:min(len(out.Disputed), 8)], "; "))
	a.setCondition(o, v1alpha1.ConditionOutside, len(r.outside) > 0, reasons.Outside, strings.Join(r.outside[:min(len(r.outside), mostOutside)], "; "))
	meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionWaiting)
}

// rangeOwner names the object that has the ranges of a pool.
func rangeOwner(o *v1alpha1.AddressPool) string {
	if o.Spec.Network == "" {
		return "AddressPool " + o.Name
	}
	return "network " + o.Spec.Network
}

// setCondition sets a condition of a pool. reason and message are used if it is true.
func (a *Addresses) setCondition(o *v1alpha1.AddressPool, kind string, is bool, reason, message string) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "No" + reason, LastTransitionTime: metav1.NewTime(a.Now())}
	if is {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reason, message
	}
	meta.SetStatusCondition(&o.Status.Conditions, c)
}

// save writes a pool that has changed, on the version that was read. It never makes a pool that a
// person has to declare.
func (a *Addresses) save(ctx context.Context, before, o *v1alpha1.AddressPool) (err error) {
	switch {
	case o.ResourceVersion == "":
		err = a.Client.Create(ctx, o)
	case equality.Semantic.DeepEqual(before, o):
		return nil
	default:
		err = a.Client.Update(ctx, o)
	}
	if err == nil {
		a.pace.noteWrite(o.PoolID(), len(o.Spec.Blocks), a.Now())
		a.reportConditions(before, o)
	}
	return err
}

// longestNetwork is the longest name of a network that an AddressPool may have (spec.network).
const longestNetwork = 512

// networksOf returns the networks whose addresses a node requests.
func networksOf(s *v1alpha1.NodeState) []string {
	var out []string
	listed := map[string]bool{}
	for _, r := range s.Status.AddressRequests {
		if pool := r.Pool; !listed[pool] && len(pool) <= longestNetwork {
			out, listed[pool] = append(out, pool), true
		}
	}
	return out
}

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/ipam/blocks"
	"github.com/culvert-net/culvert/vf"
)

// absentLook is how often the blocks of nodes that are gone are looked at.
const absentLook = time.Minute

// nodeKind is core/v1's Node, of which only the metadata is ever read.
var nodeKind = schema.GroupVersionKind{Version: "v1", Kind: "Node"}

// Addresses grants blocks of addresses to nodes and takes them back: one
// AddressPool for each network, see ipam/blocks. A request is the name of a
// network. It may run in several places at once and die at any moment: a pool is
// written whole, on the version that was read.
type Addresses struct {
	// Client may answer from a cache that is behind; Live asks the API server.
	Client client.Client
	Live   client.Reader
	Now    func() time.Time
	Log    *slog.Logger

	absences   blocks.Absences
	roll       blocks.RollCall
	departures departures
}

// Reconcile brings the pool of one network up to what the nodes ask for.
func (a *Addresses) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	network := req.Name
	object, err := a.pool(ctx, a.Client, network)
	if err != nil {
		return ctrl.Result{}, err
	}
	// The pool was read before any of what follows, which makes it safe to take
	// blocks back; the write fails when it has changed since.
	pool, err := blocks.FromObject(object)
	if err != nil {
		a.Log.Error("pool is not served", "net", network, "err", err)
		return ctrl.Result{}, nil // its next change wakes us
	}
	r, err := a.reports(ctx, network)
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.demands, r.outside, err = a.confine(ctx, network, r.demands); err != nil {
		return ctrl.Result{}, err
	}
	if object.ResourceVersion == "" && !blocks.AnyAsks(r.demands) {
		return r.again(), nil
	}
	result := ctrl.Result{RequeueAfter: answerLook}
	granting, err := a.callRoll(ctx, object, pool, r)
	if granting {
		result, err = a.grant(ctx, object, pool, r)
	}
	switch {
	case raced(err):
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("network %s: %w", network, err)
	}
	return result, nil
}

// raced reports whether another writer was faster; the cache hears of it.
func raced(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// grant takes back what nodes do not have any more, and grants what they ask for.
func (a *Addresses) grant(ctx context.Context, object *v1alpha1.AddressPool, pool blocks.Pool, r reports) (ctrl.Result, error) {
	released, err := blocks.Release(pool, &a.absences, a.Now(), func(node string) (blocks.NodeView, error) { return a.view(ctx, node, pool) })
	if err != nil {
		return ctrl.Result{}, err
	}
	inherited, err := a.inherit(ctx, object, released, r.demands)
	if errors.Is(err, vf.ErrInvalid) {
		a.Log.Error("pool is not served", "net", pool.Network, "err", err)
		return ctrl.Result{RequeueAfter: absentLook}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	granted, outcome := blocks.Grant(inherited, r.demands, r.nodes)
	if err := a.write(ctx, object, granted, r, outcome); err != nil {
		return ctrl.Result{}, fmt.Errorf("write AddressPool %s: %w", object.Name, err)
	}
	if slices.ContainsFunc(granted.Blocks, func(b blocks.Block) bool { return !b.GoneSince.IsZero() }) {
		return ctrl.Result{RequeueAfter: absentLook}, nil
	}
	return r.again(), nil
}

// inherit adds the blocks of the pools that the network had in earlier versions. The
// controller grants no more of these, so the cache is behind only just after an earlier
// version led: for a pool that is about to be made, inherit asks the API server.
func (a *Addresses) inherit(ctx context.Context, o *v1alpha1.AddressPool, p blocks.Pool, demands []blocks.Demand) (blocks.Pool, error) {
	var from client.Reader = a.Client
	if o.ResourceVersion == "" {
		from = a.Live
	}
	for _, network := range blocks.FormerPools(demands) {
		object, err := a.pool(ctx, from, network)
		if err != nil {
			return p, err
		}
		former, err := blocks.FromObject(object)
		if err != nil {
			return p, err
		}
		p = blocks.Inherit(p, former)
	}
	return p, nil
}

// pool reads a network's pool; one that is not there has no resourceVersion.
func (a *Addresses) pool(ctx context.Context, from client.Reader, network string) (*v1alpha1.AddressPool, error) {
	o := &v1alpha1.AddressPool{}
	name := v1alpha1.AddressPoolName(network)
	err := from.Get(ctx, client.ObjectKey{Name: name}, o)
	switch {
	case apierrors.IsNotFound(err):
		return &v1alpha1.AddressPool{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.AddressPoolSpec{Network: network},
		}, nil
	case err != nil:
		return nil, fmt.Errorf("read AddressPool %s: %w", name, err)
	case o.Spec.Network != network:
		return nil, fmt.Errorf("AddressPool %s: %w: it is of network %s, and network %s needs one of that name: delete it when it is not in use", name, vf.ErrInvalid, o.Spec.Network, network)
	}
	return o.DeepCopy(), nil
}

// reports are what the nodes whose Node objects are there say of a network.
type reports struct {
	demands []blocks.Demand
	outside []string // requests that the network does not declare, in words
	answers []blocks.Answer
	nodes   int // how many Node objects there are
}

// reports reads what the nodes say of a network.
func (a *Addresses) reports(ctx context.Context, network string) (reports, error) {
	var states v1alpha1.NodeStateList
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(nodeKind.GroupVersion().WithKind("NodeList"))
	if err := errors.Join(a.Client.List(ctx, &states), a.Client.List(ctx, &nodes)); err != nil {
		return reports{}, fmt.Errorf("list what nodes need: %w", err)
	}
	out := reports{nodes: len(nodes.Items)}
	for i := range states.Items {
		s := &states.Items[i]
		i := slices.IndexFunc(nodes.Items, func(n metav1.PartialObjectMetadata) bool { return n.Name == s.Name })
		if i < 0 {
			continue // its Node object is gone, or not seen yet; then its arrival wakes us
		}
		current := isOf(s, nodes.Items[i].UID)
		out.answers = append(out.answers, answerOf(s, current))
		if !current {
			continue
		}
		d, _, err := blocks.Demands(s, network)
		if err != nil {
			a.Log.Warn("request left out", "net", network, "err", err)
		}
		for k := range d {
			d[k].UID = string(nodes.Items[i].UID)
		}
		out.demands = append(out.demands, d...)
	}
	out.answers = append(out.answers, a.departures.see(out.answers, a.Now())...)
	return out, nil
}

// isOf reports whether a NodeState is that of a Node object with a UID. Earlier versions
// of culvertd name no UID.
func isOf(s *v1alpha1.NodeState, uid types.UID) bool {
	return s.Status.NodeUID == "" || s.Status.NodeUID == string(uid)
}

// view asks the API server, not the cache, for the claims of a node of a pool: what is
// missing there is taken back. They are not known while the node cannot read its ledger
// (TestI4UnreadAddressKeepsClaims).
func (a *Addresses) view(ctx context.Context, node string, p blocks.Pool) (v blocks.NodeView, err error) {
	own := slices.DeleteFunc(slices.Clone(p.Blocks), func(b blocks.Block) bool { return b.Node != node })
	v.UID, err = a.nodeUID(ctx, node, own)
	claimed := slices.ContainsFunc(own, func(b blocks.Block) bool { return b.Claim != "" })
	if err != nil || v.UID == "" || !claimed && allOf(own, v.UID) {
		return v, err
	}
	s := &v1alpha1.NodeState{}
	err = a.Live.Get(ctx, client.ObjectKey{Name: node}, s)
	if apierrors.IsNotFound(err) {
		return v, nil
	}
	if err != nil {
		return v, fmt.Errorf("read NodeState %s: %w", node, err)
	}
	_, v.Claims, err = blocks.Demands(s, p.Network)
	if err != nil {
		a.Log.Warn("request left out", "net", p.Network, "err", err)
	}
	v.Known = s.Status.AddressesUnread == 0 && isOf(s, types.UID(v.UID))
	return v, nil
}

// allOf reports whether all blocks are of the Node object with a UID.
func allOf(all []blocks.Block, uid string) bool {
	return !slices.ContainsFunc(all, func(b blocks.Block) bool { return b.UID != uid })
}

// nodeUID returns the UID of the Node object that has the name of the blocks' node, empty
// when there is none. The cache may be behind: that a block's Node is gone is asked of the
// API server.
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

// write makes the object say what was granted, when it does not.
func (a *Addresses) write(ctx context.Context, o *v1alpha1.AddressPool, p blocks.Pool, r reports, out blocks.Outcome) error {
	before := o.DeepCopy()
	o.Spec.Blocks = p.Object()
	nodes := map[string]bool{}
	for _, b := range p.Blocks {
		nodes[b.Node] = true
	}
	if addresses := blocks.Addresses(r.demands); addresses > 0 { // else nobody needs any at the moment
		o.Status.Addresses = addresses
	}
	o.Status.Granted, o.Status.Nodes, o.Status.Starved = p.Total(), int32(len(nodes)), out.Starved
	a.setCondition(o, v1alpha1.ConditionExhausted, len(out.Starved) > 0, "Exhausted",
		fmt.Sprintf("there are no addresses left for %s, or they have their share: widen the range of network %s", strings.Join(out.Starved, ", "), o.Spec.Network))
	a.setCondition(o, v1alpha1.ConditionDisputed, len(out.Disputed) > 0, "Disputed", strings.Join(out.Disputed[:min(len(out.Disputed), 8)], "; "))
	a.setCondition(o, v1alpha1.ConditionOutside, len(r.outside) > 0, "Outside", strings.Join(r.outside[:min(len(r.outside), mostOutside)], "; "))
	meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionWaiting)
	return a.save(ctx, before, o)
}

// setCondition sets a condition of a pool; reason and message are of one that is true.
func (a *Addresses) setCondition(o *v1alpha1.AddressPool, kind string, is bool, reason, message string) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "No" + reason, LastTransitionTime: metav1.NewTime(a.Now())}
	if is {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reason, message
	}
	meta.SetStatusCondition(&o.Status.Conditions, c)
}

// save writes a pool on the version that was read, when it has changed.
func (a *Addresses) save(ctx context.Context, before, o *v1alpha1.AddressPool) error {
	switch {
	case o.ResourceVersion == "":
		return a.Client.Create(ctx, o)
	case equality.Semantic.DeepEqual(before, o):
		return nil
	}
	return a.Client.Update(ctx, o)
}

// networksOf are the networks that a node asks for.
func networksOf(s *v1alpha1.NodeState) []string {
	var out []string
	for _, r := range s.Status.AddressRequests {
		if pool := cmp.Or(r.Pool, r.Network); !slices.Contains(out, pool) {
			out = append(out, pool)
		}
	}
	return out
}

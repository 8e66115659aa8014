package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// draining is the annotation of a Node that the controller cordoned because the number of VFs of
// one of its PFs has to change. Its value is the time of the cordon. A node that another program
// or a person has cordoned is drained too, and stays cordoned.
const draining = "culvert.dev/draining-since"

const (
	// drainLook is how often the controller examines a node that it drains, and tries again to
	// evict pods that a PodDisruptionBudget protects.
	drainLook = 5 * time.Second
	// drainPatience is how long a node whose VFs are free stays cordoned although culvertd has
	// not changed their number. Then there is another obstacle, which the PF's problems in the
	// NodeState name.
	drainPatience = 5 * time.Minute
)

// Drain prepares changes of sriov_numvfs, which destroy every VF of the PF. If pods have VFs of a
// PF for which another number is wanted, it cordons the node and evicts these pods and no others.
// culvertd then makes the change, and Drain uncordons the node. If no pod has a VF of that PF,
// Drain does nothing. All its requests are the same one, since it decides the next step over all
// nodes.
type Drain struct {
	Client client.Client // of Nodes it has the metadata only
	Live   client.Reader // asks the API server
	// Nodes is how many nodes are drained at a time; 0 drains none.
	Nodes  int
	Now    func() time.Time
	Events record.EventRecorder
	Log    *slog.Logger
}

// changing is a node with a PF whose number of VFs is to change.
type changing struct {
	node string
	what []string // "PF enp1s0: 4 VFs, 7 wanted"
	pods []string // the pods that have VFs of the PF, namespace/name
	rest []string // other owners of its VFs, which cannot be evicted
}

// changes returns the changes of a node's PFs that wait until the VFs are free.
func changes(s *v1alpha1.NodeState) changing {
	c := changing{node: s.Name}
	for _, pf := range s.Status.PFs {
		if pf.WantedVFs == nil || *pf.WantedVFs == pf.NumVFs || pf.Error != "" || *pf.WantedVFs > pf.TotalVFs {
			continue // as wanted, or a change that culvertd does not make even if the VFs are free
		}
		c.what = append(c.what, fmt.Sprintf("PF %s: %d VFs, %d wanted", pf.Name, pf.NumVFs, *pf.WantedVFs))
		for _, v := range s.Status.VFs {
			of, _, _ := strings.Cut(v.Name, "#")
			switch {
			case of != pf.Name || v.Owner == nil:
			case v.Owner.Kind == "pod" && strings.Contains(v.Owner.Name, "/"):
				c.pods = append(c.pods, v.Owner.Name)
			default:
				c.rest = append(c.rest, v.Owner.Kind+" "+v.Owner.Name)
			}
		}
	}
	slices.Sort(c.pods)
	c.pods = slices.Compact(c.pods)
	return c
}

// Reconcile takes the next step on every node that is being drained, and begins with further
// nodes as far as Nodes allows.
func (d *Drain) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var states v1alpha1.NodeStateList
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(nodeKind.GroupVersion().WithKind("NodeList"))
	if err := errors.Join(d.Client.List(ctx, &states), d.Client.List(ctx, &nodes)); err != nil {
		return ctrl.Result{}, fmt.Errorf("drain: list the nodes: %w", err)
	}
	waiting := map[string]changing{}
	for i := range states.Items {
		if c := changes(&states.Items[i]); len(c.what) > 0 {
			waiting[c.node] = c
		}
	}
	var errs []error
	active := 0
	slices.SortFunc(nodes.Items, func(a, b metav1.PartialObjectMetadata) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range nodes.Items { // first the nodes that are being drained already
		since, begun := n.Annotations[draining]
		if !begun {
			continue
		}
		c, still := waiting[n.Name]
		pods, err := d.podsOf(ctx, c)
		if !still || d.Nodes == 0 || err == nil && len(pods) == 0 && d.over(since) {
			errs = append(errs, d.uncordon(ctx, n.Name))
			continue
		}
		active++
		errs = append(errs, err, d.evict(ctx, c, pods))
	}
	for _, n := range nodes.Items {
		_, begun := n.Annotations[draining]
		c, needed := waiting[n.Name]
		if begun || !needed || len(c.pods) == 0 || active >= d.Nodes {
			continue
		}
		pods, err := d.podsOf(ctx, c)
		if errs = append(errs, err); err != nil || len(pods) == 0 {
			continue
		}
		active++
		errs = append(errs, d.begin(ctx, c, pods))
	}
	if active == 0 {
		return ctrl.Result{}, errors.Join(errs...)
	}
	return ctrl.Result{RequeueAfter: drainLook}, errors.Join(errs...)
}

// podsOf returns the pods of a node whose VFs delay its change. It leaves out pods that the
// NodeState names and that do not run on the node. Otherwise a node that names such pods would
// keep every other node from being drained (I7).
func (d *Drain) podsOf(ctx context.Context, c changing) (out []*corev1.Pod, _ error) {
	var errs []error
	for _, name := range c.pods {
		namespace, name, _ := strings.Cut(name, "/")
		pod := &corev1.Pod{}
		err := d.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
		if err == nil && pod.Spec.NodeName == c.node {
			out = append(out, pod)
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return out, errors.Join(errs...)
}

// over reports whether a node has been cordoned for longer than drainPatience.
func (d *Drain) over(since string) bool {
	at, err := time.Parse(time.RFC3339, since)
	return err != nil || d.Now().Sub(at) > drainPatience
}

// begin cordons a node and evicts the pods. It writes the annotation and the cordon at once, so
// that no crash leaves a cordon that Drain would not take back. If the node was cordoned already,
// begin writes no annotation, and Drain takes nothing back.
func (d *Drain) begin(ctx context.Context, c changing, pods []*corev1.Pod) error {
	n := &corev1.Node{}
	if err := d.Live.Get(ctx, client.ObjectKey{Name: c.node}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !n.Spec.Unschedulable {
		before := n.DeepCopy()
		n.Spec.Unschedulable = true
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, draining, d.Now().UTC().Format(time.RFC3339))
		if err := d.Client.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return again(fmt.Errorf("cordon node %s: %w", c.node, err))
		}
		d.Events.Eventf(n, corev1.EventTypeNormal, "DrainBegan", "cordoned: %s; evicting %s", strings.Join(c.what, ", "), strings.Join(c.pods, ", "))
	}
	return d.evict(ctx, c, pods)
}

// evict evicts the pods by the eviction API. A PodDisruptionBudget may keep a pod for now.
func (d *Drain) evict(ctx context.Context, c changing, pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue // the pod is being deleted already
		}
		err := d.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
		})
		switch {
		case err == nil:
			d.Events.Eventf(pod, corev1.EventTypeNormal, "Evicted", "it has a VF of %s", strings.Join(c.what, ", "))
		case apierrors.IsTooManyRequests(err):
			d.Events.Eventf(pod, corev1.EventTypeWarning, "EvictionRefused", "%s waits for its VF: %v", strings.Join(c.what, ", "), err)
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		default:
			errs = append(errs, fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	if len(c.rest) > 0 {
		d.Log.Warn("cannot be evicted", "node", c.node, "owners", c.rest, "for", c.what)
	}
	return errors.Join(errs...)
}

// uncordon removes the annotation, and with it the cordon.
func (d *Drain) uncordon(ctx context.Context, node string) error {
	n := &corev1.Node{}
	if err := d.Live.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	if _, marked := n.Annotations[draining]; !marked {
		return nil
	}
	before := n.DeepCopy()
	delete(n.Annotations, draining)
	n.Spec.Unschedulable = false
	if err := d.Client.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return again(fmt.Errorf("uncordon node %s: %w", node, err))
	}
	d.Events.Eventf(n, corev1.EventTypeNormal, "DrainEnded", "uncordoned")
	return nil
}

// again returns nil for a write that another write forestalled: the next Reconcile repeats it.
func again(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

package controller

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/reasons"
)

// Annotations of Nodes that Drain writes. A node that another program or a person has cordoned is
// drained too, but gets no annotation and stays cordoned.
const (
	// draining marks a node that the controller cordoned because the number of VFs of one of its
	// PFs has to change. Its value is the time of the cordon, for people: no clock but the
	// controller's own can be compared with it.
	draining = "culvert.dev/draining-since"
	// freeSince is an annotation of earlier versions, which Drain removes.
	freeSince = "culvert.dev/drain-free-since"
	// drainedFor names the changes for which the node was last drained. It stays while one of them
	// is wanted, and Drain does not evict pods for it again. Removing it makes Drain try again. It
	// is an annotation because a new leader must know it, too.
	drainedFor = "culvert.dev/drained-for"
)

const (
	// drainLook is how often the controller examines a node that it drains, and tries again to
	// evict pods that a PodDisruptionBudget protects.
	drainLook = 5 * time.Second
	// drainPatience is how long a node whose VFs are free stays cordoned although culvertd has
	// not changed their number. Then there is another obstacle, which the PF's problems in the
	// NodeState name. A new leader waits as long again, by its own clock.
	drainPatience = 5 * time.Minute
	// longestChanges is how many bytes of a list of changes an event repeats.
	longestChanges = 700
)

// Drain prepares changes of sriov_numvfs, which destroy every VF of the PF. If only pods have VFs
// of a PF for which another number is wanted, it cordons the node and evicts these pods and no
// others. culvertd then makes the change, and Drain uncordons the node. If no pod has a VF of that
// PF, Drain does nothing. If a guest, a container or a program outside Culvert has one, Drain
// evicts no pod for that PF and reports an event. Every event makes the same request, since Drain
// decides the next step over all nodes.
type Drain struct {
	Client client.Client // of Nodes it has the metadata only
	Live   client.Reader // asks the API server
	// Nodes is how many nodes are drained at a time; 0 drains none.
	Nodes  int
	Now    func() time.Time
	Events record.EventRecorder

	// blocked has the event DrainBlocked that each node got last, so that it gets one and not one
	// each look. Only Reconcile uses it, and controller-runtime runs one Reconcile at a time.
	blocked map[string]string
	// free has since when the nodes that are drained have no pod left that delays the change, as
	// this controller has seen it. Only Reconcile uses it.
	free map[string]time.Time
	// repeat says that this Reconcile has left a step to the next one. Only Reconcile uses it.
	repeat bool
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
		waiting[states.Items[i].Name] = changes(&states.Items[i])
	}
	slices.SortFunc(nodes.Items, func(a, b metav1.PartialObjectMetadata) int { return strings.Compare(a.Name, b.Name) })
	d.reportBlocked(nodes.Items, waiting)
	d.repeat = false
	active, err := d.continueDrains(ctx, nodes.Items, waiting)
	begun, more := d.beginDrains(ctx, nodes.Items, waiting, d.Nodes-active)
	if err = errors.Join(err, more); active+begun == 0 && !d.repeat {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: drainLook}, err
}

// continueDrains takes the next step on the nodes that are being drained, and returns how many
// remain.
func (d *Drain) continueDrains(ctx context.Context, nodes []metav1.PartialObjectMetadata, waiting map[string]changing) (active int, _ error) {
	var errs []error
	before := d.free
	d.free = map[string]time.Time{}
	for _, n := range nodes {
		if _, begun := n.Annotations[draining]; !begun {
			continue
		}
		c := waiting[n.Name]
		pods, err := d.podsOf(ctx, c)
		since, seen := before[n.Name]
		isFree := err == nil && len(pods) == 0
		if isFree && !seen {
			since, seen = d.Now(), true
		}
		if seen {
			d.free[n.Name] = since
		}
		if len(c.what) == 0 && !c.mayWant(n.Annotations[drainedFor]) || d.Nodes == 0 || isFree && d.Now().Sub(since) > drainPatience {
			errs = append(errs, d.uncordon(ctx, n.Name, c))
			continue
		}
		active++
		errs = append(errs, err, d.evict(ctx, c, pods))
	}
	return active, errors.Join(errs...)
}

// beginDrains begins with up to room nodes, and returns with how many. It skips a node that was
// drained for the same changes already. The cache may lack the annotations that an earlier pass
// wrote, so the nodes that are being drained are counted at the API server
// (TestDrainWithAStaleCache).
func (d *Drain) beginDrains(ctx context.Context, nodes []metav1.PartialObjectMetadata, waiting map[string]changing, room int) (begun int, _ error) {
	var (
		errs     []error
		underway map[string]bool // nil: not read yet
	)
	for _, n := range nodes {
		c, tried := waiting[n.Name], n.Annotations[drainedFor]
		if _, isDrained := n.Annotations[draining]; isDrained {
			continue
		}
		if tried != "" && !c.isWanted(tried) {
			errs = append(errs, d.annotate(ctx, n.Name, drainedFor, ""))
		}
		if len(c.pods) == 0 || c.wasTried(tried) || begun >= room {
			continue
		}
		pods, err := d.podsOf(ctx, c)
		if errs = append(errs, err); err != nil || len(pods) == 0 {
			continue
		}
		if underway == nil {
			if underway, err = d.listDrained(ctx); err != nil {
				return begun, errors.Join(append(errs, err)...)
			}
		}
		if underway[n.Name] || len(underway)+begun >= d.Nodes {
			d.repeat = true
			continue
		}
		begun++
		errs = append(errs, d.begin(ctx, c, pods))
	}
	return begun, errors.Join(errs...)
}

// listDrained returns the nodes that are being drained, as the API server has them.
func (d *Drain) listDrained(ctx context.Context) (map[string]bool, error) {
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(nodeKind.GroupVersion().WithKind("NodeList"))
	if err := d.Live.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("drain: list the nodes: %w", err)
	}
	out := map[string]bool{}
	for _, n := range nodes.Items {
		if _, begun := n.Annotations[draining]; begun {
			out[n.Name] = true
		}
	}
	return out, nil
}

// reportBlocked emits an event about changes that wait because an owner other than a pod has a VF,
// once for each node and each list of owners.
func (d *Drain) reportBlocked(nodes []metav1.PartialObjectMetadata, waiting map[string]changing) {
	blocked := map[string]string{}
	for _, n := range nodes {
		c := waiting[n.Name]
		if len(c.held) == 0 || d.Nodes == 0 {
			continue
		}
		blocked[n.Name] = excerpt.Fit(strings.Join(c.held, "; "), longestChanges)
		if d.blocked[n.Name] != blocked[n.Name] {
			d.Events.Eventf(&corev1.Node{ObjectMeta: n.ObjectMeta}, corev1.EventTypeWarning, reasons.DrainBlocked,
				"no pod is evicted for %s: stop these owners or detach their VFs; Culvert then makes the change", blocked[n.Name])
		}
	}
	d.blocked = blocked
}

// mostPodReads is how many pods of a node one pass reads. The other nodes wait for it (I7). The next
// passes read the others, as those that were evicted leave the NodeState.
const mostPodReads = 256

// podsOf returns the pods of a node whose VFs delay its change. It leaves out pods that the
// NodeState names and that do not run on the node. Otherwise a node that names such pods would
// keep every other node from being drained (I7).
func (d *Drain) podsOf(ctx context.Context, c changing) (out []*corev1.Pod, _ error) {
	var errs []error
	for _, name := range c.pods[:min(len(c.pods), mostPodReads)] {
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

// begin cordons a node and evicts the pods. It writes the annotations and the cordon at once, so
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
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, drainedFor, strings.Join(c.what, "; "))
		delete(n.Annotations, freeSince)
		if err := d.Client.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return d.again(fmt.Errorf("cordon node %s: %w", c.node, err))
		}
		d.Events.Eventf(n, corev1.EventTypeNormal, reasons.DrainBegan, "cordoned: %s; evicting %s", strings.Join(c.what, ", "), strings.Join(c.pods, ", "))
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
			d.Events.Eventf(pod, corev1.EventTypeNormal, reasons.Evicted, "it has a VF of %s", strings.Join(c.what, ", "))
		case apierrors.IsTooManyRequests(err):
			d.Events.Eventf(pod, corev1.EventTypeWarning, reasons.EvictionRefused, "%s waits for its VF: %v", strings.Join(c.what, ", "), err)
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		default:
			errs = append(errs, fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(errs...)
}

// uncordon removes the annotations of the drain, and with them the cordon. If the change was not
// made and is still wanted, drainedFor stays.
func (d *Drain) uncordon(ctx context.Context, node string, c changing) error {
	n := &corev1.Node{}
	if err := d.Live.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	if _, marked := n.Annotations[draining]; !marked {
		return nil
	}
	before := n.DeepCopy()
	tried := n.Annotations[drainedFor]
	gaveUp := d.Nodes > 0 && c.isWanted(tried)
	delete(n.Annotations, draining)
	delete(n.Annotations, freeSince)
	if !gaveUp {
		delete(n.Annotations, drainedFor)
	}
	n.Spec.Unschedulable = false
	if err := d.Client.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return d.again(fmt.Errorf("uncordon node %s: %w", node, err))
	}
	if gaveUp {
		d.Events.Eventf(n, corev1.EventTypeWarning, reasons.DrainGaveUp,
			"uncordoned although the change is not made (%s): solve the problems of the PF in the NodeState, then remove the annotation %s from the Node to evict pods again", excerpt.Fit(tried, longestChanges), drainedFor)
		return nil
	}
	d.Events.Eventf(n, corev1.EventTypeNormal, reasons.DrainEnded, "uncordoned")
	return nil
}

// annotate sets an annotation of a node, or removes it if the value is empty.
func (d *Drain) annotate(ctx context.Context, node, key, value string) error {
	n := &corev1.Node{}
	if err := d.Live.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := n.DeepCopy()
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value)
	if value == "" {
		delete(n.Annotations, key)
	}
	if err := d.Client.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return d.again(fmt.Errorf("annotate node %s with %s: %w", node, key, err))
	}
	return nil
}

// again returns nil if err is a conflict with another write: the next Reconcile soon repeats the
// step.
func (d *Drain) again(err error) error {
	if apierrors.IsConflict(err) {
		d.repeat = true
		return nil
	}
	return err
}

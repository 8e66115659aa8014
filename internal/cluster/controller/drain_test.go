package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// withVFs is a node whose PF enp1s0 has 4 VFs and should have the wanted number, and whose PF
// enp2s0 is as it should be. The pods in first and second have the VFs of the two PFs, in order; an
// empty name is a free VF.
func withVFs(node string, wanted int32, first, second []string) *v1alpha1.NodeState {
	s := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: node}}
	four := int32(4)
	s.Status.PFs = []v1alpha1.PFState{
		{Name: "enp1s0", WantedVFs: &wanted, NumVFs: four, TotalVFs: 7}, {Name: "enp2s0", WantedVFs: &four, NumVFs: four, TotalVFs: 7},
	}
	for pf, pods := range map[string][]string{"enp1s0": first, "enp2s0": second} {
		for i, p := range pods {
			v := v1alpha1.VFState{Name: pf + "#" + string(rune('0'+i)), Phase: "attached", Owner: &v1alpha1.Owner{Kind: "pod", Name: p}}
			if p == "" {
				v.Phase, v.Owner = "free", nil
			}
			s.Status.VFs = append(s.Status.VFs, v)
		}
	}
	return s
}

func podOn(node, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "1"}, Spec: corev1.PodSpec{NodeName: node}}
}

// drained has the result of a pass: the cordoned nodes (with + if another program cordoned them)
// and the remaining pods.
type drained struct{ Cordoned, Pods []string }

// drainAt runs a pass at each of the times, and returns the result of the last one.
func drainAt(t *testing.T, c client.Client, nodes int, times ...time.Time) (drained, ctrl.Result) {
	t.Helper()
	var at time.Time
	d := &Drain{Client: c, Live: c, Nodes: nodes, Now: func() time.Time { return at }, Events: record.NewFakeRecorder(100)}
	var result ctrl.Result
	for _, at = range times {
		var err error
		if result, err = d.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	return drainState(t, c), result
}

// drainState reads the nodes and the pods that are left.
func drainState(t *testing.T, c client.Client) drained {
	t.Helper()
	var (
		got  drained
		all  corev1.NodeList
		pods corev1.PodList
	)
	if err := c.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for _, n := range all.Items {
		switch _, ours := n.Annotations[draining]; {
		case ours != n.Spec.Unschedulable && ours:
			t.Errorf("node %s is marked and not cordoned", n.Name)
		case ours:
			got.Cordoned = append(got.Cordoned, n.Name)
		case n.Spec.Unschedulable:
			got.Cordoned = append(got.Cordoned, n.Name+"+")
		}
	}
	for _, p := range pods.Items {
		got.Pods = append(got.Pods, p.Name)
	}
	slices.Sort(got.Pods)
	return got
}

func TestDrain(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	theirs := newNode("n1", nil)
	theirs.Spec.Unschedulable = true
	ours := newNode("n1", nil)
	ours.Spec.Unschedulable, ours.Annotations = true, map[string]string{draining: now.Add(-time.Minute).Format(time.RFC3339)}
	const later = drainPatience + time.Second
	a, b, other := podOn("n1", "a"), podOn("n2", "b"), podOn("n1", "other")
	for name, tc := range map[string]struct {
		objects []client.Object
		nodes   int
		want    drained
		again   time.Duration // until a second pass; 0: there is none
	}{
		"nothing changes": {
			[]client.Object{newNode("n1", nil), withVFs("n1", 4, []string{"default/a"}, nil), a}, 1, drained{nil, []string{"a"}}, 0,
		},
		"nobody has a VF of that PF": {
			[]client.Object{newNode("n1", nil), withVFs("n1", 7, []string{""}, []string{"default/a"}), a}, 1, drained{nil, []string{"a"}}, 0,
		},
		"more than the PF can have": {
			[]client.Object{newNode("n1", nil), withVFs("n1", 8, []string{"default/a"}, nil), a}, 1, drained{nil, []string{"a"}}, 0,
		},
		"who has one goes, and nobody else": {
			[]client.Object{newNode("n1", nil), withVFs("n1", 7, []string{"default/a", ""}, []string{"default/other"}), a, other}, 1, drained{[]string{"n1"}, []string{"other"}}, 0,
		},
		"one node at a time": {
			[]client.Object{newNode("n1", nil), newNode("n2", nil), withVFs("n1", 7, []string{"default/a"}, nil), withVFs("n2", 7, []string{"default/b"}, nil), a, b}, 1, drained{[]string{"n1"}, []string{"b"}}, 0,
		},
		"two, where two may": {
			[]client.Object{newNode("n1", nil), newNode("n2", nil), withVFs("n1", 7, []string{"default/a"}, nil), withVFs("n2", 7, []string{"default/b"}, nil), a, b}, 2, drained{[]string{"n1", "n2"}, nil}, 0,
		},
		"the one that was begun goes first": {
			[]client.Object{ours, newNode("n0", nil), withVFs("n0", 7, []string{"default/b"}, nil), withVFs("n1", 7, []string{""}, nil), b}, 1, drained{[]string{"n1"}, []string{"b"}}, 0,
		},
		"none, where none may": {
			[]client.Object{newNode("n1", nil), withVFs("n1", 7, []string{"default/a"}, nil), a}, 0, drained{nil, []string{"a"}}, 0,
		},
		"a cordon of somebody else's stays": {
			[]client.Object{theirs, withVFs("n1", 7, []string{"default/a"}, nil), a}, 1, drained{[]string{"n1+"}, nil}, 0,
		},
		"a pod of that name on another node": {
			[]client.Object{newNode("n1", nil), withVFs("n1", 7, []string{"default/b"}, nil), b}, 1, drained{nil, []string{"b"}}, 0,
		},
		"I7: a node that names pods that it does not have delays no other": {
			[]client.Object{newNode("n0", nil), newNode("n2", nil), withVFs("n0", 7, []string{"default/b", "default/none"}, nil), withVFs("n2", 7, []string{"default/b"}, nil), b}, 1, drained{[]string{"n2"}, nil}, 0,
		},
		"I7: nor does one that was begun": {
			[]client.Object{ours, newNode("n2", nil), withVFs("n1", 7, []string{"default/none"}, nil), withVFs("n2", 7, []string{"default/b"}, nil), b}, 1, drained{[]string{"n2"}, nil}, later,
		},
		"the change was made": {
			[]client.Object{ours, withVFs("n1", 4, []string{""}, nil)}, 1, drained{nil, nil}, 0,
		},
		"the change is not wanted any more, by nobody": {
			[]client.Object{ours}, 1, drained{nil, nil}, 0,
		},
		"free, and culvertd is about to make it": {
			[]client.Object{ours, withVFs("n1", 7, []string{""}, nil)}, 1, drained{[]string{"n1"}, nil}, 0,
		},
		"free, and culvertd cannot": {
			[]client.Object{ours, withVFs("n1", 7, []string{""}, nil)}, 1, drained{nil, nil}, later,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var copies []client.Object
			for _, o := range tc.objects {
				copies = append(copies, o.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // a copy of one
			}
			times := []time.Time{now}
			if tc.again > 0 {
				times = append(times, now.Add(tc.again))
			}
			got, _ := drainAt(t, newCluster(copies...), tc.nodes, times...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A PodDisruptionBudget keeps a pod for now: it is tried again, and the node
// stays cordoned.
func TestDrainWaitsForABudget(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(Scheme()).
		WithObjects(newNode("n1", nil), withVFs("n1", 7, []string{"default/a", "default/other"}, nil), podOn("n1", "a"), podOn("n1", "other")).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			if _, evicts := body.(*policyv1.Eviction); evicts && o.GetName() == "a" {
				return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			}
			return c.SubResource(sub).Create(ctx, o, body, opts...)
		}}).Build()
	for range 2 {
		got, result := drainAt(t, c, 1, time.Now())
		if diff := cmp.Diff(drained{[]string{"n1"}, []string{"a"}}, got); diff != "" || result.RequeueAfter != drainLook {
			t.Errorf("%+v -want +got:\n%s", result, diff)
		}
	}
}

// A node that another program wrote at the same moment is neither cordoned nor drained, and the
// next pass repeats the step. No pod is evicted from a node that new pods may come to.
func TestDrainAfterAnotherWriter(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	begun := newNode("n1", nil)
	begun.Spec.Unschedulable, begun.Annotations = true, map[string]string{draining: now.Format(time.RFC3339)}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("it was changed"))
	for name, tc := range map[string]struct {
		node         *corev1.Node
		wanted       int32
		err          error
		lost, repeat drained
		says         string
	}{
		"cordon":                     {newNode("n1", nil), 7, conflict, drained{nil, []string{"a"}}, drained{[]string{"n1"}, nil}, ""},
		"uncordon":                   {begun, 4, conflict, drained{[]string{"n1"}, []string{"a"}}, drained{nil, []string{"a"}}, ""},
		"cordon that is refused":     {newNode("n1", nil), 7, errors.New("forbidden"), drained{nil, []string{"a"}}, drained{[]string{"n1"}, nil}, "cordon node n1: forbidden"},
		"uncordon that is refused":   {begun, 4, errors.New("forbidden"), drained{[]string{"n1"}, []string{"a"}}, drained{nil, []string{"a"}}, "uncordon node n1: forbidden"},
		"cordon of a node that ends": {newNode("n1", nil), 7, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n1"), drained{nil, []string{"a"}}, drained{[]string{"n1"}, nil}, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := tc.err
			c := interceptor.NewClient(newCluster(tc.node.DeepCopy(), withVFs("n1", tc.wanted, []string{"default/a"}, nil), podOn("n1", "a")), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if refusal != nil {
						return refusal
					}
					return c.Patch(ctx, o, p, opts...)
				},
			})
			d := &Drain{Client: c, Live: c, Nodes: 1, Now: func() time.Time { return now }, Events: record.NewFakeRecorder(100)}
			result, err := d.Reconcile(t.Context(), ctrl.Request{})
			if err == nil && result.RequeueAfter != drainLook {
				t.Errorf("the next pass is not asked for: %+v", result)
			}
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q", err, tc.says)
			}
			if diff := cmp.Diff(tc.lost, drainState(t, c)); diff != "" {
				t.Errorf("after the write was lost (-want +got):\n%s", diff)
			}
			refusal = nil
			if got, _ := drainAt(t, c, 1, now); !cmp.Equal(tc.repeat, got) {
				t.Errorf("the next pass (-want +got):\n%s", cmp.Diff(tc.repeat, got))
			}
		})
	}
}

// The cache may lack the writes of an earlier pass. Drain then drains no further node.
func TestDrainWithAStaleCache(t *testing.T) {
	live := newCluster(newNode("n1", nil), newNode("n2", nil), podOn("n1", "a"), podOn("n2", "b"),
		withVFs("n1", 7, []string{"default/a"}, nil), withVFs("n2", 7, []string{"default/b"}, nil))
	var old *metav1.PartialObjectMetadataList
	cached := interceptor.NewClient(live, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			into, isNodes := list.(*metav1.PartialObjectMetadataList)
			if isNodes && old != nil {
				old.DeepCopyInto(into)
				return nil
			}
			err := c.List(ctx, list, opts...)
			if isNodes {
				old = into.DeepCopy()
			}
			return err
		},
	})
	d := &Drain{Client: cached, Live: live, Nodes: 1, Now: time.Now, Events: record.NewFakeRecorder(100)}
	for pass, want := range []drained{{[]string{"n1"}, []string{"b"}}, {[]string{"n1"}, []string{"b"}}} {
		result, err := d.Reconcile(t.Context(), ctrl.Request{})
		if diff := cmp.Diff(want, drainState(t, live)); diff != "" || err != nil || result.RequeueAfter != drainLook {
			t.Errorf("pass %d: %v, %+v (-want +got):\n%s", pass, err, result, diff)
		}
	}
	old = nil
	made := &v1alpha1.NodeState{}
	if err := live.Get(t.Context(), client.ObjectKey{Name: "n1"}, made); err != nil {
		t.Fatal(err)
	}
	made.Status = withVFs("n1", 4, nil, nil).Status
	if err := live.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(drained{[]string{"n2"}, nil}, drainState(t, live)); diff != "" {
		t.Errorf("the cache has it (-want +got):\n%s", diff)
	}
}

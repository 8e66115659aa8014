package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// unendedOnly is a reader that serves lists of pods that have not ended, as the API server does by
// the field selector that the fake client lacks.
type unendedOnly struct {
	client.Reader
	t     *testing.T
	lists int
}

func (r *unendedOnly) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	pods, is := list.(*metav1.PartialObjectMetadataList)
	if !is {
		return r.Reader.List(ctx, list, options...)
	}
	var o client.ListOptions
	o.ApplyOptions(options)
	if o.FieldSelector == nil || o.FieldSelector.String() != "status.phase!=Succeeded,status.phase!=Failed" {
		r.t.Errorf("it lists other pods than those that have not ended: %v", o.FieldSelector)
		return r.Reader.List(ctx, list)
	}
	r.lists++
	var all corev1.PodList
	if err := r.Reader.List(ctx, &all); err != nil {
		return err
	}
	for _, p := range all.Items {
		if o.FieldSelector.Matches(fields.Set{"status.phase": string(p.Status.Phase)}) {
			pods.Items = append(pods.Items, metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta})
		}
	}
	return nil
}

// attached is a pod that Multus attached to networks.
func attached(namespace, name, networks, status string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
		netannotation.Networks: networks, netannotation.Status: status,
	}}}
}

// I4: the plugins of another stack gave addresses to pods that run on. No node is granted these
// once Culvert serves the network, and pods are listed only where there is something to grant.
func TestI4AddressesOfPodsFromBeforeCulvert(t *testing.T) {
	c := newCluster(newNode("a", nil), networkWith(t, "red", `{"type": "host-local", "subnet": "172.16.91.0/28"}`), requesting("a", []ipam.Run{run("172.16.91.2", "172.16.91.5")}),
		attached("red", "old", "n", `[{"name":"cbr0","ips":["10.0.0.9"],"default":true},{"name":"red/n","interface":"net1","ips":["172.16.91.2"]}]`),
		attached("blue", "far", "red/n", `[{"name":"red/n","ips":["172.16.91.4","fd00::4"]}]`))
	live := &unendedOnly{Reader: c, t: t}
	now := time.Now()
	a := addresses(c, now)
	a.Foreign = (&foreignAddresses{live: live, now: func() time.Time { return now }}).ofPool
	lookAt(t, a, "red/n")
	got, _ := poolAndOutside(t, c)
	if diff := cmp.Diff([]string{"a 172.16.91.3-172.16.91.3"}, got); diff != "" { // without Foreign it is .2
		t.Errorf("I4: -want +got\n%s", diff)
	}
	lookAt(t, a, "red/n")
	if live.lists != 1 {
		t.Errorf("pods were listed %d times", live.lists)
	}
}

// I4: a pod has its sandbox and its addresses while it is Pending, as with init containers or an
// image that is missing. It has given them up once it has ended.
func TestI4AddressesOfPendingPods(t *testing.T) {
	c := newCluster()
	for i, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodUnknown, corev1.PodSucceeded, corev1.PodFailed} {
		p := attached("red", strings.ToLower(string(phase)), "n", fmt.Sprintf(`[{"name":"red/n","ips":["172.16.91.%d"]}]`, i+1))
		p.Status.Phase = phase
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	f := &foreignAddresses{live: &unendedOnly{Reader: c, t: t}, now: time.Now}
	got, err := f.ofPool(t.Context(), "red/n")
	slices.SortFunc(got, netip.Addr.Compare)
	if want := "[172.16.91.1 172.16.91.2 172.16.91.3]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("I4: %v, %v; want %s", got, err, want)
	}
}

// I4: a NetworkAttachmentDefinition with an empty spec.config stands for the file of its name on
// the nodes, and the pool has that name alone. Pods ask for the network by namespace and name.
func TestI4ForeignAddressesOfAFilesPool(t *testing.T) {
	s := asking("a", 1)
	c := newCluster(newNode("a", nil), s, attached("red", "old", "n", `[{"name":"red/n","ips":["172.16.91.2"]}]`),
		attached("blue", "older", "n", `[{"name":"n","ips":["172.16.91.4"]}]`), attached("red", "apart", "un", `[{"name":"red/un","ips":["172.16.91.6"]}]`))
	a := addresses(c, time.Now())
	a.Foreign = (&foreignAddresses{live: &unendedOnly{Reader: c, t: t}, now: time.Now}).ofPool
	look(t, a)
	got := show(poolOf(t, c))
	if want := []string{"a 172.16.91.3-172.16.91.3", "a 172.16.91.5-172.16.91.36"}; !slices.Equal(got, want) {
		t.Errorf("I4: granted are %q, want %q", got, want)
	}
}

// I4: the addresses that a pod has of a network of every pod count, although it asks for nothing.
func TestI4ForeignAddressesOfEveryPodsNetwork(t *testing.T) {
	everyPod, err := netannotation.ParseEveryPod([]string{"red/n"}, []string{"system"})
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(attached("blue", "a", "", `[{"name":"red/n","ips":["172.16.91.2"]}]`), attached("system", "b", "", `[{"name":"red/n","ips":["172.16.91.4"]}]`))
	got, err := (&foreignAddresses{live: &unendedOnly{Reader: c, t: t}, now: time.Now, everyPod: everyPod}).ofPool(t.Context(), "red/n")
	if want := "[172.16.91.2]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("I4: %v, %v; want %s", got, err, want)
	}
}

// foreignAddresses uses a list of pods for foreignLook, and then lists the pods again.
func TestForeignAddressesAreListedAnew(t *testing.T) {
	live := &unendedOnly{Reader: newCluster(), t: t}
	now := time.Now()
	f := &foreignAddresses{live: live, now: func() time.Time { return now }}
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {foreignLook, 1}, {time.Second, 2}} {
		now = now.Add(step.later)
		if _, err := f.ofPool(t.Context(), "red/n"); err != nil || live.lists != step.want {
			t.Errorf("%s later: %d lists, want %d, %v", step.later, live.lists, step.want, err)
		}
	}
}

func TestAddressesOf(t *testing.T) {
	for name, tc := range map[string]struct {
		networks, status string
		want             map[string][]string
	}{
		"nothing":                   {"", `[{"name":"red/n","ips":["10.0.0.1"]}]`, nil},
		"a network not asked for":   {"n", `[{"name":"blue/n","ips":["10.0.0.1"]}]`, nil},
		"no JSON":                   {"n", `[`, nil},
		"networks that are refused": {"n/", `[{"name":"red/n","ips":["10.0.0.1"]}]`, nil},
		"no address":                {"n", `[{"name":"red/n","ips":["x"]}]`, nil},
		"two of one network":        {"n,n", `[{"name":"red/n","ips":["10.0.0.1"]},{"name":"red/n","ips":["10.0.0.2","::ffff:10.0.0.3"]}]`, map[string][]string{"red/n": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}}},
		"names of configurations":   {"n,blue/m", `[{"name":"cbr0","default":true,"ips":["10.9.0.1"]},{"name":"storage","ips":["10.0.0.1"]},{"name":"other","ips":["10.0.0.2"]}]`, map[string][]string{"red/n": {"10.0.0.1"}, "blue/m": {"10.0.0.2"}}},
		"more than were asked for":  {"n", `[{"name":"storage","ips":["10.0.0.1"]},{"name":"other","ips":["10.0.0.2"]}]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string][]string{}
			for network, all := range addressesOf(netannotation.EveryPod{}, "red", map[string]string{netannotation.Networks: tc.networks, netannotation.Status: tc.status}) {
				got[network] = slices.Collect(func(yield func(string) bool) {
					for _, a := range all {
						_ = yield(a.String())
					}
				})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" && len(tc.want)+len(got) > 0 {
				t.Error(diff)
			}
		})
	}
}

// FuzzAddressesOf: the author of a pod may write any text into its annotations.
func FuzzAddressesOf(f *testing.F) {
	f.Add("n,blue/m", `[{"name":"storage","ips":["10.0.0.1"]},{"name":"blue/m","ips":["::ffff:10.0.0.2"]}]`)
	f.Add(`[{"name":"n"}]`, `[{"name":"red/n","ips":["10.0.0.1"],"default":true}]`)
	f.Fuzz(func(t *testing.T, networks, status string) {
		for network, all := range addressesOf(netannotation.EveryPod{}, "red", map[string]string{netannotation.Networks: networks, netannotation.Status: status}) {
			if len(all) == 0 || len(all) > mostForeign*(netannotation.MaxElements+1) || slices.Contains(all, netip.Addr{}) {
				t.Errorf("network %q has %v", network, all)
			}
		}
	})
}

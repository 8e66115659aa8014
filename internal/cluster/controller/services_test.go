package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/cluster/endpoints"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
)

// serving is a Services controller on an API server in memory.
type serving struct {
	t      *testing.T
	c      client.Client
	s      *Services
	events *record.FakeRecorder
	now    time.Time
	writes int // of EndpointSlices
}

func newServing(t *testing.T, defaults []service.Network, objects ...client.Object) *serving {
	t.Helper()
	w := &serving{t: t, events: record.NewFakeRecorder(100), now: time.Unix(10_000, 0)}
	uid := 0
	count := func(o client.Object) {
		if _, is := o.(*discoveryv1.EndpointSlice); is {
			w.writes++
		}
	}
	w.c = fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(objects...).WithStatusSubresource(&corev1.Service{}).WithIndex(&corev1.Service{}, bySelector, indexSelector).WithIndex(&v1alpha1.NodeState{}, byNoRoom, indexNoRoom).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			uid++
			count(o)
			o.SetUID(types.UID(fmt.Sprint("uid", uid))) // as the API server does
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			count(o)
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			count(o)
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	w.s = newServices(w.c, w.c, endpoints.Rules{Defaults: defaults}, w.events, func() time.Time { return w.now })
	return w
}

func createObject(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (w *serving) reconcile() ctrl.Result {
	w.t.Helper()
	r, err := w.s.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "web"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *serving) service() *corev1.Service {
	w.t.Helper()
	svc := &corev1.Service{}
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, svc); err != nil {
		w.t.Fatal(err)
	}
	return svc
}

// change writes the Service as its owner does.
func (w *serving) change(f func(*corev1.Service)) {
	w.t.Helper()
	svc := w.service()
	f(svc)
	if err := w.c.Update(w.t.Context(), svc); err != nil {
		w.t.Fatal(err)
	}
}

func (w *serving) slices() []discoveryv1.EndpointSlice {
	w.t.Helper()
	var all discoveryv1.EndpointSliceList
	if err := w.c.List(w.t.Context(), &all, client.InNamespace("default")); err != nil {
		w.t.Fatal(err)
	}
	return all.Items
}

// addresses returns the addresses in all slices.
func (w *serving) addresses() (out []string) {
	w.t.Helper()
	for _, s := range w.slices() {
		for _, e := range s.Endpoints {
			out = append(out, e.Addresses...)
		}
	}
	slices.Sort(out)
	return out
}

func (w *serving) said() (out []string) {
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func (w *serving) condition() string {
	w.t.Helper()
	c := meta.FindStatusCondition(w.service().Status.Conditions, service.ConditionEndpoints)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func webService(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web", Annotations: map[string]string{service.NetworkAnnotation: "net1"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web"), Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// backend is a ready pod of a node with an address on net1, and its VF in the NodeState.
func backend(name, node, address string) (*corev1.Pod, v1alpha1.VFState) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}, Annotations: map[string]string{
			"k8s.v1.cni.cncf.io/networks": "net1", "k8s.v1.cni.cncf.io/network-status": fmt.Sprintf(`[{"name":"default/net1","interface":"net1","ips":[%q]}]`, address),
		}},
		Spec: corev1.PodSpec{NodeName: node, Hostname: name, Subdomain: "web", Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{
			{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}, {Name: "sctp", ContainerPort: 8081, Protocol: corev1.ProtocolSCTP}, {Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP},
		}}}},
		Status: corev1.PodStatus{PodIP: "10.244.0.9", PodIPs: []corev1.PodIP{{IP: "10.244.0.9"}}, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(9_990, 0))},
		}},
	}
	return p, v1alpha1.VFState{Name: "enp1s0#" + name, Phase: "attached", Owner: &v1alpha1.Owner{Kind: "pod", Name: "default/" + name, Interface: "net1"}, Addresses: []string{address + "/24"}}
}

// worker is a node and its NodeState.
func worker(name, zone string, vfs ...v1alpha1.VFState) []client.Object {
	return []client.Object{
		newNode(name, map[string]string{corev1.LabelTopologyZone: zone}),
		&v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeStateStatus{VFs: vfs}},
	}
}

// twoBackends are the pods a (n1, zone z1) and b (n2, zone z2), and their network.
func twoBackends() []client.Object {
	a, va := backend("a", "n1", "172.16.91.20")
	b, vb := backend("b", "n2", "172.16.91.21")
	objects := append(worker("n1", "z1", va), worker("n2", "z2", vb)...)
	return append(objects, a, b, definitionOf("default", "net1", ""))
}

// A headless Service gets slices with its pods' VF addresses and names, and the key in its
// selector; a second look writes nothing. Without the annotation all of it goes.
func TestServiceIsServedAndReleased(t *testing.T) {
	w := newServing(t, nil, append(twoBackends(), webService())...)
	w.reconcile()
	all := w.slices()
	if len(all) != 1 || !slices.Equal(w.addresses(), []string{"172.16.91.20", "172.16.91.21"}) {
		t.Fatalf("%+v", all)
	}
	s := all[0]
	for key, want := range map[string]string{
		discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "culvert.dev", service.NetworkLabel: "default.net1", corev1.IsHeadlessService: "",
	} {
		if got, is := s.Labels[key]; !is || got != want {
			t.Errorf("label %s: %q; want %q", key, got, want)
		}
	}
	if *s.Ports[0].Name != "http" || *s.Ports[0].Port != 8080 || s.OwnerReferences[0].UID != "web" {
		t.Errorf("%+v %+v", s.Ports, s.OwnerReferences)
	}
	for _, e := range s.Endpoints {
		name := e.TargetRef.Name
		if *e.Hostname != name || *e.NodeName != map[string]string{"a": "n1", "b": "n2"}[name] || *e.Zone != map[string]string{"a": "z1", "b": "z2"}[name] || !*e.Conditions.Ready || !*e.Conditions.Serving || *e.Conditions.Terminating {
			t.Errorf("%+v", e)
		}
	}
	if got := w.service().Spec.Selector; got[service.SelectorKey] != "default.net1" || got["app"] != "web" {
		t.Errorf("selector %v", got)
	}
	if got, said := w.condition(), w.said(); got != "True Served" || len(said) > 0 {
		t.Errorf("%s, %q", got, said)
	}
	writes, version := w.writes, w.service().ResourceVersion
	if r := w.reconcile(); r.RequeueAfter != networkLook || w.writes != writes || w.service().ResourceVersion != version {
		t.Errorf("a second look wrote: %d slices; %+v", w.writes-writes, r)
	}

	w.s.Rules.Off = true
	w.reconcile()
	if _, is := w.service().Spec.Selector[service.SelectorKey]; is || len(w.slices()) > 0 || w.condition() != "" {
		t.Errorf("switched off: %+v, %d slices, %q", w.service().Spec.Selector, len(w.slices()), w.condition())
	}
	w.s.Rules.Off = false
	if w.reconcile(); len(w.addresses()) != 2 {
		t.Errorf("switched on: %v", w.addresses())
	}

	w.change(func(s *corev1.Service) { delete(s.Annotations, service.NetworkAnnotation) })
	w.reconcile()
	if _, is := w.service().Spec.Selector[service.SelectorKey]; is || len(w.slices()) > 0 || w.condition() != "" {
		t.Errorf("released: %+v, %d slices, %q", w.service().Spec.Selector, len(w.slices()), w.condition())
	}
}

// A Service that is deleted and made again under its name, as by kubectl replace --force, before the
// garbage collector has deleted the EndpointSlices of the former, gets slices of its own.
func TestServiceMadeAgain(t *testing.T) {
	w := newServing(t, nil, append(twoBackends(), webService())...)
	w.reconcile()
	former := w.slices()[0].Name
	if err := w.c.Delete(t.Context(), w.service()); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	createObject(t, w.c, webService())
	uid := w.service().UID
	w.reconcile()
	all := w.slices()
	if len(all) != 1 || all[0].Name == former || all[0].OwnerReferences[0].UID != uid || len(w.addresses()) != 2 {
		t.Errorf("slices %v, want one of Service %s with two addresses", all, uid)
	}
}

// An attached pod becomes an endpoint before a NodeState has its VF, by the confirmation that
// culvertd writes with the network-status. A later NodeState without the VF ends that.
func TestConfirmedPodIsAnEndpointAtOnce(t *testing.T) {
	written := time.Unix(9_000, 0)
	objects := twoBackends()
	for _, o := range objects {
		if s, is := o.(*v1alpha1.NodeState); is && s.Name == "n1" {
			s.Status.VFs, s.Status.Observed = nil, &metav1.MicroTime{Time: written}
		}
	}
	w := newServing(t, nil, append(objects, webService())...)
	w.reconcile()
	if got := w.addresses(); !slices.Equal(got, []string{"172.16.91.21"}) {
		t.Fatalf("the endpoints are %v, and no node confirms that of pod a", got)
	}
	pod := &corev1.Pod{}
	if err := w.c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, pod); err != nil {
		t.Fatal(err)
	}
	before := pod.DeepCopy()
	pod.Annotations[netannotation.Confirmed] = netannotation.Confirmation{Pod: "a", At: written.Add(time.Second), VFs: []netannotation.ConfirmedVF{{Interface: "net1", Addresses: []string{"172.16.91.20/24"}}}}.String()
	if err := w.c.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	stripped := func(p *corev1.Pod) client.Object {
		o, err := stripPod(p)
		if err != nil {
			t.Fatal(err)
		}
		return o.(*corev1.Pod) //nolint:forcetypeassert // a pod goes in
	}
	if !podChanged().Update(event.UpdateEvent{ObjectOld: stripped(before), ObjectNew: stripped(pod)}) {
		t.Error("the annotation wakes no Service")
	}
	w.reconcile()
	if got := w.addresses(); !slices.Equal(got, []string{"172.16.91.20", "172.16.91.21"}) {
		t.Errorf("the endpoints are %v", got)
	}
	state := &v1alpha1.NodeState{}
	if err := w.c.Get(t.Context(), client.ObjectKey{Name: "n1"}, state); err != nil {
		t.Fatal(err)
	}
	state.Status.Observed = &metav1.MicroTime{Time: written.Add(time.Minute)}
	if err := w.c.Update(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if got := w.addresses(); !slices.Equal(got, []string{"172.16.91.21"}) {
		t.Errorf("the VF was given back, and the endpoints are %v", got)
	}
}

// One pod stops being ready: one write of one slice, in a Service of 2,000 endpoints too,
// whose slices have at most 100.
func TestOneEndpointIsOneWrite(t *testing.T) {
	objects := []client.Object{webService(), definitionOf("default", "net1", "")}
	for n := range 20 {
		var vfs []v1alpha1.VFState
		for i := range 100 {
			p, v := backend(fmt.Sprintf("p%d-%d", n, i), fmt.Sprint("n", n), fmt.Sprintf("10.0.%d.%d", n, i+1))
			vfs, objects = append(vfs, v), append(objects, p)
		}
		objects = append(objects, worker(fmt.Sprint("n", n), "z", vfs...)...)
	}
	w := newServing(t, nil, objects...)
	w.reconcile()
	if got := w.addresses(); len(got) != 2000 || len(slices.Compact(got)) != 2000 || len(w.slices()) != 20 {
		t.Fatalf("%d addresses in %d slices", len(got), len(w.slices()))
	}
	for _, s := range w.slices() {
		if len(s.Endpoints) > 100 {
			t.Errorf("slice %s has %d endpoints", s.Name, len(s.Endpoints))
		}
	}
	pod := &corev1.Pod{}
	if err := w.c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "p7-7"}, pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := w.c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	writes := w.writes
	w.reconcile()
	notReady := 0
	for _, s := range w.slices() {
		for _, e := range s.Endpoints {
			if !*e.Conditions.Ready {
				notReady++
			}
		}
	}
	if w.writes-writes != 1 || notReady != 1 {
		t.Errorf("%d writes, %d endpoints not ready; want 1 and 1", w.writes-writes, notReady)
	}
}

// EndpointSlices have what the API offers for endpoints: terminating ones, those published before
// they are ready, ports of one name in several protocols, both families, zones for
// trafficDistribution.
func TestServiceFields(t *testing.T) {
	zone := corev1.ServiceTrafficDistributionPreferClose
	leaving, v := backend("leaving", "n1", "172.16.91.22")
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Unix(9_999, 0)}, []string{"example.com/wait"}
	starting, v2 := backend("starting", "n1", "172.16.91.23")
	starting.Status.Conditions[0].Status = corev1.ConditionFalse
	both, v3 := backend("both", "n1", "172.16.91.24")
	both.Annotations["k8s.v1.cni.cncf.io/network-status"] = `[{"name":"default/net1","interface":"net1","ips":["172.16.91.24","2001:db8::24"]}]`
	v3.Addresses = append(v3.Addresses, "2001:db8::24/64")
	svc := webService(func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.TrafficDistribution = "10.96.0.7", &zone
		s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPv6Protocol)
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "sctp", Port: 81, TargetPort: intstr.FromString("sctp"), Protocol: corev1.ProtocolSCTP},
			corev1.ServicePort{Name: "dns", Port: 53, TargetPort: intstr.FromInt(5353), Protocol: corev1.ProtocolUDP})
	})
	w := newServing(t, nil, append(worker("n1", "z1", v, v2, v3), leaving, starting, both, svc, definitionOf("default", "net1", ""))...)
	w.reconcile()
	got := map[string]string{}
	for _, s := range w.slices() {
		if _, is := s.Labels[corev1.IsHeadlessService]; !is {
			t.Error("kube-proxy would read a slice of a cluster IP")
		}
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s:%d/%s", *p.Name, *p.Port, *p.Protocol))
		}
		if p := strings.Join(ports, " "); p != "http:8080/TCP sctp:8081/SCTP dns:5353/UDP" {
			t.Errorf("ports %s", p)
		}
		for _, e := range s.Endpoints {
			hints := ""
			if e.Hints != nil {
				hints = e.Hints.ForZones[0].Name
			}
			got[e.Addresses[0]] = fmt.Sprintf("%s ready %t serving %t terminating %t zone %s", s.AddressType, *e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating, hints)
		}
	}
	for address, want := range map[string]string{
		"172.16.91.22": "IPv4 ready false serving true terminating true zone ", "172.16.91.23": "IPv4 ready false serving false terminating false zone ",
		"172.16.91.24": "IPv4 ready true serving true terminating false zone z1", "2001:db8::24": "IPv6 ready true serving true terminating false zone z1",
	} {
		if got[address] != want {
			t.Errorf("%s: %q; want %q", address, got[address], want)
		}
	}
	w.change(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true })
	w.reconcile()
	for _, s := range w.slices() {
		for _, e := range s.Endpoints {
			if !*e.Conditions.Ready {
				t.Errorf("with publishNotReadyAddresses: %+v", e)
			}
		}
	}
}

// A Service says why it is not served, why an endpoint is missing and that its network is
// gone, once each; endpoints of running pods stay when the network's definition goes.
func TestServiceSaysWhatIsWrong(t *testing.T) {
	w := newServing(t, nil, append(twoBackends(), webService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }))...)
	w.reconcile()
	if got, said := w.condition(), w.said(); got != "False NotServed" || len(said) != 1 || !strings.Contains(said[0], "a Service of type NodePort") || len(w.slices()) > 0 {
		t.Errorf("%s, %q", got, said)
	}
	w.reconcile()
	w.change(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	w.reconcile()
	if got, said := w.condition(), w.said(); got != "True Served" || len(said) > 0 {
		t.Errorf("%s, %q", got, said)
	}

	late, _ := backend("late", "n1", "172.16.91.22")
	late.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.now.Add(-10 * time.Second))
	createObject(t, w.c, late)
	if r := w.reconcile(); r.RequeueAfter != missingGrace-10*time.Second || w.condition() != "True Served" || len(w.said()) > 0 {
		t.Errorf("an address that may be on its way: %+v, %s", r, w.condition())
	}
	w.now = w.now.Add(missingGrace)
	w.reconcile()
	if got, said := w.condition(), w.said(); got != "False EndpointsMissing" || len(said) != 1 || !strings.Contains(said[0], "Warning EndpointsMissing no endpoint for pod late: the NodeState of node n1 does not have its interface") {
		t.Errorf("%s, %q", got, said)
	}
	w.reconcile()
	if said := w.said(); len(said) > 0 {
		t.Errorf("told twice: %q", said)
	}

	if err := w.c.Delete(t.Context(), definitionOf("default", "net1", "")); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if got, said := w.condition(), w.said(); got != "False NetworkMissing" || len(said) != 1 || !strings.Contains(said[0], "there is no NetworkAttachmentDefinition default/net1") || len(w.addresses()) != 2 {
		t.Errorf("%s, %q, %v", got, said, w.addresses())
	}
	w.reconcile()
	createObject(t, w.c, definitionOf("default", "net1", ""))
	if r := w.reconcile(); r.RequeueAfter > networkLook || w.condition() != "False EndpointsMissing" || len(w.addresses()) != 2 {
		t.Errorf("after the network was made again: %s, %v, %+v", w.condition(), w.addresses(), r)
	}
	if err := w.c.Delete(t.Context(), w.service()); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if len(w.s.told.last) > 0 {
		t.Errorf("a Service that is gone is remembered: %v", w.s.told.last)
	}
}

// A Service has one event for each change of the nodes that have no room for it, and these NodeStates
// wake it.
func TestServiceWithoutRoom(t *testing.T) {
	w := newServing(t, nil, append(twoBackends(), webService())...)
	full := func(node string, services ...string) {
		t.Helper()
		state := &v1alpha1.NodeState{}
		if err := w.c.Get(t.Context(), client.ObjectKey{Name: node}, state); err != nil {
			t.Fatal(err)
		}
		state.Status.ServicesWithoutRoom = services
		if err := w.c.Update(t.Context(), state); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		node     string
		services []string
		want     []string
	}{
		{"n1", []string{"default/other", "other/web"}, nil},
		{"n1", []string{"default/web"}, []string{"Warning NoRoom connections from pods on n1 are refused, or go to the fallback: " +
			"Services of namespace default use more than its share of a node's rules and backends; give them fewer ports or fewer endpoints"}},
		{"n1", []string{"default/web", "default/web2"}, nil},
		{"n1", nil, nil},
		{"n1", []string{"default/web"}, []string{"Warning NoRoom connections from pods on n1 are refused"}},
	} {
		full(step.node, step.services...)
		w.reconcile()
		got := w.said()
		if len(got) != len(step.want) || len(got) == 1 && !strings.HasPrefix(got[0], step.want[0]) {
			t.Errorf("%s has no room for %q: events %q, want %q", step.node, step.services, got, step.want)
		}
	}
	w.change(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })
	w.reconcile()
	if len(w.s.told.last[types.NamespacedName{Namespace: "default", Name: "web"}]) != 1 {
		t.Errorf("a Service that is not served has the problems %v", w.s.told.last)
	}
	if got := describeNoRoom(webService(), []string{"a", "b", "c", "d", "e"}); !strings.Contains(got, "on a, b, c, d and others are refused") {
		t.Error(got)
	}
	lists := func(services ...string) client.Object {
		return &v1alpha1.NodeState{Status: v1alpha1.NodeStateStatus{ServicesWithoutRoom: services}}
	}
	x, y := client.ObjectKey{Namespace: "n", Name: "x"}, client.ObjectKey{Namespace: "n", Name: "y"}
	for _, tc := range []struct {
		before, after client.Object
		want          []client.ObjectKey
	}{
		{nil, lists("n/x"), []client.ObjectKey{x}},
		{lists("n/x"), lists("n/y"), []client.ObjectKey{x, y}},
		{lists("n/x", "n/y"), lists("n/y"), []client.ObjectKey{x}},
		{lists("n/x"), nil, []client.ObjectKey{x}},
		{lists("n/x"), lists("n/x"), nil},
		{nil, lists("garbage"), nil},
	} {
		if got := changedRoom(tc.before, tc.after); !slices.Equal(got, tc.want) {
			t.Errorf("%v; want %v", got, tc.want)
		}
	}
}

// A pod on vfio is an endpoint. If the Service has a cluster IP, an event says what the pod cannot
// do.
func TestServiceOfPodsOnVFIO(t *testing.T) {
	p, v := backend("dpdk", "n1", "172.16.91.20")
	v.Pool = "culvert.dev/dpdk"
	objects := worker("n1", "z", v)
	objects[1].(*v1alpha1.NodeState).Status.Pools = []v1alpha1.PoolState{{Name: "culvert.dev/dpdk", DeviceType: "vfio-pci"}}
	w := newServing(t, nil, append(objects, p, webService(), definitionOf("default", "net1", ""))...)
	w.reconcile()
	if said := w.said(); len(said) > 0 || !slices.Equal(w.addresses(), []string{"172.16.91.20"}) {
		t.Errorf("headless: %q, %v", said, w.addresses())
	}
	w.change(func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.7" })
	w.reconcile()
	if said := w.said(); len(said) != 1 || !strings.Contains(said[0], "bound to vfio-pci is the VF of pod dpdk") || !slices.Equal(w.addresses(), []string{"172.16.91.20"}) {
		t.Errorf("with a cluster IP: %q, %v", said, w.addresses())
	}
}

// A pod wakes the Services that select it, and a NodeState the pods whose VFs it changes.
func TestServicesThatAPodWakes(t *testing.T) {
	other := webService(func(s *corev1.Service) {
		s.Name, s.Spec.Selector = "tiered", map[string]string{"app": "web", "tier": "x"}
	})
	keyed := webService(func(s *corev1.Service) { s.Name, s.Spec.Selector[service.SelectorKey] = "keyed", "default.net1" })
	bare := webService(func(s *corev1.Service) { s.Name, s.Spec.Selector = "bare", nil })
	w := newServing(t, nil, append(twoBackends(), webService(), other, keyed, bare)...)
	woken := func(labels map[string]string) (out []string) {
		for _, r := range w.s.servicesOf(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: labels}}) {
			out = append(out, r.Name)
		}
		slices.Sort(out)
		return out
	}
	if got := woken(map[string]string{"app": "web"}); !slices.Equal(got, []string{"keyed", "web"}) {
		t.Errorf("%v", got)
	}
	if got := woken(map[string]string{"app": "web", "tier": "x", "more": "y"}); !slices.Equal(got, []string{"keyed", "tiered", "web"}) {
		t.Errorf("%v", got)
	}
	if got := woken(map[string]string{service.SelectorKey: "default.net1"}); len(got) > 0 {
		t.Errorf("%v", got)
	}
	_, a := backend("a", "n1", "172.16.91.20")
	_, b := backend("b", "n1", "172.16.91.21")
	moved := a
	moved.Addresses = nil
	state := func(vfs ...v1alpha1.VFState) client.Object {
		return &v1alpha1.NodeState{Status: v1alpha1.NodeStateStatus{VFs: vfs}}
	}
	for _, tc := range []struct {
		before, after client.Object
		want          []client.ObjectKey
	}{
		{nil, state(a), []client.ObjectKey{{Namespace: "default", Name: "a"}}},
		{state(a, b), state(moved, b), []client.ObjectKey{{Namespace: "default", Name: "a"}}},
		{state(a, b), state(a), []client.ObjectKey{{Namespace: "default", Name: "b"}}},
		{state(a), state(a), nil},
		{state(a), nil, []client.ObjectKey{{Namespace: "default", Name: "a"}}},
	} {
		if got := changedPods(tc.before, tc.after); !slices.Equal(got, tc.want) {
			t.Errorf("%v; want %v", got, tc.want)
		}
	}
}

// The cache keeps of a pod what endpoints are made of, and an update of the rest wakes no Service.
func TestPodsInTheCache(t *testing.T) {
	full, _ := backend("a", "n1", "172.16.91.20")
	full.Annotations[netannotation.Confirmed] = "{}"
	full.Annotations["example.com/large"], full.ManagedFields = "x", []metav1.ManagedFieldsEntry{{Manager: "x"}}
	full.Spec.Containers[0].Image, full.Spec.Containers[0].Env = "i", []corev1.EnvVar{{Name: "SECRET", Value: "x"}}
	strip := func(o any) *corev1.Pod {
		stripped, err := stripPod(o)
		if err != nil {
			t.Fatal(err)
		}
		return stripped.(*corev1.Pod) //nolint:forcetypeassert // a pod goes in
	}
	got := strip(full)
	if len(got.Annotations) != 3 || got.Annotations[netannotation.Confirmed] != "{}" || got.Spec.Containers[0].Env != nil || got.ManagedFields != nil || got.Spec.Hostname != "a" || len(got.Spec.Containers[0].Ports) != 3 || got.Status.Conditions[0].Type != corev1.PodReady {
		t.Errorf("%+v", got)
	}
	again := full.DeepCopy()
	again.ResourceVersion, again.Status.Message = "2", "x"
	if podChanged().Update(event.UpdateEvent{ObjectOld: got, ObjectNew: strip(again)}) {
		t.Error("an update of a message wakes Services")
	}
	again.Status.Conditions[0].Status = corev1.ConditionFalse
	if !podChanged().Update(event.UpdateEvent{ObjectOld: got, ObjectNew: strip(again)}) {
		t.Error("a pod that is not ready any more wakes no Service")
	}
	missed, err := stripPod(toolscache.DeletedFinalStateUnknown{Key: "default/a", Obj: full})
	if d, is := missed.(toolscache.DeletedFinalStateUnknown); err != nil || !is || d.Key != "default/a" || !reflect.DeepEqual(d.Obj, got) {
		t.Errorf("of a pod whose end was missed: %+v, %v", missed, err)
	}
	full.Annotations = nil
	if got := strip(full); got.Spec.Containers != nil || got.Labels["app"] != "web" {
		t.Errorf("of a pod without networks: %+v", got)
	}
}

// A default network serves Services without an annotation while their pods ask for it; with
// the fallback the selector is left alone.
func TestServiceOfADefaultNetwork(t *testing.T) {
	bare := func(s *corev1.Service) { s.Annotations = nil }
	net1 := []service.Network{{Namespace: "default", Name: "net1"}}
	w := newServing(t, net1, append(twoBackends(), webService(bare))...)
	w.reconcile()
	if len(w.addresses()) != 2 || w.service().Spec.Selector[service.SelectorKey] != "default.net1" {
		t.Errorf("%v, %v", w.addresses(), w.service().Spec.Selector)
	}
	w.change(func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Annotations = "10.96.0.7", map[string]string{service.FallbackAnnotation: service.FallbackDefault}
	})
	w.reconcile()
	if _, is := w.service().Spec.Selector[service.SelectorKey]; is || len(w.addresses()) != 2 {
		t.Errorf("fallback: %v, %v", w.addresses(), w.service().Spec.Selector)
	}
	w.s.Rules.Defaults = nil
	w.reconcile()
	if len(w.slices()) > 0 {
		t.Errorf("no default any more: %v", w.addresses())
	}
}

// The networks that a flag names for Services have a namespace and a name, and the error says
// which of them has not.
func TestParseServiceNetworks(t *testing.T) {
	for _, tc := range []struct {
		flags []string
		want  []service.Network
		err   string
	}{
		{nil, nil, ""},
		{[]string{"default/net1", "red/net"}, []service.Network{{Namespace: "default", Name: "net1"}, {Namespace: "red", Name: "net"}}, ""},
		{[]string{"default/net1", "net2"}, nil, `default network of Services: network "net2": invalid`},
		{[]string{"Default/net1"}, nil, `"Default" is no namespace`},
	} {
		got, err := ParseServiceNetworks(tc.flags)
		if !slices.Equal(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: %v, %v, want %v, %q", tc.flags, got, err, tc.want, tc.err)
		}
	}
}

// The webhook keeps the key in the selector, and refuses a Service that Culvert never serves. An
// update of a Service that it refused before passes.
func TestServiceWebhook(t *testing.T) {
	c := newCluster(twoBackends()...)
	w := &serviceWebhook{client: c, rules: endpoints.Rules{Defaults: []service.Network{{Namespace: "default", Name: "net1"}}}}
	raw := func(change ...func(*corev1.Service)) string {
		text, err := json.Marshal(webService(change...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	bare := func(s *corev1.Service) { s.Annotations = nil }
	keyed := func(s *corev1.Service) { s.Spec.Selector[service.SelectorKey] = "default.net1" }
	lb := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }
	others := func(s *corev1.Service) {
		s.Spec.Selector = map[string]string{"app": "other", service.SelectorKey: "x.y"}
	}
	for name, tc := range map[string]struct {
		text, patch string
		denied      string
	}{
		"annotated":               {raw(), `[{"op":"add","path":"/spec/selector/endpoints.culvert.dev~1network","value":"default.net1"}]`, ""},
		"by default":              {raw(bare), `[{"op":"add","path":"/spec/selector/endpoints.culvert.dev~1network","value":"default.net1"}]`, ""},
		"with the key":            {raw(keyed), "", ""},
		"no longer served":        {raw(bare, others), `[{"op":"remove","path":"/spec/selector/endpoints.culvert.dev~1network"}]`, ""},
		"LoadBalancer":            {raw(lb), "", "a Service of type LoadBalancer"},
		"LoadBalancer by default": {raw(bare, lb), "", ""},
		"no JSON":                 {"{", "", "read the Service"},
	} {
		got := w.Handle(t.Context(), request(tc.text))
		patch, message := "", ""
		if len(got.Patches) > 0 {
			text, err := json.Marshal(got.Patches)
			if err != nil {
				t.Fatal(err)
			}
			patch = string(text)
		}
		if got.Result != nil {
			message = got.Result.Message
		}
		if got.Allowed != (tc.denied == "") || patch != tc.patch || tc.denied != "" && !strings.Contains(message, tc.denied) {
			t.Errorf("%s: %t %s %q", name, got.Allowed, patch, message)
		}
	}
	update := request(raw(lb))
	update.Operation, update.OldObject.Raw = "UPDATE", []byte(raw(lb))
	if got := w.Handle(t.Context(), update); !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("an update of a refused Service: %+v", got)
	}
	update.OldObject.Raw = []byte(raw())
	if got := w.Handle(t.Context(), update); got.Allowed {
		t.Error("an update that makes it a LoadBalancer passes")
	}
}

// cacheWithoutSlices is a cache that has no EndpointSlices while they are hidden.
type cacheWithoutSlices struct {
	client.Client
	hidden bool
}

func (c *cacheWithoutSlices) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	if _, is := o.(*discoveryv1.EndpointSliceList); is && c.hidden {
		return nil
	}
	return c.Client.List(ctx, o, opts...)
}

// TestSlicesThatTheCacheNeverHas: an EndpointSlice that is deleted while the controller's watch is
// lost causes no event if the cache never had it. The controller makes another one. While the cache
// is only late, it makes none.
func TestSlicesThatTheCacheNeverHas(t *testing.T) {
	w := newServing(t, nil, append(twoBackends(), webService())...)
	cached := &cacheWithoutSlices{Client: w.c, hidden: true}
	w.s.Client = cached
	wait := func(d time.Duration) {
		t.Helper()
		for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(staleLimit / 5) {
			w.reconcile()
		}
	}
	w.reconcile()
	wait(6 * staleLimit)
	if n := len(w.slices()); n != 1 || w.writes != 1 {
		t.Fatalf("%d slices after %d writes with a late cache, want 1", n, w.writes)
	}
	lost := w.slices()[0]
	if err := w.c.Delete(t.Context(), &lost); err != nil {
		t.Fatal(err)
	}
	wait(2 * staleLimit)
	if got := w.addresses(); len(got) != 2 || len(w.slices()) != 1 {
		t.Fatalf("addresses %v in %d slices after the first one was deleted", got, len(w.slices()))
	}
	cached.hidden = false
	b := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}
	if err := w.c.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if w.reconcile(); !slices.Equal(w.addresses(), []string{"172.16.91.20"}) {
		t.Errorf("addresses %v after a pod was deleted, with a cache that has the slices", w.addresses())
	}
}

//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/test/soak"
)

// alarm is a cause of alerts in the lab, and its end.
type alarm struct {
	title  string
	alerts []string
	begin  func(t *testing.T)
	end    func(t *testing.T)
}

// alarms are the causes that a cluster can have here, in turn. TestAlertsOfAHost of test/e2e makes the
// others.
var alarms = []alarm{
	{"a cable is pulled", []string{"CulvertPFWithoutLink", "CulvertProblems"}, setLink(false), setLink(true)},
	{"a cable is loose", []string{"CulvertPFFlapping"}, shakeCable, func(*testing.T) {}},
	{"a VF cannot be reset", []string{"CulvertVFsQuarantined"}, takeNameOfVF, giveNameBack},
	{"another program changes a VF", []string{"CulvertVFsChanged"}, changeVF, deletePods("changed")},
	{"the addresses are used up", []string{"CulvertAddressPoolFull", "CulvertAttachFails"}, makePods("few", 7), deletePods("few-0", "few-1", "few-2", "few-3", "few-4", "few-5", "few-6")},
	{"the VFs are used up", []string{"CulvertPoolFull"}, makePods("scraped", 7), deletePods("scraped-0", "scraped-1", "scraped-2", "scraped-3", "scraped-4", "scraped-5", "scraped-6")},
	{"culvertd stands still", []string{"CulvertdDown"}, signalDaemon("STOP"), signalDaemon("CONT")},
	{"the API server refuses culvertd", []string{"CulvertAPIRequestsFail"}, removeRights, giveRights},
	{"a firewall is before the webhooks", []string{"CulvertWebhookErrors"}, blockWebhooks, unblockWebhooks},
	{"there is no controller, and a Service has more endpoints than there is room", []string{"CulvertControllerAbsent", "CulvertServicesWithoutRoom"}, scaleBesideLargeService, endLargeService},
}

// Each alert of the rules has a cause in a lab: here, or in TestAlertsOfAHost of test/e2e.
func TestAlertsHaveCauses(t *testing.T) {
	text, err := os.ReadFile(top + "/dist/prometheus/culvert-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.ReadFile(top + "/test/e2e/alerts_test.go")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for _, a := range alarms {
		for _, name := range a.alerts {
			made[name] = true
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^  - alert: (\w+)$`).FindAllStringSubmatch(string(text), -1) {
		if made[m[1]] == strings.Contains(string(host), `"`+m[1]+`"`) {
			t.Errorf("alert %s: add its cause to alarms, or to test/e2e/alerts_test.go", m[1])
		}
		delete(made, m[1])
	}
	for name := range made {
		t.Errorf("there is no alert %s", name)
	}
}

// Each alert of alarms fires for its cause, and ends after it, by a real Prometheus.
func TestAlertsFireForTheirCauses(t *testing.T) {
	soak.Only(t, "cables, pods and culvertd are disturbed for ten minutes; test/monitoring has promtool judge each alert")
	need(t, besideMultus)
	offered(t, intel, "7")
	objects, err := os.ReadFile("testdata/prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, string(objects))
	m := startPrometheus(t)
	eventually(t, "all targets are up", func() error { return m.targetsAreUp(map[string]int{"culvertd": 1, "culvert-controller": 1}) })
	for _, a := range alarms {
		t.Run(a.title, func(t *testing.T) { a.check(t, m) })
	}
	allFree(t, allVFs/2)
}

// check makes the cause, and ends it.
func (a alarm) check(t *testing.T, m *monitor) {
	began := time.Now()
	a.begin(t)
	for _, name := range a.alerts {
		eventually(t, name+" fires", func() error { return m.checkFires(name, true) })
	}
	took := time.Since(began)
	a.end(t)
	for _, name := range a.alerts {
		eventually(t, name+" ends", func() error { return m.checkFires(name, false) })
	}
	t.Logf("%s: after %.0f s, and no longer %.0f s later", strings.Join(a.alerts, ", "), took.Seconds(), (time.Since(began) - took).Seconds())
}

// checkFires returns an error unless an alert fires, or does not.
func (m *monitor) checkFires(name string, want bool) error {
	if err := m.writeTargets(); err != nil { // the controller has another pod after a pause
		return err
	}
	return m.CheckFires(name, want)
}

// setLink plugs the cable of the second PF in, or pulls it. The first has the pod network.
func setLink(up bool) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		if err := k8s.Lab.Link("worker1", "pf2", up); err != nil {
			t.Fatal(err)
		}
	}
}

// shakeCable has the second PF lose its carrier so often that its link flaps. The kernel reports a change
// at most once a second.
func shakeCable(t *testing.T) {
	t.Helper()
	for range 7 {
		setLink(false)(t)
		time.Sleep(2 * time.Second)
		setLink(true)(t)
		time.Sleep(2 * time.Second)
	}
}

// makePods makes pods of a network, named by it. Those that have no room wait.
func makePods(network string, count int) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		var all strings.Builder
		for i := range count {
			all.WriteString(pod(fmt.Sprintf("%s-%d", network, i), "worker1", network))
		}
		feed(t, all.String(), "apply", "-f", "-")
	}
}

func deletePods(names ...string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		kubectl(t, append([]string{"delete", "pod", "--wait", "--ignore-not-found"}, names...)...)
	}
}

// attachedVF makes a pod, and returns its VF.
func attachedVF(t *testing.T, name string) (v struct {
	PCI, PF string
	Index   int
}) {
	t.Helper()
	feed(t, pod(name, "worker1", "scraped"), "apply", "-f", "-")
	ready(t, "pod/"+name)
	var all []json.RawMessage
	err := json.Unmarshal([]byte(on(t, "worker1", "culvert vf list -o json --owner default/"+name)), &all)
	if err == nil && len(all) == 1 {
		err = json.Unmarshal(all[0], &v)
	}
	if err != nil || v.PCI == "" {
		t.Fatalf("the VF of pod %s: %v, %s", name, err, all)
	}
	return v
}

// taken is the name of the interface that stands in the way of a VF's.
var taken string

// takeNameOfVF has another interface take the name that a VF had before it went to a pod, and ends the
// pod.
func takeNameOfVF(t *testing.T) {
	t.Helper()
	names := on(t, "worker1", `cd /sys/class/net; for n in *; do [ ! -e $n/device/physfn ] || echo $(basename $(readlink $n/device)) $n; done`)
	v := attachedVF(t, "stuck")
	for line := range strings.Lines(names) {
		if address, name, _ := strings.Cut(strings.TrimSpace(line), " "); address == v.PCI {
			taken = name
		}
	}
	on(t, "worker1", "ip link add "+taken+" type dummy")
	deletePods("stuck")(t)
}

func giveNameBack(t *testing.T) {
	t.Helper()
	on(t, "worker1", "ip link delete "+taken)
}

// changeVF changes a setting of a pod's VF, of which the pool says that culvertd only reports it.
func changeVF(t *testing.T) {
	t.Helper()
	kubectl(t, "patch", "nodepolicy", "lab", "--type=json", `--patch=[{"op": "add", "path": "/spec/pools/0/drift", "value": "report"}]`)
	t.Cleanup(func() {
		kubectl(t, "patch", "nodepolicy", "lab", "--type=json", `--patch=[{"op": "remove", "path": "/spec/pools/0/drift"}]`)
	})
	v := attachedVF(t, "changed")
	on(t, "worker1", fmt.Sprintf("ip link set %s vf %d trust on", v.PF, v.Index))
}

// signalDaemon sends a signal to culvertd.
func signalDaemon(name string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		on(t, "worker1", "kill -"+name+" $(pidof culvertd)")
	}
}

// removeRights takes culvertd's rights in the cluster away.
func removeRights(t *testing.T) {
	t.Helper()
	kubectl(t, "patch", "clusterrolebinding", "culvertd", "--type=json", `--patch=[{"op": "remove", "path": "/subjects"}]`)
	t.Cleanup(func() { giveRights(t) })
}

func giveRights(t *testing.T) {
	t.Helper()
	kubectl(t, "patch", "clusterrolebinding", "culvertd", "--type=json",
		`--patch=[{"op": "add", "path": "/subjects", "value": [{"kind": "ServiceAccount", "name": "culvertd", "namespace": "`+cluster.Namespace+`"}]}]`)
}

func scaleController(replicas string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		kubectl(t, "-n", cluster.Namespace, "scale", "deployment/culvert-controller", "--replicas="+replicas)
	}
}

// blockWebhooks has a firewall of the node drop what the API server sends to the controller's webhooks.
// It makes two calls of a webhook, of which each waits for the API server's bound: the metric begins with
// the first one.
func blockWebhooks(t *testing.T) {
	t.Helper()
	on(t, "worker1", `nft 'add table inet blocked; add chain inet blocked forward { type filter hook forward priority -10; }; add rule inet blocked forward tcp dport 9443 drop'`)
	t.Cleanup(func() { on(t, "worker1", "nft 'add table inet blocked; delete table inet blocked'") })
	for range 2 {
		feed(t, pod("unanswered", "worker1", "scraped"), "create", "--dry-run=server", "-f", "-")
	}
}

func unblockWebhooks(t *testing.T) {
	t.Helper()
	on(t, "worker1", "nft 'delete table inet blocked'")
}

// scaleBesideLargeService ends the controller after it accepted a Service. Then the Service gets an
// EndpointSlice in the controller's name, of 1,000 pods, which are not in the lab. A node balances SCTP by
// nftables, with 65,536 pairs of a port and an endpoint (internal/kernel/balance/filter Limit). The Service
// has 66,000.
func scaleBesideLargeService(t *testing.T) {
	t.Helper()
	feed(t, pod("large", "worker1", "scraped"), "apply", "-f", "-") // a client
	ready(t, "pod/large")
	ports, endpoints := make([]map[string]any, 66), make([]map[string]any, 1000)
	for i := range ports {
		ports[i] = map[string]any{"name": fmt.Sprintf("p%d", i), "port": 10000 + i, "protocol": "SCTP"}
	}
	for i := range endpoints {
		endpoints[i] = map[string]any{"addresses": []string{fmt.Sprintf("10.96.%d.%d", 100+i/250, i%250)}, "nodeName": "worker2"}
	}
	t.Cleanup(func() { kubectl(t, "delete", "service", "large", "--ignore-not-found") })
	createObject(t, map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{
			"name": "large", "annotations": map[string]string{service.NetworkAnnotation: "scraped"}, "labels": map[string]string{"service.kubernetes.io/service-proxy-name": "none"},
		},
		"spec": map[string]any{"selector": map[string]string{"app": "large"}, "ports": ports},
	})
	uid := kubectl(t, "get", "service", "large", "--output", "jsonpath={.metadata.uid}")
	scaleController("0")(t)
	// The controller would delete the EndpointSlice.
	kubectl(t, "-n", cluster.Namespace, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=culvert-controller", "--timeout="+soon.String())
	createObject(t, map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": map[string]any{
			"name": "large", "ownerReferences": []map[string]any{{"apiVersion": "v1", "kind": "Service", "name": "large", "uid": uid}},
			"labels": map[string]string{
				service.NetworkLabel: "default.scraped", "service.kubernetes.io/headless": "",
				"kubernetes.io/service-name": "large", "endpointslice.kubernetes.io/managed-by": service.ManagedBy,
			},
		},
		"ports": ports, "endpoints": endpoints,
	}, "--as", "system:serviceaccount:"+cluster.Namespace+":culvert-controller")
}

// createObject creates an object, without the annotation that kubectl apply adds.
func createObject(t *testing.T, object map[string]any, options ...string) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	feed(t, string(text), append([]string{"create", "-f", "-"}, options...)...)
}

// endLargeService has the controller back, which deletes an EndpointSlice that it did not make.
func endLargeService(t *testing.T) {
	t.Helper()
	scaleController("1")(t)
	deletePods("large")(t)
}

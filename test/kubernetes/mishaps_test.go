//go:build kubernetes

package kubernetes

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/test/soak"
)

// make soak sets higher values of both.
var (
	outage = flag.Duration("outage", 30*time.Second, "how long the API server is down in TestI2I7OutageOfTheAPIServer")
	many   = flag.Int("pods", 6, "how many pods start and go while culvertd is killed")
)

var bothNetworks = []string{"first", "second"}

// networks applies the two networks, and waits until the nodes offer their VFs.
func networks(t *testing.T) {
	t.Helper()
	need(t, twoNodes)
	offered(t, intel, "7")
	offered(t, chelsio, "7")
	applyNetworks(t)
}

// applyNetworks applies the two networks to the cluster that is up.
func applyNetworks(t *testing.T) {
	t.Helper()
	objects, err := os.ReadFile("testdata/networks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, string(objects))
}

// Objects that cannot work are refused at apply, with a message that names the field.
func TestRefusedAtApply(t *testing.T) {
	need(t, twoNodes)
	offered(t, intel, "7") // only then culvertd has reported the abilities of its PFs
	network := func(config string) string {
		return "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: bad, annotations: {k8s.v1.cni.cncf.io/resourceName: " + intel + "}}\nspec:\n  config: '" + config + "'\n"
	}
	policy := func(spec string) string {
		return "apiVersion: culvert.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: bad}\nspec: " + spec + "\n"
	}
	for _, c := range []struct {
		object string
		words  []string
	}{
		{network(`{"cniVersion": "1.0.0", "name": "n", "type": "culvert", "vlan": 5000}`), []string{"vlan", "5000", "4094"}},
		{network(`{"cniVersion": "1.0.0", "name": "n", "type": "culvert", "vlann": 5}`), []string{"vlann", "vlan"}},
		{network(`{"cniVersion": "1.0.0", "name": "n", "type": "culvert", "mtu": 65000}`), []string{"mtu", "65000"}},
		{policy(`{pfs: [{name: enp1s0, vfs: -1}]}`), []string{"pfs[0].vfs", "-1"}},
		{policy(`{pfs: [{vfs: 2}]}`), []string{"pfs[0]"}},
		{policy(`{pools: [{name: "a b"}]}`), []string{"pools[0].name", "a b"}},
		{policy(`{pfs: [{name: enp1s0, vfs: 2, colour: red}]}`), []string{"pfs[0].colour"}},
	} {
		refused(t, c.object, c.words, "apply", "--dry-run=server", "-f", "-")
	}
	// The SR-IOV CNI plugin ignores a key that it does not know: a warning.
	cmd := k8s.KubectlCommand(t.Context(), "apply", "--dry-run=server", "-f", "-")
	cmd.Stdin = strings.NewReader(network(`{"cniVersion": "1.0.0", "name": "n", "type": "sriov", "vlann": 5}`))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Warning: spec.config: vlann 5: unknown key, ignored: did you mean vlan?") {
		t.Errorf("a network of type sriov with a key that is not known: %v: %s", err, out)
	}
	// A pool that selects no VF may select one later: a warning.
	out, err := k8s.KubectlCommand(t.Context(), "apply", "--dry-run=server", "-f", "testdata/empty-pool.yaml").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Warning: ") || !strings.Contains(string(out), "selects no VF") {
		t.Errorf("a pool that selects nothing: %v: %s", err, out)
	}
}

// A pod that names a network and no resource gets the resource. Without the
// webhook it does not start without its VF, and other pods do start.
func TestResourcesFollowFromTheNetwork(t *testing.T) {
	soak.Only(t, "a pod that waits without the webhook; internal/cluster/controller tests the webhook")
	networks(t)
	apply(t, pod("mended", "worker01", "first"))
	distinct(t, running(t, 1))
	if got := kubectl(t, "get", "pod", "mended", "-o", `jsonpath={.spec.containers[0].resources.limits.intel\.com/intel_sriov_netdevice}`); got != "1" {
		t.Errorf("pod mended asks for %q", got)
	}
	kubectl(t, "-n", cluster.Namespace, "scale", "deployment/culvert-controller", "--replicas=0")
	t.Cleanup(func() {
		kubectl(t, "-n", cluster.Namespace, "scale", "deployment/culvert-controller", "--replicas=2")
		kubectl(t, "-n", cluster.Namespace, "rollout", "status", "deployment/culvert-controller", "--timeout="+soon.String())
	})
	kubectl(t, "-n", cluster.Namespace, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=culvert-controller", "--timeout="+soon.String())
	apply(t, pod("plain", "worker02", "")+pod("bare", "worker02", "first"))
	ready(t, "pod/plain")
	eventually(t, "an event on pod bare", func() error {
		events := kubectl(t, "get", "events", "--field-selector", "involvedObject.name=bare,type=Warning", "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(events, intel) || !strings.Contains(events, "request 1 in the pod's resources") {
			return fmt.Errorf("there is %q", events)
		}
		return nil
	})
	if phase := kubectl(t, "get", "pod", "bare", "-o", "jsonpath={.status.phase}"); phase != "Pending" {
		t.Errorf("pod bare is %s", phase)
	}
}

// I2, I4, I8: culvertd is killed -9 on both nodes while pods start, and again while they go. All
// pods start with addresses of their own, and nothing is left.
func TestI2I4I8KilledWhileManyAttach(t *testing.T) {
	soak.Only(t, "six pods that start and go; test/torture kills culvertd in a node")
	networks(t)
	kill := func(after time.Duration) {
		time.Sleep(after)
		for _, node := range twoNodes.names {
			on(t, node, "pkill -KILL -x culvertd || true")
		}
	}
	objects := pods(*many, twoNodes.names, bothNetworks)
	apply(t, objects)
	eventually(t, "the kubelets admit all pods", func() error { // a pod that is admitted while culvertd is away fails for good
		pods, err := get("pods")
		for _, p := range pods {
			if p.Status.StartTime == "" {
				return fmt.Errorf("pod %s is not admitted", p.Metadata.Name)
			}
		}
		return err
	})
	kill(time.Duration(rand.IntN(5)) * time.Second)
	distinct(t, running(t, *many))
	var g errgroup.Group
	g.Go(func() error { kill(time.Second); return nil })
	feed(t, objects, "delete", "--wait=false", "-f", "-")
	_ = g.Wait()
	allFree(t, allVFs)
	allToldFree(t)
}

// I2, I7: while the API server is away, pods whose sandboxes die get new ones with a VF each, from
// culvertd's informers. The VFs of the dead sandboxes are free again. The reports to the cluster
// are right once the API server is back.
func TestI2I7OutageOfTheAPIServer(t *testing.T) {
	soak.Only(t, "the API server is away for half a minute, and new sandboxes take more")
	networks(t)
	apply(t, pods(4, twoNodes.names, bothNetworks))
	distinct(t, running(t, 4))
	if err := k8s.StopProgram(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	back := time.Now().Add(*outage)
	sandboxes := func(node string) string {
		return on(t, node, `ctr -n k8s.io containers ls -q 'labels."io.cri-containerd.kind"==sandbox,labels."io.kubernetes.pod.namespace"==default' | sort`)
	}
	before := map[string]string{}
	for _, node := range twoNodes.names {
		before[node] = sandboxes(node)
		for _, id := range strings.Fields(before[node]) {
			on(t, node, "ctr -n k8s.io tasks kill -s KILL "+id)
		}
	}
	for _, node := range twoNodes.names {
		eventually(t, "the two pods of "+node+" have new sandboxes and VFs", func() error {
			owners := on(t, node, "culvert vf list -o json")
			for _, id := range strings.Fields(before[node]) {
				if strings.Contains(owners, id) {
					return fmt.Errorf("sandbox %s has a VF still", id)
				}
			}
			if attached := strings.Count(owners, `"attached"`); attached != 2 {
				return fmt.Errorf("%d VFs are attached", attached)
			}
			return nil
		})
	}
	time.Sleep(time.Until(back))
	startAPIServer(t)
	awaitOwnAddresses(t, 4)
}

// startAPIServer starts the API server that a test stopped, and waits until it answers.
func startAPIServer(t *testing.T) {
	t.Helper()
	if err := k8s.StartProgram(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server is back", func() error {
		_, err := k8s.Kubectl(context.Background(), "get", "--raw", "/readyz")
		return err
	})
}

// kubelet, containerd and culvertd are replaced while pods run: their VFs carry
// traffic all the time, the VFs stay the same (P1), and new pods get theirs.
func TestP1UpgradeAndRestarts(t *testing.T) {
	soak.Only(t, "two rollouts of culvertd, and restarts of the kubelet and containerd")
	networks(t)
	apply(t, pod("from", "worker01", "first")+pod("to", "worker02", "first"))
	addresses := distinct(t, running(t, 2))
	before, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	culvertd := "daemonset/culvertd"
	for _, node := range twoNodes.names {
		on(t, node, "ctr -n k8s.io images tag --force localhost/culvert:v0.1.0 localhost/culvert:next")
	}
	stream(t, "from", addresses["to"], func() {
		kubectl(t, "-n", cluster.Namespace, "set", "image", culvertd, "culvertd=localhost/culvert:next")
		kubectl(t, "-n", cluster.Namespace, "rollout", "status", culvertd, "--timeout="+soon.String())
		kubectl(t, "-n", cluster.Namespace, "rollout", "undo", culvertd)
		kubectl(t, "-n", cluster.Namespace, "rollout", "status", culvertd, "--timeout="+soon.String())
	})
	for _, service := range []string{"kubelet", "containerd"} {
		on(t, "worker01", "systemctl restart "+service)
	}
	// A kubelet that was just started fails pods for good until device plugins have registered,
	// although the node already shows the resources of before. So the test makes the pod again, as
	// a Deployment does.
	later := pod("later", "worker01", "first")
	apply(t, later)
	eventually(t, "a new pod gets a VF", func() error {
		switch phase := kubectl(t, "get", "pod", "later", "-o", "jsonpath={.status.phase}"); phase {
		case "Running":
			return nil
		case "Failed":
			feed(t, later, "replace", "--force", "-f", "-")
			fallthrough
		default:
			return fmt.Errorf("it is %s", phase)
		}
	})
	distinct(t, running(t, 3))
	after, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	sameVFs(t, before, after)
}

// Two policies of one priority request different settings of one PF: each reports the conflict and
// names the other, and the existing VFs stay as they are.
func TestPoliciesThatContradict(t *testing.T) {
	networks(t)
	apply(t, "apiVersion: culvert.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: other}\nspec: {pfs: [{name: enp1s0, vfs: 3}]}\n")
	for name, other := range map[string]string{"lab": "other", "other": "lab"} {
		eventually(t, "NodePolicy "+name+" tells of the conflict", func() error {
			got := kubectl(t, "get", "nodepolicy", name, "-o", `jsonpath={.status.conditions[?(@.type=="Conflict")].status} {.status.conditions[?(@.type=="Conflict")].message}`)
			if !strings.HasPrefix(got, "True ") || !strings.Contains(got, other) {
				return fmt.Errorf("its condition is %q", got)
			}
			return nil
		})
	}
	for _, node := range twoNodes.names {
		if got := on(t, node, "cat /sys/class/net/enp1s0/device/sriov_numvfs"); got != "7\n" {
			t.Errorf("enp1s0 of %s has %s VFs", node, got)
		}
	}
}

// Pods are deleted while they start, their network with them, and a node's clock
// jumps: nothing is left (I2).
func TestI2DeletedWhileAttaching(t *testing.T) {
	soak.Only(t, "eight pods that start and go")
	networks(t)
	on(t, "worker01", "date -s '+1 hour' >/dev/null")
	t.Cleanup(func() { on(t, "worker01", "date -s '-1 hour' >/dev/null") })
	objects := pods(8, twoNodes.names, bothNetworks)
	feed(t, objects, "apply", "-f", "-")
	time.Sleep(time.Duration(rand.IntN(15)) * time.Second)
	kubectl(t, "delete", "net-attach-def", "first")
	feed(t, objects, "delete", "--grace-period=0", "--force", "-f", "-")
	allFree(t, allVFs)
}

// I5: a PF gets another number of VFs on one node. Only the pods that have VFs of that PF are
// evicted, and not before their PodDisruptionBudget allows it. Afterwards pods can run on the node
// again.
func TestI5Drain(t *testing.T) {
	soak.Only(t, "evictions that are refused, and a drain")
	networks(t)
	apply(t, pod("holder", "worker02", "first")+pod("stays", "worker02", "second")+pod("far", "worker01", "first"))
	running(t, 3)
	apply(t, "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: holder}\nspec: {minAvailable: 1, selector: {matchLabels: {app: holder}}}\n")
	kubectl(t, "label", "node", "worker02", "fewer=yes")
	t.Cleanup(func() {
		kubectl(t, "label", "node", "worker02", "fewer-")
		feed(t, "", "delete", "pod", "--all", "--wait")
		allFree(t, allVFs) // the nodes' allocatable may be older
		offered(t, intel, "7")
	})
	apply(t, "apiVersion: culvert.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: fewer}\nspec: {priority: 10, nodeSelector: {fewer: \"yes\"}, pfs: [{name: enp1s0, vfs: 4}]}\n")
	unschedulable := func() bool {
		return kubectl(t, "get", "node", "worker02", "-o", "jsonpath={.spec.unschedulable}") == "true"
	}
	eventually(t, "worker02 is cordoned", func() error {
		if !unschedulable() {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	eventually(t, "the eviction of pod holder is refused twice", func() error {
		if n := refusedEvictions(t, "holder"); n < 2 {
			return fmt.Errorf("it was refused %d times", n)
		}
		return nil
	})
	running(t, 3)
	if got := on(t, "worker02", "cat /sys/class/net/enp1s0/device/sriov_numvfs"); got != "7\n" {
		t.Fatalf("I5: enp1s0 has %s VFs while a pod has one", got)
	}
	kubectl(t, "delete", "pdb", "holder")
	eventually(t, "the change is made, and worker02 takes pods again", func() error {
		if got := on(t, "worker02", "cat /sys/class/net/enp1s0/device/sriov_numvfs"); got != "4\n" || unschedulable() {
			return fmt.Errorf("enp1s0 has %q VFs, unschedulable is %t", got, unschedulable())
		}
		return nil
	})
	for _, p := range running(t, 2) {
		if name := p.Metadata.Name; name != "stays" && name != "far" {
			t.Errorf("pod %s is left", name)
		}
	}
}

// awaitRestarted waits until the kubelet of a node that was rebooted has started its pods again, or
// has ended them.
func awaitRestarted(t *testing.T, names []string) {
	t.Helper()
	eventually(t, "the kubelet has started the pods again, or ended them", func() error {
		pods, err := get("pods")
		for _, p := range pods {
			if slices.Contains(names, p.Metadata.Name) && p.Status.Phase == "Running" && (len(p.Status.Containers) == 0 || p.Status.Containers[0].Restarts == 0) {
				return fmt.Errorf("pod %s is as before", p.Metadata.Name)
			}
		}
		return err
	})
}

// A node is rebooted: it has the same VFs again (P1), and the pods of a Deployment come back with
// VFs and addresses. The test has a Deployment since a kubelet that was just started ends pods with
// devices for good (kubernetes/kubernetes#125579). (Other tests check that culvertd loses nothing
// when power is cut; containerd does: docs/troubleshooting.md.)
func TestP1Reboot(t *testing.T) {
	soak.Only(t, "the reboot of a node of a cluster")
	networks(t)
	apply(t, deployment("web", "worker02", "first", 3))
	names := slices.Sorted(maps.Keys(distinct(t, running(t, 3))))
	before, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	reboot(t, "worker02")
	awaitRestarted(t, names)
	awaitOwnAddresses(t, 3)
	after, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	sameVFs(t, before, after)
}

// reboot reboots a node in order.
func reboot(t *testing.T, node string) {
	t.Helper()
	boot := on(t, node, "cat /proc/sys/kernel/random/boot_id")
	if err := k8s.Lab.Reboot(context.Background(), node); err != nil {
		t.Fatal(err)
	}
	if on(t, node, "cat /proc/sys/kernel/random/boot_id") == boot {
		t.Fatalf("%s was not rebooted", node)
	}
	// A VF that is still in a pod when igbvf is shut down hangs the node, though not each time.
	lab, err := k8s.Lab.Status()
	if err != nil {
		t.Fatal(err)
	}
	console, err := os.ReadFile(filepath.Join(lab.RunDir, node+".console"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(console), "end-containers: all VFs are back") {
		t.Errorf("%s went down with VFs in its pods: %s", node, console[max(0, len(console)-2000):])
	}
}

// After Culvert's objects are deleted, the nodes are as they were before the installation, as
// docs/kubernetes.md says, and Services are as their owners wrote them. It is the last test of this
// site.
func TestUninstall(t *testing.T) {
	need(t, twoNodes)
	allFree(t, allVFs)
	serveWeb(t)
	kubectl(t, "apply", "-f", top+"/dist/kubernetes/release-services.yaml")
	kubectl(t, "--namespace", cluster.Namespace, "wait", "--for=condition=Complete", "--timeout=5m", "job/culvert-release-services")
	wantReleased(t)
	kubectl(t, "delete", "-f", top+"/dist/kubernetes/culvert.yaml", "--ignore-not-found", "--wait")
	for _, node := range twoNodes.names {
		gone(t, node)
	}
}

// serveWeb makes the Service "web" over a VF network, and waits until Culvert serves it.
func serveWeb(t *testing.T) {
	t.Helper()
	const web = "apiVersion: v1\nkind: Service\nmetadata: {name: web, annotations: {culvert.dev/network: first}}\n" +
		"spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}\n"
	apply(t, web)
	eventually(t, "Service web is served", func() error {
		if got := webSelector(t); !strings.Contains(got, `"endpoints.culvert.dev/network":"default.first"`) {
			return fmt.Errorf("its selector is %s", got)
		}
		return nil
	})
}

// wantReleased fails the test unless the Service web is as its owner wrote it.
func wantReleased(t *testing.T) {
	t.Helper()
	if got := webSelector(t); got != `{"app":"web"}` {
		t.Errorf("the selector of Service web is %s", got)
	}
	if got := kubectl(t, "get", "endpointslices", "--selector", "endpointslice.kubernetes.io/managed-by=culvert.dev", "-o", "name"); got != "" {
		t.Errorf("left are %s", got)
	}
}

func webSelector(t *testing.T) string {
	t.Helper()
	return kubectl(t, "get", "service", "web", "-o", "jsonpath={.spec.selector}")
}

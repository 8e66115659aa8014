//go:build kubernetes

package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/lab"
)

// soon is the time that an action may take on an emulated node that other work keeps busy.
const soon = 10 * time.Minute

// kubectl runs kubectl, and ends the test if that fails.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := k8s.Kubectl(context.Background(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// apply applies objects, and deletes them when the test ends.
func apply(t *testing.T, objects string) {
	t.Helper()
	t.Cleanup(func() { feed(t, objects, "delete", "--ignore-not-found", "--wait", "-f", "-") })
	feed(t, objects, "apply", "-f", "-")
}

// feed runs kubectl with a standard input.
func feed(t *testing.T, in string, args ...string) {
	t.Helper()
	if _, err := k8s.KubectlIn(context.Background(), strings.NewReader(in), args...); err != nil {
		t.Fatal(err)
	}
}

// refused runs kubectl, which must fail with all those words.
func refused(t *testing.T, in string, words []string, args ...string) {
	t.Helper()
	_, err := k8s.KubectlIn(context.Background(), strings.NewReader(in), args...)
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("kubectl %s: %v: there is no %q in it", strings.Join(args, " "), err, word)
		}
	}
}

// on runs a shell script on a node.
func on(t *testing.T, node, script string) string {
	t.Helper()
	out, err := tryOn(node, script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryOn(node, script string) (string, error) {
	var out, errs bytes.Buffer
	exit, err := k8s.Lab.Exec(context.Background(), node, lab.Cmd{Argv: []string{"bash", "-euc", script}, Stdout: &out, Stderr: &errs})
	if err == nil && exit != 0 {
		err = fmt.Errorf("exit status %d: %s%s", exit, out.String(), errs.String())
	}
	if err != nil {
		return "", fmt.Errorf("on %s: %s: %w", node, script, err)
	}
	return out.String(), nil
}

// ready waits until pods, or other objects, are ready.
func ready(t *testing.T, objects ...string) {
	t.Helper()
	kubectl(t, slices.Concat([]string{"wait", "--for=condition=Ready", "--timeout=" + soon.String()}, objects)...)
}

// eventually calls so until it returns nil. After the time soon it fails the test with the cluster's
// state. It logs a wait of over ten seconds, since such waits decide how long the tests take.
func eventually(t *testing.T, what string, so func() error) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		err := so()
		took := time.Since(began)
		if err == nil {
			if took > 10*time.Second {
				t.Logf("%s: after %.0f s", what, took.Seconds())
			}
			return
		}
		if took > soon {
			t.Log(state()) // before the error, since a report of many tests keeps only the end of an output
			t.Fatalf("%s: not after %s: %v", what, soon, err)
		}
	}
}

// object is the part of a Kubernetes object that the tests look at.
type object struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
		Owners      []struct{}        `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		NodeName      string `json:"nodeName"`
		Unschedulable bool   `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Phase       string            `json:"phase"`
		Reason      string            `json:"reason"`
		Message     string            `json:"message"`
		StartTime   string            `json:"startTime"` // when the kubelet admitted it
		PodIP       string            `json:"podIP"`
		Allocatable map[string]string `json:"allocatable"`
		Containers  []struct {
			Restarts int `json:"restartCount"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// get lists objects.
func get(args ...string) ([]object, error) {
	var list struct {
		Items []object `json:"items"`
	}
	err := k8s.Get(context.Background(), &list, args...)
	return list.Items, err
}

// offered waits until each node offers that many VFs of a resource.
func offered(t *testing.T, resource, want string) {
	t.Helper()
	eventually(t, "each node offers "+want+" "+resource, func() error {
		nodes, err := get("nodes")
		for _, n := range nodes {
			if got := n.Status.Allocatable[resource]; got != want {
				return fmt.Errorf("node %s offers %q", n.Metadata.Name, got)
			}
		}
		return err
	})
}

// running waits until there are that many pods in the namespace default, and all run and have their
// network-status. It passes over a pod that has failed for good if the pod has an owner, which
// makes another one. Without an owner it fails the test.
func running(t *testing.T, want int) (pods []object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods run", want), func() error {
		all, err := get("pods")
		if err != nil {
			return err
		}
		pods = nil
		for _, p := range all {
			if p.Status.Phase == "Failed" {
				if len(p.Metadata.Owners) == 0 {
					t.Log(state())
					t.Fatalf("pod %s has failed for good: %s: %s", p.Metadata.Name, p.Status.Reason, p.Status.Message)
				}
				continue
			}
			pods = append(pods, p)
		}
		for _, p := range pods {
			if p.Status.Phase != "Running" || p.Metadata.Annotations[statusAnnotation] == "" {
				return fmt.Errorf("pod %s is %s, with the network-status %q", p.Metadata.Name, p.Status.Phase, p.Metadata.Annotations[statusAnnotation])
			}
		}
		if len(pods) != want {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	return pods
}

const statusAnnotation = "k8s.v1.cni.cncf.io/network-status"

// distinct fails the test if two pods have one address by their network-status (I4), or a pod has
// none.
func distinct(t *testing.T, pods []object) map[string]netip.Addr {
	t.Helper()
	has, owner := map[string]netip.Addr{}, map[netip.Addr]string{}
	for _, p := range pods {
		told, err := addresses(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range told {
			if other, twice := owner[a]; twice {
				t.Errorf("I4: pods %s and %s have %s", p.Metadata.Name, other, a)
			}
			owner[a], has[p.Metadata.Name] = p.Metadata.Name, a
		}
		if !has[p.Metadata.Name].IsValid() {
			t.Errorf("pod %s has no address: %s", p.Metadata.Name, p.Metadata.Annotations[statusAnnotation])
		}
	}
	return has
}

// addresses returns the addresses in a pod's network-status, without those of its default network.
func addresses(p object) (all []netip.Addr, err error) {
	var networks []struct {
		Default bool
		IPs     []netip.Addr
	}
	err = json.Unmarshal([]byte(p.Metadata.Annotations[statusAnnotation]), &networks)
	for _, n := range networks {
		if !n.Default {
			all = append(all, n.IPs...)
		}
	}
	return all, err
}

// vfs returns the VFs of all NodeStates, by node.
func vfs() (map[string][]v1alpha1.VFState, error) {
	var list v1alpha1.NodeStateList
	err := k8s.Get(context.Background(), &list, "nodestates")
	all := make(map[string][]v1alpha1.VFState)
	for _, n := range list.Items {
		all[n.Name] = n.Status.VFs
	}
	return all, err
}

// allFree waits until no pod is left in the namespace default, and culvertd of the nodes has so many
// VFs, all without an owner (I2). A NodeState says so only after a minute (allToldFree).
func allFree(t *testing.T, want int) {
	t.Helper()
	eventually(t, "I2: all VFs are free", func() error {
		if pods, err := get("pods"); err != nil || len(pods) > 0 {
			return fmt.Errorf("%d pods: %w", len(pods), err)
		}
		seen := 0
		for _, node := range there.names {
			out, err := tryOn(node, "culvert vf list -o json")
			if err != nil {
				return err
			}
			var all []struct{ PF, Phase, Reason string }
			if err := json.Unmarshal([]byte(out), &all); err != nil {
				return fmt.Errorf("culvert vf list of node %s: %w", node, err)
			}
			for _, v := range all {
				if seen++; v.Phase != "free" {
					return fmt.Errorf("a VF of %s of node %s is %s %s", v.PF, node, v.Phase, v.Reason)
				}
			}
		}
		if seen != want {
			return fmt.Errorf("the nodes have %d VFs, not %d", seen, want)
		}
		return nil
	})
}

// allToldFree waits until the NodeStates say that all VFs are free.
func allToldFree(t *testing.T) {
	t.Helper()
	eventually(t, "I2: the NodeStates tell that all VFs are free", func() error {
		all, err := vfs()
		for node, of := range all {
			for _, v := range of {
				if v.Phase != "free" {
					return fmt.Errorf("VF %s of node %s is %s %s", v.Name, node, v.Phase, v.Reason)
				}
			}
		}
		return err
	})
}

// pod returns a pod that sleeps until it is deleted. where names its node, and networks is its
// annotation; both may be empty.
func pod(name, where, networks string) string {
	node := ""
	if where != "" {
		node = "nodeName: " + where
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}, annotations: {k8s.v1.cni.cncf.io/networks: %q}}
spec:
  %s
  terminationGracePeriodSeconds: 0
  enableServiceLinks: false
  automountServiceAccountToken: false
  containers:
  - {name: main, image: docker.io/centos/tools:latest, imagePullPolicy: Never, command: [sleep, infinity]}
`, name, name, networks, node)
}

// deployment returns a Deployment of such pods, which the scheduler places on the node.
func deployment(name, node, networks string, replicas int) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[4]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {k8s.v1.cni.cncf.io/networks: %[3]q}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %[2]s}
      terminationGracePeriodSeconds: 0
      enableServiceLinks: false
      automountServiceAccountToken: false
      containers:
      - {name: main, image: docker.io/centos/tools:latest, imagePullPolicy: Never, command: [sleep, infinity]}
`, name, node, networks, replicas)
}

// pods returns count pods, named by their number, in turns on the nodes and networks.
func pods(count int, on, networks []string) string {
	var all strings.Builder
	for i := range count {
		all.WriteString(pod(fmt.Sprintf("many-%d", i), on[i%len(on)], networks[i/len(on)%len(networks)]))
	}
	return all.String()
}

// stream pings from a pod while do runs, and fails the test if a packet is lost. When the first
// ping is ended, the last answers may still be on their way. So another ping shows that packets
// still arrive.
func stream(t *testing.T, from string, to netip.Addr, do func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ping := k8s.KubectlCommand(ctx, "exec", from, "--", "bash", "-c",
		fmt.Sprintf("ping -c 1 -w 300 %[1]s >&2; ping -D -i 0.5 %[1]s & read; kill -INT $!; wait $!; ping -c 3 -w 300 %[1]s >&2", to))
	in, err := ping.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ping.Args = slices.Insert(ping.Args, 2, "-i") // exec's standard input
	var out, after bytes.Buffer
	ping.Stdout, ping.Stderr = &out, &after
	if err := ping.Start(); err != nil {
		t.Fatal(err)
	}
	do()
	fmt.Fprintln(in)
	err = ping.Wait()
	summary := out.String()[max(0, out.Len()-200):]
	if lost := findLost(out.String(), parseAnswers(t, out.String())); lost != "" || err != nil {
		t.Errorf("from pod %s to %s: %v: %s: ... %s\n%s", from, to, err, lost, summary, after.String())
	}
	t.Log(summary)
}

// findLost names the pings without an answer. It leaves out the last ones, of the last seconds, whose
// answers may have been on their way when ping was ended. It returns "" if none is lost.
func findLost(out string, answers []answer) string {
	const last = 10
	var lost []string
	next := 1
	for _, a := range slices.SortedFunc(slices.Values(answers), func(a, b answer) int { return a.number - b.number }) {
		for ; next < a.number; next++ {
			lost = append(lost, fmt.Sprint(next))
		}
		next = a.number + 1
	}
	sent := 0
	if at := strings.LastIndex(out, "---\n"); at >= 0 {
		_, _ = fmt.Sscanf(out[at+4:], "%d packets transmitted", &sent)
	}
	switch {
	case len(answers) == 0 || sent == 0:
		return "no ping was answered, or ping did not end"
	case sent >= next+last:
		return fmt.Sprintf("the last %d pings have no answer", sent+1-next)
	case len(lost) > 0:
		return "pings without an answer: " + strings.Join(lost, " ")
	}
	return ""
}

// sameVFs fails the test if the VFs are not those of before: at another PCI address, of another PF,
// or in another pool (P1).
func sameVFs(t *testing.T, before, after map[string][]v1alpha1.VFState) {
	t.Helper()
	for node := range maps.Keys(before) {
		name := func(all []v1alpha1.VFState) (out []string) {
			for _, v := range all {
				out = append(out, v.Name+" "+v.PCI+" "+v.Pool)
			}
			return out
		}
		if b, a := name(before[node]), name(after[node]); !slices.Equal(a, b) {
			t.Errorf("P1: VFs of node %s are %v, and were %v", node, a, b)
		}
	}
}

package demo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/report"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/demo/node"
)

var kubernetesFiles = files{"demo-k8s.json", "report-k8s.txt", "report-k8s.html"}

// demoPolicy is the policy that an administrator adds to report R0's objects: it declares the
// VFs, and the pool that R0's pods ask for.
//
//go:embed testdata/policy.yaml
var demoPolicy []byte

// KubernetesResult is demo-k8s.json.
type KubernetesResult struct {
	*Result
	CNI                cluster.CNI        `json:"cni"`                     // the default network of pods: the overlay
	WithoutVF          bench.Percentiles  `json:"without_vf_ms"`           // the same ADD without the VF network
	Floor              bench.Percentiles  `json:"floor_ms"`                // the bare kernel work of the VF network
	Attachments        int                `json:"attachments"`             // of each kind
	APIRequests        float64            `json:"api_requests_per_attach"` // of culvertd, that an answer waits for
	APIWrites          float64            `json:"api_writes_per_attach"`   // of culvertd, after the answer
	APIStates          float64            `json:"api_states_per_attach"`   // NodeStates among them, which attaches share
	DuplicateAddresses int                `json:"duplicate_addresses"`
	Pods               int                `json:"pods"` // started and deleted as fast as it goes
	PodsPerMinute      float64            `json:"pods_per_minute"`
	NodesReady         float64            `json:"nodes_ready_s"` // from nothing, programs built
	Installed          float64            `json:"installed_s"`   // from kubectl apply until all of Culvert runs
	ResidentMiB        map[string]float64 `json:"resident_mib"`  // at the end
	Service            ServiceResult      `json:"service"`
}

// kubernetes is a run of the demo on a cluster.
type kubernetes struct {
	*demo
	cluster *cluster.Cluster
	found   KubernetesResult
}

// RunKubernetes shows the demo on a cluster of two nodes: it installs Culvert, applies report
// R0's objects unchanged, and measures both networks. Also after a failure it leaves only its
// report and the caches, or the lab if Keep is set.
func RunKubernetes(ctx context.Context, o Options) (err error) {
	if o.CNI, err = cluster.ParseCNI(string(o.CNI)); err != nil {
		return err
	}
	d, err := beginDemo(o, kubernetesFiles)
	if err != nil {
		return err
	}
	defer d.Steps.Close()
	if _, err := cluster.FindParts(ctx, cluster.Options{Source: o.Source, CNI: o.CNI}, d.Step); err != nil {
		return err
	}
	floor, err := buildFloor(ctx, o.Source)
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(floor))
	start := time.Now()
	c, err := d.bringClusterUp(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.leaveLab(ctx, c.Lab)) }()
	if err := d.noteNodes(c.Lab); err != nil {
		return err
	}
	k := &kubernetes{demo: d, cluster: c, found: KubernetesResult{Result: &d.result, CNI: c.CNI, NodesReady: time.Since(start).Seconds()}}
	if err := k.play(ctx, floor); err != nil {
		k.lastWords(ctx)
		return err
	}
	return d.writeReport(k.found)
}

// bringClusterUp brings the demo's cluster up, or opens it if it is up.
func (d *demo) bringClusterUp(ctx context.Context) (*cluster.Cluster, error) {
	if d.Up {
		c, err := cluster.Open(d.Name)
		if err == nil && c.CNI != d.CNI {
			err = errors.Join(fmt.Errorf("the cluster of the lab %s has %s: give --cni %s", d.Name, c.CNI.Title(), c.CNI), c.Close())
		}
		return c, err
	}
	return cluster.Up(ctx, cluster.Options{Source: d.Source, CNI: d.CNI, Lab: d.labOptions()})
}

// lastWords shows the pods, the warnings and culvertd's last log lines, after a failure.
func (k *kubernetes) lastWords(ctx context.Context) {
	for _, args := range []string{
		"get pods --all-namespaces --output wide", "get events --all-namespaces --field-selector type=Warning",
		"--namespace " + cluster.Namespace + " logs daemonset/culvertd --tail 30",
	} {
		_ = k.tell(ctx, strings.Fields(args)...) // there is a worse error already
	}
}

// tell runs kubectl and shows what it prints.
func (k *kubernetes) tell(ctx context.Context, args ...string) error {
	out, err := k.cluster.Kubectl(ctx, args...)
	if err == nil {
		fmt.Fprintf(k.Steps, "\n  $ kubectl %s\n%s\n\n", strings.Join(args, " "), indentLines(string(out)))
	}
	return err
}

// play runs the demo: it installs Culvert, gives VFs out, measures, takes the VFs back, and times
// attaches.
func (k *kubernetes) play(ctx context.Context, floor string) error {
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return k.timeFloor(ctx, floor) },
		k.install, k.runReport, k.timePods, k.burst, k.weigh, k.compareVFs,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// install installs Culvert and has it make all VFs.
func (k *kubernetes) install(ctx context.Context) error {
	k.Step("building Culvert's image, and bringing it to the nodes")
	if err := k.cluster.LoadCulvert(ctx, k.Source); err != nil {
		return err
	}
	k.Step("kubectl create -f dist/kubernetes/network-attachment-definitions.yaml, kubectl apply --server-side -f dist/kubernetes/culvert.yaml")
	start := time.Now()
	if err := k.cluster.InstallCulvert(ctx, k.Source); err != nil {
		return err
	}
	k.found.Installed = time.Since(start).Seconds()
	k.Step("kubectl apply -f policy.yaml: which VFs there shall be")
	if _, err := k.cluster.KubectlIn(ctx, bytes.NewReader(demoPolicy), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := k.await(ctx, "each node offers 7 VFs of each pool", k.offered); err != nil {
		return err
	}
	if err := k.tell(ctx, "get", "nodepolicies,nodestates"); err != nil {
		return err
	}
	for _, n := range k.nodes { // the demo asks the nodes by it below; installing does not need it
		if err := k.cluster.Lab.Copy(ctx, n.Name, filepath.Join(k.Source, "build/bin/culvert"), "/usr/local/bin/culvert"); err != nil {
			return err
		}
	}
	return k.countVFs(ctx, nodeCount*2*7)
}

// patience bounds a wait for the cluster, on a host with much else to do.
const patience = 10 * time.Minute

// await calls so until it returns no error, or for patience.
func (k *kubernetes) await(ctx context.Context, what string, so func(context.Context) error) error {
	for end := time.Now().Add(patience); ; {
		err := so(ctx)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: not after %s: %w", what, patience, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(k.pace):
		}
	}
}

func (k *kubernetes) offered(ctx context.Context) error {
	var nodes list
	if err := k.cluster.Get(ctx, &nodes, "nodes"); err != nil {
		return err
	}
	for _, n := range nodes.Items {
		for _, network := range networks { // culvertd makes the VFs of a pool's PF when it is that PF's turn
			if got := n.Status.Allocatable[network.resource]; got != "7" {
				return fmt.Errorf("node %s offers %q of %s", n.Metadata.Name, got, network.resource)
			}
		}
	}
	return nil
}

// list has the fields of nodes and pods that the demo reads.
type list struct {
	Items []item `json:"items"`
}

type item struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		PodIP       netip.Addr        `json:"podIP"`
		Allocatable map[string]string `json:"allocatable"`
	} `json:"status"`
}

// vfAddresses returns the pods' addresses on VF networks, by their network-status.
func (l list) vfAddresses() (map[string][]netip.Addr, error) {
	all := make(map[string][]netip.Addr)
	for _, pod := range l.Items {
		var networks []struct {
			Default bool         `json:"default"`
			IPs     []netip.Addr `json:"ips"`
		}
		text := pod.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"]
		if err := json.Unmarshal([]byte(text), &networks); err != nil {
			return nil, fmt.Errorf("pod %s: network-status %q: %w", pod.Metadata.Name, text, err)
		}
		for _, n := range networks {
			if !n.Default {
				all[pod.Metadata.Name] = append(all[pod.Metadata.Name], n.IPs...)
			}
		}
		if len(all[pod.Metadata.Name]) == 0 {
			return nil, fmt.Errorf("pod %s has no address on a VF network: %s", pod.Metadata.Name, text)
		}
	}
	return all, nil
}

// addresses waits until the network-status of all pods has their VF's address, which comes after
// their start. It counts the addresses that two pods have.
func (k *kubernetes) addresses(ctx context.Context, selector ...string) (pods list, all map[string][]netip.Addr, err error) {
	err = k.await(ctx, "network-status of all pods", func(ctx context.Context) (err error) {
		pods = list{}
		if err := k.cluster.Get(ctx, &pods, append([]string{"pods"}, selector...)...); err != nil {
			return err
		}
		all, err = pods.vfAddresses()
		return err
	})
	owner := make(map[netip.Addr]string)
	for pod, has := range all {
		for _, a := range has {
			if other, twice := owner[a]; twice {
				k.found.DuplicateAddresses++
				k.noteProblem("%s is the address of pods %s and %s", a, pod, other)
			}
			owner[a] = pod
		}
	}
	return pods, all, err
}

// runReport applies R0's objects, measures between its pods, and deletes them.
func (k *kubernetes) runReport(ctx context.Context) error {
	k.Step("kubectl apply -f r0-xl710.yaml: report R0's network and pods, as they stand")
	objects := func(args ...string) error {
		_, err := k.cluster.KubectlIn(ctx, bytes.NewReader(reportObjects), append(args, "-f", "-")...)
		return err
	}
	if err := objects("apply"); err != nil {
		return err
	}
	if _, err := k.cluster.Kubectl(ctx, "wait", "--for=condition=Ready", "pod", "--all", "--timeout="+patience.String()); err != nil {
		return err
	}
	if err := k.tell(ctx, "get", "pods", "--output", "wide"); err != nil {
		return err
	}
	pods, addresses, err := k.addresses(ctx)
	if err != nil {
		return err
	}
	ips := make(map[string]netip.Addr)
	for _, p := range pods.Items {
		name := p.Metadata.Name
		fmt.Fprintf(k.Steps, "         %-14s eth0 %-11s net1 %s\n", name, p.Status.PodIP, addresses[name][0])
		ips[name] = p.Status.PodIP
	}
	var places [nodeCount]string // of the pods, which R0 has there by nodeName
	ends := [nodeCount]string{"iperf3-client", "iperf3-server"}
	for i, name := range ends {
		netns, err := k.nodes[i].FindNetns(ctx, ips[name])
		if err != nil {
			return err
		}
		places[i] = k.nodes[i].Place(netns)
		added, err := k.nodes[i].KeepOverlay(ctx, netns, ips[ends[1-i]])
		if err != nil {
			return err
		}
		if added != "" {
			k.Step("ip route add %s in pod %s, whose default route R0's network took", added, name)
		}
	}
	if err := k.measureWays(ctx, places[0], places[1]); err != nil {
		return err
	}
	if err := k.tell(ctx, "get", "nodestates,addresspools"); err != nil {
		return err
	}
	if err := (services{k}).showServices(ctx, addresses["hello-world"][0]); err != nil {
		return err
	}
	k.Step("kubectl delete -f r0-xl710.yaml")
	return objects("delete", "--grace-period=1", "--wait")
}

// burst starts and deletes pods with a VF each, as fast as the cluster can.
func (k *kubernetes) burst(ctx context.Context) error {
	const wave = 25 // of 28 VFs
	start := time.Now()
	for k.found.Pods < k.Attachments {
		count := min(wave, k.Attachments-k.found.Pods)
		k.Step("%d pods with a VF each at once, started and deleted (%d of %d)", count, k.found.Pods+count, k.Attachments)
		var objects strings.Builder
		for i := range count {
			objects.WriteString(podManifest(fmt.Sprintf("burst-%d", i), "", networks[i%len(networks)].name))
		}
		if _, err := k.cluster.KubectlIn(ctx, strings.NewReader(objects.String()), "apply", "-f", "-"); err != nil {
			return err
		}
		if _, err := k.cluster.Kubectl(ctx, "wait", "--for=condition=Ready", "pod", "--selector", "demo", "--timeout="+patience.String()); err != nil {
			return err
		}
		if _, _, err := k.addresses(ctx, "--selector", "demo"); err != nil {
			return err
		}
		if _, err := k.cluster.Kubectl(ctx, "delete", "pod", "--selector", "demo", "--wait"); err != nil {
			return err
		}
		k.found.Pods += count
	}
	k.found.PodsPerMinute = float64(k.found.Pods) / time.Since(start).Minutes()
	return nil
}

// compareVFs compares the VFs once the kubelets have taken down the networks of all pods, which
// they do after the pods' deletion. A VF that a kubelet has not yet returned is no leak.
func (k *kubernetes) compareVFs(ctx context.Context) error {
	if err := k.settle(ctx); err != nil {
		return err
	}
	return k.demo.compareVFs(ctx)
}

// settle waits until all VFs are free.
func (k *kubernetes) settle(ctx context.Context) error {
	k.Step("waiting until the kubelets have taken all pods down")
	return k.await(ctx, "all VFs are free", func(ctx context.Context) error {
		return eachNode(ctx, k.nodes, func(ctx context.Context, _ int, n node.Node) error {
			st, err := k.culvert(ctx, n)
			if err != nil {
				return err
			}
			for _, v := range st.VFs {
				if v.Phase != "free" {
					return fmt.Errorf("%s: VF %s is %s %s", n.Name, v.Name, v.Phase, v.Reason)
				}
			}
			return nil
		})
	})
}

// weigh reads how much memory Culvert's programs have resident.
func (k *kubernetes) weigh(ctx context.Context) error {
	k.found.ResidentMiB = make(map[string]float64)
	for _, n := range k.nodes {
		out, err := n.Run(ctx, "ps", "-e", "-o", "rss=,comm=")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(out)) {
			var kib float64
			var name string
			if _, err := fmt.Sscan(line, &kib, &name); err == nil && strings.HasPrefix(name, "culvert") {
				name = strings.Replace(name, "culvert-control", "culvert-controller", 1) // comm has 15 bytes
				k.found.ResidentMiB[name] = max(k.found.ResidentMiB[name], kib/1024)
			}
		}
	}
	return nil
}

// formatText returns the report for people.
func (r KubernetesResult) formatText(l screen.Look) string {
	var b strings.Builder
	b.WriteString(report.Brief(r.measured, l))
	fmt.Fprintf(&b, "\noverlay %s\n", r.CNI.Title())
	fmt.Fprintf(&b, "ADD     as containerd sees it: %s with the VF; %d without it,\n"+
		"        p50 %.0f ms: the VF adds %.0f ms; its bare kernel work is %.0f ms\n",
		r.Attach, r.Attachments, r.WithoutVF.P50, r.Attach.P50-r.WithoutVF.P50, r.Floor.P50)
	fmt.Fprintf(&b, "API     %.2f requests an attach that its answer waits for, %.2f behind it (%.2f of them NodeStates)\n", r.APIRequests, r.APIWrites, r.APIStates)
	fmt.Fprintf(&b, "pods    %d with a VF each started and deleted, %.0f a minute; %d addresses given twice\n", r.Pods, r.PodsPerMinute, r.DuplicateAddresses)
	b.WriteString(r.Service.text())
	fmt.Fprintf(&b, "VFs     %d made, %d leaked\n", r.VFsCreated, r.Leaked)
	fmt.Fprintf(&b, "memory  culvertd %.0f MiB, culvert-controller %.0f MiB resident\n", r.ResidentMiB["culvertd"], r.ResidentMiB["culvert-controller"])
	fmt.Fprintf(&b, "time    nodes Ready after %.0f s, Culvert installed in %.0f s\n", r.NodesReady, r.Installed)
	b.WriteString(describeMachines(r.Accel, r.WhyNotKVM))
	return b.String()
}

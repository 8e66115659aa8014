//go:build kubernetes

package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/parts"
	"github.com/culvert-net/culvert/test/promises"
)

// byHand is a node with Culvert's image but without Culvert. Its pods get VFs by Multus, the SR-IOV
// CNI plugin, whereabouts and a stand-in for the device plugin.
var byHand = &site{names: []string{"worker1"}, install: installStack, joined: true}

// stackDaemon is a DaemonSet of that stack: its name and what its container runs.
const stackDaemon = `---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %[1]s, namespace: kube-system}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      hostNetwork: true
      serviceAccountName: stack
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers:
      - name: main
        image: docker.io/centos/tools:latest
        imagePullPolicy: Never
        command: [bash, -euc, %[2]q]
        volumeMounts:
        - {name: stack, mountPath: /opt/stack}
        - {name: bin, mountPath: /host/opt/cni/bin}
        - {name: net, mountPath: /host/etc/cni/net.d}
        - {name: kubelet, mountPath: /var/lib/kubelet/device-plugins}
        - {name: scripts, mountPath: /scripts}
        - {name: pools, mountPath: /etc/pcidp}
      volumes:
      - {name: stack, hostPath: {path: /opt/stack}}
      - {name: bin, hostPath: {path: /opt/cni/bin}}
      - {name: net, hostPath: {path: /etc/cni/net.d}}
      - {name: kubelet, hostPath: {path: /var/lib/kubelet/device-plugins}}
      - {name: scripts, configMap: {name: stack}}
      - {name: pools, configMap: {name: sriovdp-config}}
`

const (
	multusScript = `bash -eu /scripts/kubeconfig multus.d
bash -eu /scripts/install multus
cd /host/etc/cni/net.d
echo '{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus", "capabilities": {"portMappings": true},
 "kubeconfig": "/etc/cni/net.d/multus.d/kubeconfig", "clusterNetwork": "/etc/cni/net.d/10-flannel.conflist"}' >.new
mv .new 00-multus.conf
exec sleep infinity`
	whereaboutsScript = `bash -eu /scripts/kubeconfig whereabouts.d
echo '{"datastore": "kubernetes", "kubernetes": {"kubeconfig": "/etc/cni/net.d/whereabouts.d/kubeconfig"}}' >/host/etc/cni/net.d/whereabouts.d/whereabouts.conf
bash -eu /scripts/install whereabouts
exec sleep infinity`
)

// stackDaemons are the DaemonSets, in the order in which a person installs them.
var stackDaemons = []struct{ name, script string }{
	{"kube-multus-ds", multusScript},
	{"whereabouts", whereaboutsScript},
	{"kube-sriov-cni-ds", "bash -eu /scripts/install sriov; exec sleep infinity"},
	{"kube-sriov-device-plugin", "exec /opt/stack/standin"}, // the stand-in
}

// makeVFs is the script of a unit that makes VFs at boot, the last three of one PF for user space.
const makeVFs = `for pf in enp1s0 enp2s0; do
	ip link set $pf up
	until [ "$(cat /sys/class/net/$pf/carrier)" = 1 ]; do sleep 0.2; done
	echo 7 >/sys/class/net/$pf/device/sriov_numvfs
done
udevadm settle
modprobe vfio-pci
for i in 4 5 6; do
	vf=$(basename "$(readlink /sys/class/net/enp2s0/device/virtfn$i)")
	echo vfio-pci >/sys/bus/pci/devices/$vf/driver_override
	[ ! -e /sys/bus/pci/devices/$vf/driver ] || echo $vf >/sys/bus/pci/devices/$vf/driver/unbind
	echo $vf >/sys/bus/pci/drivers_probe
done`

// installStack makes the VFs, and installs the programs and the objects of the stack.
func installStack(ctx context.Context, c *cluster.Cluster) error {
	if err := copyStack(ctx, c); err != nil {
		return err
	}
	if exit, err := c.Lab.Exec(ctx, "worker1", lab.Cmd{Argv: []string{"sh", "-euc", makeVFs}}); err != nil || exit != 0 {
		return fmt.Errorf("make VFs: exit status %d: %w", exit, err)
	}
	types, err := whereaboutsTypes(ctx)
	if err != nil {
		return err
	}
	objects := []string{top + "/dist/kubernetes/network-attachment-definitions.yaml", "testdata/stack.yaml"}
	for _, file := range append(types, objects...) {
		if _, err := c.Kubectl(ctx, "create", "-f", file); err != nil {
			return err
		}
	}
	for _, d := range stackDaemons {
		if _, err := c.KubectlIn(ctx, strings.NewReader(fmt.Sprintf(stackDaemon, d.name, d.script)), "apply", "-f", "-"); err != nil {
			return err
		}
	}
	for _, d := range stackDaemons {
		if _, err := c.Kubectl(ctx, "-n", "kube-system", "rollout", "status", "daemonset/"+d.name, "--timeout="+soon.String()); err != nil {
			return err
		}
	}
	return nil
}

// copyStack copies the programs of the stack to /opt/stack of the node.
func copyStack(ctx context.Context, c *cluster.Cluster) error {
	standin := filepath.Join(c.Lab.Folder(), "standin")
	build := exec.CommandContext(ctx, top+"/tools/go", "build", "-o", standin, "./standin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the stand-in: %w: %s", err, out)
	}
	programs := map[string]string{"standin": standin}
	for name, program := range map[string]string{"multus": "multus", "sriov-cni": "sriov", "whereabouts": "cmd"} {
		dir, err := parts.Find(ctx, top, name, quiet)
		if err != nil {
			return err
		}
		programs[strings.TrimSuffix(name, "-cni")] = filepath.Join(dir, program)
	}
	if exit, err := c.Lab.Exec(ctx, "worker1", lab.Cmd{Argv: []string{"mkdir", "-p", "/opt/stack"}}); err != nil || exit != 0 {
		return fmt.Errorf("make /opt/stack: exit status %d: %w", exit, err)
	}
	for name, from := range programs {
		if err := c.Lab.Copy(ctx, "worker1", from, "/opt/stack/"+name); err != nil {
			return err
		}
	}
	return nil
}

// whereaboutsTypes lists the files with the CRDs of whereabouts, which are in its module.
func whereaboutsTypes(ctx context.Context) ([]string, error) {
	const module = "github.com/k8snetworkplumbingwg/whereabouts"
	var dir []byte
	for _, args := range [][]string{{"mod", "download", module}, {"list", "-m", "-f", "{{.Dir}}", module}} {
		cmd := exec.CommandContext(ctx, "../../../tools/go", args...)
		cmd.Dir = top + "/test/tools/whereabouts"
		var err error
		if dir, err = cmd.Output(); err != nil {
			return nil, fmt.Errorf("find the types of whereabouts: %w", err)
		}
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "doc/crds/whereabouts.cni.cncf.io_*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("the types of whereabouts are not in %s", dir)
	}
	return files, err
}

// podWith is a pod that requests one VF of a resource, as people write it without Culvert's webhook.
func podWith(name, network, resource string) string {
	one := fmt.Sprintf("command: [sleep, infinity], resources: {limits: {%s: 1}}}", resource)
	return strings.Replace(pod(name, "worker1", network), "command: [sleep, infinity]}", one, 1)
}

// pageRun runs the commands of a page in a folder of its own.
type pageRun struct {
	*testing.T
	dir      string
	commands []string
}

// newPageRun takes the commands of a section of docs/migrate.md. It writes the files that the
// section shows, with the names of this cluster's NICs.
func newPageRun(t *testing.T, section string) *pageRun {
	t.Helper()
	text, err := os.ReadFile(top + "/docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## "+section+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	isBlock := func(s string) bool { return strings.Contains(rest, "    "+s) } // other commands are only named in sentences
	p := &pageRun{T: t, dir: t.TempDir()}
	for _, command := range promises.Commands(rest) {
		if isBlock(command) {
			p.commands = append(p.commands, command)
		}
	}
	for _, m := range regexp.MustCompile("(?s)```yaml\n *# (\\S+)\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		body := strings.ReplaceAll(strings.ReplaceAll(m[2], "\n   ", "\n"), "enp1s0f*", "enp*s0")
		if err := os.WriteFile(filepath.Join(p.dir, m[1]), []byte(strings.TrimPrefix(body, "   ")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"culvert": from + "/build/bin/culvert", "dist": from + "/dist"} {
		if err := os.Symlink(target, filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run runs the next command of the page, which must contain a text. It runs the command on the node
// if the page says so.
func (p *pageRun) run(has string) string {
	p.Helper()
	if len(p.commands) == 0 || !strings.Contains(p.commands[0], has) {
		p.Fatalf("the page goes on with %q, where this test expects %q", p.commands, has)
	}
	command := p.commands[0]
	p.commands = p.commands[1:]
	if strings.Contains(command, "/etc/cni/net.d") {
		return on(p.T, "worker1", command)
	}
	out, err := p.shell(command)
	if err != nil {
		p.Fatalf("%s: %v\n%s\n%s", command, err, out, state())
	}
	p.Logf("%s: %s\n%s", time.Now().Format(time.TimeOnly), command, out)
	return out
}

// shell runs a command as a reader types it.
func (p *pageRun) shell(command string) (string, error) {
	ctx, cancel := context.WithTimeout(p.Context(), soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command)
	cmd.WaitDelay = time.Second
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k8s.Kubeconfig, "PATH="+p.dir+":"+k8s.Parts.Kubernetes+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// traffic is a ping from one pod to another, ten times a second, until stop.
type traffic struct {
	t    *testing.T
	name string
	stop func() string
}

// startTraffic begins a ping in a pod. The lines of its output have the time when each answer came.
func startTraffic(t *testing.T, from string, to netip.Addr) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ping := k8s.KubectlCommand(ctx, "exec", "-i", from, "--", "bash", "-c", fmt.Sprintf("ping -D -i 0.1 %s & read; kill -INT $!; wait $!", to))
	in, err := ping.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ping.Stdout, ping.Stderr = &out, &out
	if err := ping.Start(); err != nil {
		t.Fatal(err)
	}
	return &traffic{t, from + " to " + to.String(), func() string {
		fmt.Fprintln(in)
		if err := ping.Wait(); err != nil {
			t.Errorf("ping from %s: %v", from, err)
		}
		return out.String()
	}}
}

// requireNoGap ends the ping, and fails the test if traffic stood still for longer than most. It
// logs that time, and how long the pod itself sent nothing: an emulated node with a busy processor
// stops all its pods for seconds, in which nothing is lost.
func (r *traffic) requireNoGap(most time.Duration) {
	r.t.Helper()
	out := r.stop()
	answers := parseAnswers(r.t, out)
	if len(answers) < 50 {
		r.t.Fatalf("ping %s: %d answers:\n%s", r.name, len(answers), out)
	}
	still, silent := standstill(answers)
	summary := strings.TrimSpace(out[strings.LastIndex(out, "---\n")+4:])
	took := answers[len(answers)-1].sent - answers[0].sent
	r.t.Logf("traffic %s: stood still for %.2f s at most in %.0f s (the pod sent nothing for %.2f s at most); %s", r.name, still, took, silent, strings.ReplaceAll(summary, "\n", "; "))
	if still > most.Seconds() {
		r.t.Errorf("traffic %s stood still for %.2f s", r.name, still)
	}
}

// answer is an answer to a ping: its number, when the ping was sent, and how long the answer took,
// in s.
type answer struct {
	number     int
	sent, took float64
}

// answered matches a line of ping -D, which begins with the time when the answer came.
var answered = regexp.MustCompile(`(?m)^\[([0-9.]+)\] [0-9]+ bytes from .* icmp_seq=([0-9]+) .* time=([0-9.]+) ms`)

func parseAnswers(t *testing.T, out string) (all []answer) {
	t.Helper()
	for _, m := range answered.FindAllStringSubmatch(out, -1) {
		came, err := strconv.ParseFloat(m[1], 64)
		number, err2 := strconv.Atoi(m[2])
		took, err3 := strconv.ParseFloat(m[3], 64)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		all = append(all, answer{number, came - took/1000, took / 1000})
	}
	return all
}

// standstill returns the longest time in which traffic stood still: the delay of an answer or, if
// pings had no answer, the time between the answered pings around them. silent is the longest time
// in which the pod sent nothing.
func standstill(answers []answer) (still, silent float64) {
	for i, a := range answers {
		still = max(still, a.took)
		if i == 0 {
			continue
		}
		before := answers[i-1]
		if a.number == before.number+1 {
			silent = max(silent, a.sent-before.sent)
		} else {
			still = max(still, a.sent-before.sent)
		}
	}
	return still, silent
}

// A ping that was not answered is lost if a later one was answered. Answers may overtake each other.
func TestFindLost(t *testing.T) {
	for _, c := range []struct {
		numbers []int
		sent    int
		want    string
	}{
		{[]int{1, 3, 2, 4}, 4, ""}, {[]int{1, 2}, 12, ""}, {[]int{1, 2}, 13, "the last 11 pings have no answer"},
		{nil, 3, "no ping was answered, or ping did not end"}, {[]int{1}, 0, "no ping was answered, or ping did not end"},
		{[]int{2, 5}, 5, "pings without an answer: 1 3 4"},
	} {
		var answers []answer
		for _, n := range c.numbers {
			answers = append(answers, answer{number: n})
		}
		out := "PING 10.0.0.1\n"
		if c.sent > 0 {
			out += fmt.Sprintf("\n--- 10.0.0.1 ping statistics ---\n%d packets transmitted, 1 received\n", c.sent)
		}
		if got := findLost(out, answers); got != c.want {
			t.Errorf("%v of %d: %q, want %q", c.numbers, c.sent, got, c.want)
		}
	}
}

// Pings without an answer and late answers are a standstill; a sender that is stopped is none.
func TestStandstill(t *testing.T) {
	lines := func(answers ...answer) (out string) {
		for _, a := range answers {
			out += fmt.Sprintf("[%.6f] 64 bytes from 10.0.0.1: icmp_seq=%d ttl=64 time=%.1f ms\n", a.sent+a.took, a.number, a.took*1000)
		}
		return out
	}
	for _, c := range []struct {
		answers       []answer
		still, silent float64
	}{
		{[]answer{{1, 1700000000, 0.001}, {2, 1700000000.1, 0.5}, {3, 1700000003, 0.002}}, 0.5, 2.9},
		{[]answer{{1, 1700000000, 0.001}, {2, 1700000000.1, 0.001}, {13, 1700000001.2, 0.001}}, 1.1, 0.1},
	} {
		still, silent := standstill(parseAnswers(t, "PING 10.0.0.1\n"+lines(c.answers...)+"\n--- statistics ---\n"))
		if math.Abs(still-c.still) > 0.001 || math.Abs(silent-c.silent) > 0.001 {
			t.Errorf("%v: stood still for %.3f s, silent for %.3f s", c.answers, still, silent)
		}
	}
}

// allocations lists the addresses that whereabouts has given out of network shared.
func allocations(t *testing.T) []string {
	t.Helper()
	return strings.Fields(kubectl(t, "-n", "kube-system", "get", "ippools.whereabouts.cni.cncf.io", "10.71.0.0-24", "-o", `go-template={{range $k, $v := .spec.allocations}}{{$k}} {{end}}`))
}

// requireAllocations waits until whereabouts has given out so many addresses.
func requireAllocations(t *testing.T, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("whereabouts has given out %d addresses", want), func() error {
		if got := allocations(t); len(got) != want {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// offerAll waits until the node offers all VFs of the stack's pools.
func offerAll(t *testing.T) {
	t.Helper()
	for resource, want := range map[string]string{"intel.com/uplink": "7", "intel.com/backup": "4", "intel.com/dpdk": "3"} {
		offered(t, resource, want)
	}
}

// make soak sets migration: the test takes minutes. The short form, in make test, is cmd/culvert's
// TestMigrationPage, which runs the page's commands against an API server.
var migration = flag.Bool("migration", false, "run TestMigrationKeepsTraffic, on a cluster of its own")

// A cluster with Multus, the SR-IOV CNI plugin, whereabouts and a device plugin migrates to Culvert
// and back, by the unchanged commands of docs/migrate.md. Running pods keep their VFs, their
// addresses and their traffic; no new pod gets an address of a running one. whereabouts serves its
// network beside Multus and without it. Programs in user space keep the VFs that they have open.
func TestMigrationKeepsTraffic(t *testing.T) {
	if !*migration {
		t.Skip("make soak runs it: it takes minutes (-args -migration)")
	}
	need(t, byHand)
	page := newPageRun(t, "From Multus and the plugins, by hand")
	kubectl(t, "create", "-f", "testdata/stack-networks.yaml")
	offerAll(t)
	user := startUserSpace(t)
	feed(t, podWith("old-a", "uplink", "intel.com/uplink")+podWith("old-b", "backup", "intel.com/backup")+podWith("old-w", "shared", "intel.com/uplink"), "apply", "-f", "-")
	before := distinct(t, running(t, 3))
	kubectl(t, "exec", "old-a", "--", "ping", "-c", "2", "-W", "10", before["old-b"].String())
	flow := startTraffic(t, "old-a", before["old-b"])
	began := time.Now()

	if out, err := page.shell("culvert migrate plan"); err != nil { // status 2: a network or pod would not work
		t.Fatalf("culvert migrate plan: %v\n%s", err, out)
	}
	page.run("get daemonset")
	page.run("delete daemonset kube-sriov-device-plugin")
	page.run("delete daemonset kube-sriov-cni-ds")
	page.run("apply --server-side")
	page.run("rollout status")
	page.run("rollout status")
	page.run("apply -f policy.yaml")
	page.run("culvert migrate check")
	t.Logf("Culvert's after %s", time.Since(began).Round(time.Second))
	offerAll(t)
	user.requireKept()
	feed(t, podWith("new-a", "uplink", "intel.com/uplink")+podWith("new-w", "shared", "intel.com/uplink"), "apply", "-f", "-")
	distinct(t, running(t, 5))
	kubectl(t, "exec", "new-a", "--", "ping", "-c", "3", "-W", "10", before["old-b"].String())
	requireAllocations(t, 2)
	kubectl(t, "delete", "pod", "old-w", "--wait")
	requireAllocations(t, 1)

	page.run("delete daemonset kube-multus-ds")
	page.run("rm /etc/cni/net.d/00-multus.conf")
	page.run("00-culvert.conflist")
	alone := podWith("alone-a", "uplink", "intel.com/uplink") + podWith("alone-v", "shared", "intel.com/uplink") + podWith("alone-w", "shared", "intel.com/uplink")
	feed(t, alone, "apply", "-f", "-")
	distinct(t, running(t, 7))
	requireAllocations(t, 3)
	kubectl(t, "delete", "pod", "alone-v", "--wait")
	requireAllocations(t, 2)
	kubectl(t, "delete", "pod", "new-w", "--wait")
	requireAllocations(t, 1)
	flow.requireNoGap(time.Second)
	user.requireHandedOn()
	for name, a := range before {
		if name != "old-w" && kernelAddress(t, name) != a {
			t.Errorf("pod %s has %s, and had %s", name, kernelAddress(t, name), a)
		}
	}

	goBack(t, page, before["old-b"], user)
}

// goBack runs the commands of the way back. It checks that pods from before and after the time with
// Culvert work, and that nothing is left of the pods from that time.
func goBack(t *testing.T, page *pageRun, oldB netip.Addr, user *userSpace) {
	t.Helper()
	flow := startTraffic(t, "old-a", oldB)
	list := page.run("vf list --cluster --phase attached")
	for name, want := range map[string]bool{"default/new-a": true, "default/alone-a": true, "default/alone-w": true, "user-space/new-net": true, "user-space/next": false, "default/old-a": false} {
		if strings.Contains(list, name+" ") != want {
			t.Errorf("pod %s is listed among those that have VFs from Culvert: %v, want %v:\n%s", name, !want, want, list)
		}
	}
	page.run("kubectl cordon")
	if want := "kubectl delete pods ..."; page.commands[0] != want {
		t.Fatalf("the page goes on with %q, and this test with %q", page.commands, want)
	}
	page.commands = page.commands[1:]
	kubectl(t, "delete", "pods", "new-a", "alone-a", "alone-w", "--wait")
	user.end("new-net")
	requireAllocations(t, 0)
	page.run("delete -f dist/kubernetes/culvert.yaml")
	page.run("create -f daemonsets.yaml")
	kubectl(t, "-n", "kube-system", "rollout", "status", "daemonset/kube-multus-ds", "--timeout="+soon.String())
	offerAll(t)
	flow.requireNoGap(time.Second)
	user.requireBack()
	if page.run("kubectl uncordon"); len(page.commands) > 0 {
		t.Fatalf("the page goes on with %q", page.commands)
	}
	if failed := kubectl(t, "get", "events", "-A", "--field-selector", "reason=FailedKillPod", "-o", "jsonpath={.items[*].message}"); strings.Contains(failed, "DelegateDel") {
		t.Errorf("Multus could not end pods: %s", failed)
	}
	feed(t, podWith("back-a", "uplink", "intel.com/uplink")+podWith("back-w", "shared", "intel.com/uplink"), "apply", "-f", "-")
	all := distinct(t, running(t, 4))
	kubectl(t, "exec", "back-a", "--", "ping", "-c", "3", "-W", "10", all["old-b"].String())
	if files := on(t, "worker1", "ls -l /opt/cni/bin; ls /etc/cni/net.d"); strings.Contains(files, "culvert") {
		t.Errorf("Culvert left its files:\n%s", files)
	}
	kubectl(t, "delete", "pods", "--all", "--wait")
	requireAllocations(t, 0)
	there = nil // it is of no use to other tests
}

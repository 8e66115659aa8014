package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// networks are the demo's own, one for each pool. Their pods get the resource
// from the webhook.
var networks = [...]struct{ name, resource, subnet string }{
	{"first", poolName, "10.99.0.0/16"},
	{"second", "intel.com/second", "10.98.0.0/16"},
}

// addNetworks makes the networks of the pods that are timed and counted.
func (k *kubernetes) addNetworks(ctx context.Context) error {
	var objects strings.Builder
	for _, n := range networks {
		fmt.Fprintf(&objects, `---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: %[1]s, annotations: {k8s.v1.cni.cncf.io/resourceName: %[2]s}}
spec:
  config: '{"cniVersion": "1.0.0", "name": "%[1]s", "type": "culvert", "ipam": {"type": "host-local", "subnet": "%[3]s"}}'
`, n.name, n.resource, n.subnet)
	}
	_, err := k.cluster.KubectlIn(ctx, strings.NewReader(objects.String()), "apply", "-f", "-")
	return err
}

// podManifest returns the manifest of a pod that waits for its deletion. node and network are
// left out if they are empty.
func podManifest(name, node, network string) string {
	where, networks := "", "{}"
	if node != "" {
		where = "nodeName: " + node
	}
	if network != "" {
		networks = "{k8s.v1.cni.cncf.io/networks: " + network + "}"
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {demo: ""}, annotations: %s}
spec:
  %s
  terminationGracePeriodSeconds: 0
  enableServiceLinks: false
  automountServiceAccountToken: false
  containers: [{name: main, image: localhost/pause:1, imagePullPolicy: Never}]
`, name, networks, where)
}

// timePods starts pods one after the other on each node, with a VF and without
// in turns, and reads from containerd how long their networks took.
func (k *kubernetes) timePods(ctx context.Context) error {
	k.found.Attachments = k.Attachments
	k.Step("starting pods one after the other on each node, %d with a VF and %d without, in turns", k.Attachments, k.Attachments)
	if err := k.addNetworks(ctx); err != nil {
		return err
	}
	since := time.Now()
	var mu sync.Mutex // guards all, and done
	var all = map[string][]time.Duration{}
	done := 0
	err := eachNode(ctx, k.nodes, func(ctx context.Context, _ int, n node.Node) error {
		for i := n.Number; i <= k.Attachments; i += nodeCount {
			for _, network := range []string{networks[0].name, ""} {
				took, err := k.timePod(ctx, n, network)
				if err != nil {
					return err
				}
				mu.Lock()
				all[network] = append(all[network], took)
				if done++; done%20 == 0 {
					fmt.Fprintf(k.Steps, "         %d of %d\n", done, 2*k.Attachments)
				}
				mu.Unlock()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if k.result.Attach, err = bench.Latency(all[networks[0].name]); err != nil {
		return err
	}
	if k.found.WithoutVF, err = bench.Latency(all[""]); err != nil {
		return err
	}
	return k.countRequests(since)
}

// withoutVF is the beginning of the names of pods whose network-status no attach causes.
const withoutVF = "timed-plain-"

func (k *kubernetes) timePod(ctx context.Context, n node.Node, network string) (time.Duration, error) {
	name := "timed-" + n.Name
	if network == "" {
		name = withoutVF + n.Name
	}
	for try := 1; ; try++ {
		before, err := setUps(ctx, n)
		if err != nil {
			return 0, err
		}
		if _, err := k.cluster.KubectlIn(ctx, strings.NewReader(podManifest(name, n.Name, network)), "create", "-f", "-"); err != nil {
			return 0, err
		}
		// The pod's sandbox has its networks then. The time of its containers does not count here.
		if _, err := k.cluster.Kubectl(ctx, "wait", "--for=condition=PodReadyToStartContainers", "pod/"+name, "--timeout="+patience.String()); err != nil {
			return 0, err
		}
		after, err := setUps(ctx, n)
		if err != nil {
			return 0, err
		}
		if _, err = k.cluster.Kubectl(ctx, "delete", "pod", name, "--wait"); err != nil {
			return 0, err
		}
		switch count := after.count - before.count; {
		case count == 1:
			return after.total - before.total, nil
		case try == 3:
			return 0, fmt.Errorf("containerd of %s set up %d networks of pods where one was started", n.Name, count)
		default: // a busy node may need several tries for a sandbox, and containerd counts those that failed, too
			k.Step("once more: containerd of %s set up %d networks of pods where one was started", n.Name, count)
		}
	}
}

// setUp has containerd's counts of pods' networks.
type setUp struct {
	count int
	total time.Duration
}

// setUps asks a node's containerd for its metrics.
func setUps(ctx context.Context, n node.Node) (setUp, error) {
	out, err := n.Run(ctx, "curl", "--silent", "--fail", "http://127.0.0.1:1338/v1/metrics")
	if err != nil {
		return setUp{}, err
	}
	return parseSetUps(string(out))
}

// parseSetUps reads metrics in Prometheus' text format. Before the first pod the counts are not
// among them.
func parseSetUps(metrics string) (s setUp, err error) {
	const prefix = "containerd_cri_network_plugin_operations_duration_seconds_seconds_"
	for line := range strings.Lines(metrics) {
		what, ok := strings.CutPrefix(line, prefix)
		if !ok || !strings.Contains(what, `operation_type="set_up_pod"`) {
			continue
		}
		name, _, _ := strings.Cut(what, "{")
		_, text, _ := strings.Cut(strings.TrimSpace(what), "} ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return s, fmt.Errorf("containerd's metrics: %q: %w", line, err)
		}
		switch name {
		case "sum":
			s.total = time.Duration(value * float64(time.Second))
		case "count":
			s.count = int(value)
		}
	}
	return s, nil
}

// countRequests counts culvertd's requests since then in the API server's audit log. culvertd's
// answer to the runtime waits for reads of a pod or network that its informers do not have yet.
// After the answer it writes the pod's network-status, its events, and the node's NodeState, which
// many attaches share.
func (k *kubernetes) countRequests(since time.Time) error {
	f, err := os.Open(k.cluster.AuditLog)
	if err != nil {
		return err
	}
	defer f.Close()
	waits, writes, states := 0, 0, 0
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if err != nil && len(line) == 0 {
			break
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read %s: %w", filepath.Base(k.cluster.AuditLog), err)
		}
		if e.Stage != "ResponseComplete" || e.Received.Before(since) || e.User.Name != "system:serviceaccount:"+cluster.Namespace+":culvertd" {
			continue
		}
		switch {
		case e.Verb == "get" && (e.Object.Resource == "pods" || e.Object.Resource == "network-attachment-definitions"):
			waits++
		case e.Verb != "patch" && e.Verb != "update" && e.Verb != "create", strings.HasPrefix(e.Object.Name, withoutVF):
		case e.Object.Resource == "nodestates":
			states++
			fallthrough
		default:
			writes++
		}
	}
	k.found.APIStates = float64(states) / float64(k.Attachments)
	k.found.APIRequests = float64(waits) / float64(k.Attachments)
	k.found.APIWrites = float64(writes) / float64(k.Attachments)
	return nil
}

// auditEvent is the part of an audit.k8s.io/v1 Event that is counted.
type auditEvent struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	User  struct {
		Name string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource string `json:"resource"`
		Name     string `json:"name"`
	} `json:"objectRef"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

//go:build kubernetes

package kubernetes

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab/cluster"
)

// r0ByClaim runs a pod of report R0 that the scheduler places, with its network and unchanged, while its
// resource is offered to claims only.
func r0ByClaim(t *testing.T) {
	t.Helper()
	all, err := os.ReadFile(top + "/lab/demo/testdata/r0-xl710.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var objects []string
	for _, o := range strings.Split(string(all), "\n---\n") {
		if strings.Contains(o, "kind: NetworkAttachmentDefinition") || strings.Contains(o, "name: hello-world\n") && strings.Contains(o, "kind: Pod") {
			objects = append(objects, o)
		}
	}
	apply(t, strings.Join(objects, "\n---\n"))
	ready(t, "pod/hello-world")
	request := kubectl(t, "get", "pod", "hello-world", "-o", "jsonpath={.status.extendedResourceClaimStatus.requestMappings[0].requestName}")
	wantClaimed(t, "hello-world", "net1", "resourceclaims/"+claimOf(t, "hello-world")+"/"+request)
	if env := kubectl(t, "exec", "hello-world", "--", "env"); !strings.Contains(env, "PCIDEVICE_INTEL_COM_INTEL_SRIOV_NETDEVICE=0000:") {
		t.Errorf("pod hello-world has no PCIDEVICE_ variable:\n%s", env)
	}
	kubectl(t, "delete", "pod", "hello-world", "--grace-period=1", "--wait")
}

// compareReady logs the time from the creation of a pod until it is ready, and culvertd's writes to the API
// server, with a VF by a claim and by the device plugin. The pods come one after the other.
func compareReady(t *testing.T) {
	t.Helper()
	const times = 3
	arms := []readyArm{
		{name: "claim", objects: claimingPod("ready", "worker02", "resourceClaimTemplateName: keys")},
		{name: "device plugin", objects: pod("ready", "", "plugged")},
	}
	for range times {
		for i := range arms { // in turns, since other work on the machine comes and goes
			arms[i].measure(t)
		}
	}
	for _, a := range arms {
		slices.Sort(a.took)
		t.Logf("%d pods by %s: ready after %.1f s in the median, from %.1f s to %.1f s; culvertd wrote %v", times, a.name,
			((a.took[times/2-1] + a.took[times/2]) / 2).Seconds(), a.took[0].Seconds(), a.took[times-1].Seconds(), a.writes)
	}
}

// readyArm is one way for a pod to get its VF.
type readyArm struct {
	name, objects string
	took          []time.Duration
	writes        map[string]int // of culvertd, by resource
}

// measure makes a pod and deletes it.
func (a *readyArm) measure(t *testing.T) {
	t.Helper()
	asked, began := len(auditLog(t)), time.Now()
	feed(t, a.objects, "create", "-f", "-")
	ready(t, "pod/ready")
	a.took = append(a.took, time.Since(began))
	feed(t, a.objects, "delete", "--wait", "--grace-period=1", "-f", "-") // the kubelet deletes it after Unprepare
	if a.writes == nil {
		a.writes = map[string]int{}
	}
	for _, r := range auditLog(t)[asked:] {
		if strings.HasSuffix(r.User.Username, ":culvertd") && slices.Contains([]string{"create", "update", "patch"}, r.Verb) {
			a.writes[r.Object.Resource]++
		}
	}
}

// restartBetween restarts the kubelet after a claim is prepared and before the pod has a sandbox, which
// waits for a network that is not there yet. The pod then starts with the VF that the claim has.
func restartBetween(t *testing.T) {
	t.Helper()
	const claim = `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: early}
spec:
  devices:
    requests: [{name: vf, exactly: {deviceClassName: netdevice.culvert.dev}}]
    config: [{opaque: {driver: culvert.dev, parameters: {apiVersion: culvert.dev/v1alpha1, kind: VFConfig, network: later}}}]
`
	const network = `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: later, annotations: {k8s.v1.cni.cncf.io/resourceName: intel.com/intel_sriov_netdevice}}
spec:
  config: '{"cniVersion": "1.0.0", "name": "later", "type": "culvert", "ipam": {"type": "culvert", "poolOf": "default/claimed"}}'
`
	apply(t, claim)
	early := claimingPod("early", "worker01", "resourceClaimName: early")
	apply(t, early)
	prepared := func(t *testing.T) (vf string) {
		t.Helper()
		eventually(t, "claim early is prepared", func() error {
			out, err := tryOn("worker01", "culvert vf list")
			if vf = regexp.MustCompile(`(?m)^\S+.*prepared.*claim default/early`).FindString(out); err == nil && vf == "" {
				err = errors.New(out)
			}
			return err
		})
		return strings.Fields(vf)[0]
	}
	before := prepared(t)
	on(t, "worker01", "systemctl restart kubelet")
	if after := prepared(t); after != before {
		t.Errorf("claim early has VF %s, and had %s before the kubelet was restarted", after, before)
	}
	apply(t, network)
	ready(t, "pod/early")
	wantClaimed(t, "early", "net1", "resourceclaims/early/vf")
	feed(t, early, "delete", "--wait", "-f", "-")
}

// awayTooLong takes culvertd away until the kubelets delete its slices, 30 s later. They come back with it,
// and a pod keeps its VF.
func awayTooLong(t *testing.T) {
	t.Helper()
	nowhere := func(value string) {
		t.Helper()
		kubectl(t, "-n", cluster.Namespace, "patch", "daemonset", "culvertd", "--patch", `{"spec": {"template": {"spec": {"nodeSelector": {"culvert.dev/nowhere": `+value+`}}}}}`)
	}
	nowhere(`"yes"`)
	inSlices(t, 0)
	nowhere("null")
	inSlices(t, claimed)
	ready(t, "pod/near", "pod/far")
	wantClaimed(t, "near", "net1", "resourceclaims/two/net")
}

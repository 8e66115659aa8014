package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
)

// The places of plugins and network configurations on a node of a cluster.
const (
	pluginDir      = "/opt/cni/bin"
	confDir        = "/etc/cni/net.d"
	defaultNetwork = confDir + "/10-flannel.conflist"
)

// A podRuntime sets up the networks of one pod as containerd does, by libcni.
type podRuntime struct {
	list *libcni.NetworkConfigList
	cni  *libcni.CNIConfig
	pod  string // in the namespace default
	has  []string
}

// multusConfig returns the configuration that Multus' DaemonSet writes, with the account that it
// makes.
func multusConfig() []byte {
	return fmt.Appendf(nil, `{"cniVersion": "0.3.1", "name": "multus-cni-network", "plugins": [{"type": "multus",
		"capabilities": {"portMappings": true}, "kubeconfig": %q, "clusterNetwork": %q}]}`, filepath.Join(cluster, "multus.kubeconfig"), defaultNetwork)
}

// runtimes returns the ways to a pod's networks that the benchmark compares: Culvert and Multus,
// each with the default network and a VF, and the default network alone.
func (n *node) runtimes() (culvert, chain, plain *podRuntime, err error) {
	quiet := &invoke.DefaultExec{RawExec: &invoke.RawExec{}} // whereabouts logs to standard error
	cni := libcni.NewCNIConfigWithCacheDir([]string{pluginDir}, filepath.Join(n.dir, "cni"), quiet)
	both := []string{"eth0", ifName}
	first, err := libcni.ConfListFromFile(filepath.Join(confDir, "00-culvert.conflist"))
	if err != nil {
		return nil, nil, nil, err
	}
	multus, err := libcni.ConfListFromBytes(multusConfig())
	if err != nil {
		return nil, nil, nil, err
	}
	flannel, err := libcni.ConfListFromFile(defaultNetwork)
	if err != nil {
		return nil, nil, nil, err
	}
	return &podRuntime{first, cni, "culvert", both}, &podRuntime{multus, cni, "chain", both}, &podRuntime{flannel, cni, "chain", both[:1]}, nil
}

func (r *podRuntime) conf(pod int) (*libcni.RuntimeConf, error) {
	uid, err := os.ReadFile(filepath.Join(cluster, r.pod+".uid"))
	id := fmt.Sprintf("bench-%s-%d", r.list.Name, pod)
	return &libcni.RuntimeConf{
		ContainerID: id, NetNS: podNetns(pod), IfName: "eth0",
		Args: [][2]string{
			{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", r.pod},
			{"K8S_POD_INFRA_CONTAINER_ID", id}, {"K8S_POD_UID", string(uid)},
		},
	}, err
}

func (r *podRuntime) add(pod int) error {
	conf, err := r.conf(pod)
	if err == nil {
		_, err = r.cni.AddNetworkList(context.Background(), r.list, conf)
	}
	return err
}

func (r *podRuntime) del(pod int) error {
	conf, err := r.conf(pod)
	if err == nil {
		err = r.cni.DelNetworkList(context.Background(), r.list, conf)
	}
	return err
}

// try adds a pod once and looks whether its interfaces have their addresses. It also leaves
// behind the parts that only the first pod of a node has to make, such as Flannel's bridge.
func (r *podRuntime) try() error {
	if err := r.add(0); err != nil {
		return err
	}
	out, err := exec.Command("nsenter", "--net="+podNetns(0), "ip", "-4", "-oneline", "address").CombinedOutput()
	if err != nil {
		return fmt.Errorf("look into %s: %w: %s", podNetns(0), err, out)
	}
	for _, name := range r.has {
		if !strings.Contains(string(out), " "+name+" ") {
			return fmt.Errorf("%s: pod %s has no address on %s:\n%s", r.list.Name, r.pod, name, out)
		}
	}
	if got := strings.Count(string(out), "\n"); got != len(r.has) {
		return fmt.Errorf("%s: pod %s has %d addresses, not %d:\n%s", r.list.Name, r.pod, got, len(r.has), out)
	}
	return r.del(0)
}

// takePodTurns times the ways to a pod's networks, and the bare kernel work of the VF.
func (n *node) takePodTurns(rounds int) (*turns, error) {
	culvert, chain, plain, err := n.runtimes()
	if err != nil {
		return nil, err
	}
	if !n.tried {
		err := culvert.try()
		if err == nil {
			err = n.freeze(func() error { return errors.Join(plain.try(), chain.try()) })
		}
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, n.log())
		}
		n.tried = true
	}
	t := &turns{}
	for range rounds {
		if err := n.pair(&t.attach, &t.detach, culvert.add, culvert.del); err != nil {
			return nil, fmt.Errorf("culvert: %w\n%s", err, n.log())
		}
		err := n.freeze(func() error {
			return errors.Join(
				n.pair(&t.floorAttach, &t.floorDetach, n.floorAdd, n.floorDel),
				n.pair(&t.plainAttach, &t.plainDetach, plain.add, plain.del),
				n.pair(&t.chainAttach, &t.chainDetach, chain.add, chain.del))
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// over returns the times that a way takes beyond those of the pod's default network alone: the
// cost of the VF.
func over(all, plain []time.Duration) []time.Duration {
	out := make([]time.Duration, len(all))
	for i := range all {
		out[i] = all[i] - plain[i]
	}
	return out
}

// reportPod makes the whole pod's median the benchmark's time. x-faster compares the networks of
// the whole pod, x-faster-vf only what each way takes beyond the default network.
func reportPod(b *testing.B, culvert, chain, plain, floor []time.Duration) {
	b.Helper()
	report(b, culvert)
	vf := over(culvert, plain)
	b.ReportMetric(ratio(chain, culvert), "x-faster-than-chain")
	b.ReportMetric(ratio(over(chain, plain), vf), "x-faster-vf-than-chain")
	b.ReportMetric(ratio(vf, floor), "x-floor")
	b.ReportMetric(float64(median(vf))/1e6, "vf-ms")
}

func podTurns(b *testing.B) *turns {
	b.Helper()
	if cluster == "" {
		b.Skip("this node is of no cluster")
	}
	return host.turnsFor(b, host.takePodTurns)
}

func BenchmarkPodAttach(b *testing.B) {
	t := podTurns(b)
	reportPod(b, t.attach, t.chainAttach, t.plainAttach, t.floorAttach)
}

func BenchmarkPodAttachChain(b *testing.B)   { report(b, podTurns(b).chainAttach) }
func BenchmarkPodAttachDefault(b *testing.B) { report(b, podTurns(b).plainAttach) }
func BenchmarkPodAttachFloor(b *testing.B)   { report(b, podTurns(b).floorAttach) }

func BenchmarkPodDetach(b *testing.B) {
	t := podTurns(b)
	reportPod(b, t.detach, t.chainDetach, t.plainDetach, t.floorDetach)
}

func BenchmarkPodDetachChain(b *testing.B)   { report(b, podTurns(b).chainDetach) }
func BenchmarkPodDetachDefault(b *testing.B) { report(b, podTurns(b).plainDetach) }
func BenchmarkPodDetachFloor(b *testing.B)   { report(b, podTurns(b).floorDetach) }

package doctor

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/kernel/survey"
)

// checkKubernetes looks at what nodes were prepared for by hand (P20).
func checkKubernetes(e *exam) {
	_, running := e.running("kubelet", "containerd", "crio", "k3s-server", "k3s-agent")
	if !running && !slices.ContainsFunc([]string{"kubelet", "containerd", "crio", "k3s"}, e.hasProgram) {
		e.note("kubernetes", host, "not a Kubernetes node: not checked")
		return
	}
	before := len(e.found)
	e.swap()
	for _, m := range []struct{ name, why string }{
		{"br_netfilter", "kube-proxy does not see packets that a bridge passes, so Services fail between pods of one node"},
		{"overlay", "containers' layers are stored by it"},
	} {
		e.nodeModule(m.name, m.why)
	}
	e.sysctl(survey.IPForward, "packets between pods and the network are dropped")
	if e.Host.Modules.Has("br_netfilter") {
		e.sysctl(survey.BridgeCall, "kube-proxy does not see packets that a bridge passes, so Services fail between pods of one node")
		e.sysctl(survey.BridgeCallV6, "the same, for IPv6")
	}
	if e.Host.SELinux == "enforcing" {
		e.note("kubernetes", host, "SELinux is enforcing: a container that opens /dev/vfio needs a policy or privileged (seLinuxOptions)")
	}
	if len(e.found) == before || e.found[len(e.found)-1].Severity == api.SeverityNote && len(e.found) == before+1 && e.Host.SELinux == "enforcing" {
		e.ok("kubernetes", host, "swap, modules, forwarding and SELinux are as a node needs them")
	}
}

func (e *exam) swap() {
	if len(e.Host.Swaps) == 0 {
		return
	}
	f := finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: "the kubelet does not start with swap on, unless it is told to (failSwapOn: false)",
		mend: []string{"swapoff -a", "comment the swap line in /etc/fstab out"}}
	if e.KubeletSwap {
		f.severity, f.why, f.mend = api.SeverityNote, "the kubelet is told to live with it (failSwapOn: false)", nil
	}
	e.add(f, "swap is on: %s", strings.Join(e.Host.Swaps, ", "))
}

func (e *exam) nodeModule(name, why string) {
	m := e.Host.Modules
	switch {
	case m.Has(name), slices.Contains(e.Host.FileSystems, name):
	case !m.Can(name):
		e.add(finding{check: "kubernetes", severity: api.SeverityError, object: host, why: why, mend: []string{e.extraModules()}}, "there is no module %s for the kernel %s", name, e.Host.Release)
	default:
		e.add(finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: why,
			mend: []string{"modprobe " + name, "echo " + name + " >>/etc/modules-load.d/kubernetes.conf"}, change: &Change{Module: name}}, "module %s is not loaded", name)
	}
}

func (e *exam) sysctl(key, why string) {
	value, known := e.Host.Sysctls[key]
	if known && value == "1" {
		return
	}
	if !known {
		e.note("kubernetes", host, "%s is not there to be read", key)
		return
	}
	e.add(finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: why,
		mend:   []string{"sysctl -w " + key + "=1", "echo " + key + "=1 >>/etc/sysctl.d/90-kubernetes.conf"},
		change: &Change{Key: key, Value: "1"}}, "%s is %s, not 1", key, value)
}

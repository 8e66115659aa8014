package doctor

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/survey"
)

// checkKubernetes checks the settings that administrators make by hand when they prepare a node
// (P20).
func checkKubernetes(e *examination) {
	_, running := findRunning(e.Host, "kubelet", "containerd", "crio", "k3s-server", "k3s-agent")
	if e.Role != RoleKubernetes && !running && !hasOneOf(e.Host, "kubelet", "containerd", "crio", "k3s") {
		e.addNote("kubernetes", host, "not a Kubernetes node: not checked")
		return
	}
	before := len(e.found)
	e.checkSwap()
	for _, m := range []struct{ name, why string }{
		{"br_netfilter", "kube-proxy does not see packets that a bridge passes, so Services fail between pods of one node"},
		{"overlay", "containers' layers are stored by it"},
	} {
		e.nodeModule(m.name, m.why)
	}
	e.checkSysctl(survey.IPForward, "packets between pods and the network are dropped")
	if e.Host.Modules.Has("br_netfilter") {
		e.checkSysctl(survey.BridgeCall, "kube-proxy does not see packets that a bridge passes, so Services fail between pods of one node")
		e.checkSysctl(survey.BridgeCallV6, "the same, for IPv6")
	}
	fine := "swap, modules, forwarding and SELinux are as a node needs them"
	if e.Role == RoleKubernetes {
		fine = "swap, modules, forwarding, SELinux, programs, runtime and firewall are as a node needs them"
		e.found = append(e.found, examinePreparation(e.Host)...)
	}
	if len(e.found) == before {
		e.addOK("kubernetes", host, "%s", fine)
	}
	if e.Host.SELinux == "enforcing" {
		e.addNote("kubernetes", host, "SELinux is enforcing: a container that opens /dev/vfio needs a policy or privileged (seLinuxOptions)")
	}
}

func (e *examination) checkSwap() {
	swaps := e.Host.Swaps
	if e.Role == RoleKubernetes && len(swaps) == 0 {
		swaps = e.Host.SwapsAtBoot
	}
	if len(swaps) == 0 {
		return
	}
	f := finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: "the kubelet does not start with swap on, unless failSwapOn is false",
		mend: []string{"swapoff -a", "comment the swap line in /etc/fstab out"}}
	if e.Role == RoleKubernetes {
		f.change = &Change{Swap: true}
	}
	if e.KubeletSwap {
		f.severity, f.why, f.mend, f.change = api.SeverityNote, "the kubelet accepts swap (failSwapOn: false)", nil, nil
	}
	state := "is on"
	if len(e.Host.Swaps) == 0 {
		state = "comes back at the next boot (/etc/fstab)"
	}
	e.addFinding(f, "swap %s: %s", state, strings.Join(swaps, ", "))
}

func (e *examination) nodeModule(name, why string) {
	m := e.Host.Modules
	switch {
	case m.Has(name), slices.Contains(e.Host.FileSystems, name):
	case !m.Can(name):
		e.addFinding(finding{check: "kubernetes", severity: api.SeverityError, object: host, why: why, mend: []string{e.extraModules()}}, "there is no module %s for the kernel %s", name, e.Host.Release)
	default:
		e.addFinding(finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: why,
			mend: []string{"modprobe " + name, "echo " + name + " >>/etc/modules-load.d/kubernetes.conf"}, change: &Change{Module: name}}, "module %s is not loaded", name)
	}
}

func (e *examination) checkSysctl(key, why string) {
	value, known := e.Host.Sysctls[key]
	if known && value == "1" {
		return
	}
	if !known {
		e.addNote("kubernetes", host, "%s is not there to be read", key)
		return
	}
	e.addFinding(finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: why,
		mend:   []string{"sysctl -w " + key + "=1", "echo " + key + "=1 >>/etc/sysctl.d/90-kubernetes.conf"},
		change: &Change{Key: key, Value: "1"}}, "%s is %s, not 1", key, value)
}

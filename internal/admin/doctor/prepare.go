package doctor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
)

// nodePrograms are the programs that kubeadm, the kubelet, kube-proxy and CNI plugins execute on a
// node, with the packages that have them, by the program that installs packages.
var nodePrograms = []struct {
	name     string
	packages map[string]string
}{
	{"tc", map[string]string{aptGet: "iproute2", dnf: "iproute-tc", zypper: "iproute2"}},
	{"conntrack", map[string]string{aptGet: "conntrack", dnf: "conntrack-tools", zypper: "conntrack-tools"}},
	{"iptables", map[string]string{aptGet: "iptables", dnf: "iptables-nft", zypper: "iptables"}},
	{"ethtool", map[string]string{aptGet: "ethtool", dnf: "ethtool", zypper: "ethtool"}},
	{"socat", map[string]string{aptGet: "socat", dnf: "socat", zypper: "socat"}},
}

// checkPrepared checks what a host needs before kubeadm makes it a node, beyond the kernel's
// settings.
func (e *exam) checkPrepared() {
	installer := Installer(e.Host)
	var missing, packages []string
	for _, p := range nodePrograms {
		if !hasProgram(e.Host, p.name) {
			missing, packages = append(missing, p.name), append(packages, p.packages[installer])
		}
	}
	if len(missing) > 0 {
		e.addMissing(strings.Join(packages, " "), "kubeadm's preflight looks for them; kube-proxy and CNI plugins execute them",
			"programs that a node needs are not there: %s", strings.Join(missing, ", "))
	}
	e.checkRuntime(installer)
	e.checkFirewall()
	for _, name := range []string{"kubelet", "kubeadm"} {
		if !hasProgram(e.Host, name) && !hasProgram(e.Host, "k3s") {
			e.addFinding(finding{check: "kubernetes", severity: api.SeverityNote, object: host, why: "distributions do not have it: it comes from a repository of Kubernetes, in the version of the cluster",
				mend: []string{"install kubeadm and kubelet of one version    # or let dist/ansible do so"}}, "%s is not there", name)
		}
	}
}

// addMissing adds a finding about programs that packages of the distribution have.
func (e *exam) addMissing(packages, why, format string, args ...any) {
	f := finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: why}
	if Installer(e.Host) != "" {
		f.mend, f.change = []string{installCommand(e.Host, packages)}, &Change{Packages: packages}
	}
	e.addFinding(f, format, args...)
}

// checkRuntime checks that the host has a container runtime.
func (e *exam) checkRuntime(installer string) {
	if hasOneOf(e.Host, "containerd", "crio", "k3s") {
		return
	}
	const why, what = "the kubelet does not start without one", "there is no container runtime"
	if installer == aptGet {
		e.addMissing("containerd", why, what)
		return
	}
	e.addFinding(finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: why,
		mend: []string{installCommand(e.Host, "cri-o") + "    # or containerd, from a repository that has it"}}, what)
}

// nodePorts are the ports that other nodes and clients reach on a node: the kubelet, NodePorts, and
// VXLAN as Flannel sends it.
var nodePorts = []string{"10250/tcp", "30000-32767/tcp", "8472/udp"}

// checkFirewall checks that firewalld lets the traffic of a node in.
func (e *exam) checkFirewall() {
	if _, runs := findRunning(e.Host, "firewalld"); !runs {
		return
	}
	var closed []string
	for _, port := range nodePorts {
		if !slices.ContainsFunc(e.Host.OpenPorts, func(open string) bool { return coversPort(open, port) }) {
			closed = append(closed, port)
		}
	}
	if len(closed) == 0 {
		return
	}
	f := finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: "the control plane does not reach the kubelet, and pods do not reach those of other nodes",
		change: &Change{Ports: strings.Join(closed, " ")}}
	for _, port := range closed {
		f.mend = append(f.mend, "firewall-cmd --permanent --add-port="+port)
	}
	f.mend = append(f.mend, "firewall-cmd --reload")
	e.addFinding(f, "firewalld runs, and its default zone does not open %s", strings.Join(closed, ", "))
}

// coversPort reports whether an entry of firewalld, such as 10000-20000/tcp, opens a port or a range
// of ports.
func coversPort(open, wanted string) bool {
	first, last, protocol := parsePorts(open)
	from, to, of := parsePorts(wanted)
	return protocol == of && first <= from && to <= last
}

// parsePorts parses 10250/tcp or 30000-32767/tcp. Of a text that is neither it returns a range that
// is empty.
func parsePorts(s string) (first, last int, protocol string) {
	numbers, protocol, _ := strings.Cut(s, "/")
	from, to, isRange := strings.Cut(numbers, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.Atoi(from)
	last, errLast := strconv.Atoi(to)
	if err != nil || errLast != nil {
		return 1, 0, ""
	}
	return first, last, protocol
}

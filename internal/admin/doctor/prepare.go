package doctor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/survey"
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

// examinePreparation finds out what a host lacks before kubeadm makes it a node, beyond the kernel's
// settings.
func examinePreparation(h survey.Host) []Finding {
	return slices.Concat(findMissingPrograms(h), findMissingRuntime(h), findClosedPorts(h), findMissingKubernetes(h))
}

func findMissingPrograms(h survey.Host) []Finding {
	installer := Installer(h)
	var missing, packages []string
	for _, p := range nodePrograms {
		if !hasProgram(h, p.name) {
			missing, packages = append(missing, p.name), append(packages, p.packages[installer])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	f := finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: "kubeadm's preflight looks for them; kube-proxy and CNI plugins execute them"}
	if installer != "" {
		f.mend, f.change = []string{installCommand(h, strings.Join(packages, " "))}, &Change{Packages: strings.Join(packages, " ")}
	}
	return []Finding{f.describe("programs that a node needs are not there: %s", strings.Join(missing, ", "))}
}

// findMissingRuntime finds out whether the host has a container runtime. Only Debian's family has
// a package of one.
func findMissingRuntime(h survey.Host) []Finding {
	if hasOneOf(h, "containerd", "crio", "k3s") {
		return nil
	}
	f := finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: "the kubelet does not start without one"}
	if Installer(h) == aptGet {
		f.mend, f.change = []string{installCommand(h, "containerd")}, &Change{Packages: "containerd"}
	} else {
		f.mend = []string{installCommand(h, "cri-o") + "    # or containerd, from a repository that has it"}
	}
	return []Finding{f.describe("there is no container runtime")}
}

// findMissingKubernetes finds out whether the host has the programs of a cluster's version.
func findMissingKubernetes(h survey.Host) (found []Finding) {
	for _, name := range []string{"kubelet", "kubeadm"} {
		if !hasOneOf(h, name, "k3s") {
			f := finding{check: "kubernetes", severity: api.SeverityNote, object: host, why: "distributions do not have it: it comes from a repository of Kubernetes, in the version of the cluster",
				mend: []string{"install kubeadm and kubelet of one version    # or let dist/ansible do so"}}
			found = append(found, f.describe("%s is not there", name))
		}
	}
	return found
}

// nodePorts are the ports that other nodes and clients reach on a node: the kubelet, NodePorts, and
// VXLAN as Flannel sends it.
func nodePorts() []string { return []string{"10250/tcp", "30000-32767/tcp", "8472/udp"} }

// findClosedPorts finds out whether firewalld lets the traffic of a node in.
func findClosedPorts(h survey.Host) []Finding {
	if _, runs := findRunning(h, "firewalld"); !runs {
		return nil
	}
	closed := slices.DeleteFunc(nodePorts(), func(port string) bool {
		return slices.ContainsFunc(h.OpenPorts, func(open string) bool { return coversPort(open, port) })
	})
	if len(closed) == 0 {
		return nil
	}
	f := finding{check: "kubernetes", severity: api.SeverityWarning, object: host, why: "the control plane does not reach the kubelet, and pods do not reach those of other nodes",
		change: &Change{Ports: strings.Join(closed, " ")}}
	for _, port := range closed {
		f.mend = append(f.mend, "firewall-cmd --permanent --add-port="+port)
	}
	f.mend = append(f.mend, "firewall-cmd --reload")
	return []Finding{f.describe("firewalld runs, and its default zone does not open %s", strings.Join(closed, ", "))}
}

// coversPort reports whether an entry of firewalld, such as 10000-20000/tcp, opens a port or a range
// of ports.
func coversPort(open, wanted string) bool {
	first, last, protocol := parsePorts(open)
	from, to, of := parsePorts(wanted)
	return protocol == of && first <= from && to <= last
}

// parsePorts parses 10250/tcp or 30000-32767/tcp. For any other text it returns a range that
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

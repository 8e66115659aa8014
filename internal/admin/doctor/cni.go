package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// runtimes are the container runtimes and agents. If one of them is there, the CNI folders and the
// preparation of the node matter.
var runtimes = []string{"kubelet", "k3s-server", "k3s-agent", "containerd", "crio", "dockerd"}

// checkCNI looks at the plugin and at the configurations of a container
// runtime.
func checkCNI(e *examination) {
	_, running := findRunning(e.Host, runtimes...)
	installed := hasOneOf(e.Host, runtimes...)
	plugin := slices.Contains(e.CNI.Plugins, netconf.TypeCulvert)
	if !running && !plugin && (!installed || e.CNI.Elsewhere == "") {
		e.addNote("cni", host, "no container runtime runs here, and the CNI plugin is not installed: not checked")
		return
	}
	e.checkPlugin(plugin, running)
	if len(e.CNI.ConfDirs) == 0 && running {
		e.addFinding(finding{check: "cni", severity: api.SeverityWarning, object: "/etc/cni/net.d", why: "the runtime finds no network",
			mend: []string{"mkdir -p /etc/cni/net.d"}}, "there is no folder of network configurations")
	}
	e.checkConfigs()
	e.checkResults()
	if e.CNI.DevicePlugin != "" {
		e.addFinding(finding{check: "cni", severity: api.SeverityWarning, object: e.CNI.DevicePlugin, why: "the SR-IOV device plugin, if it starts, gives out the VFs that Culvert has",
			mend: []string{"remove it; its resourceList becomes pools of /etc/culvert/host.yaml with the same selectors"}}, "there is a configuration of the SR-IOV device plugin")
	}
}

func (e *examination) checkPlugin(there, running bool) {
	dirs := strings.Join(e.CNI.BinDirs, ", ")
	f := finding{check: "cni", severity: api.SeverityError, object: dirs, why: "a runtime runs, and cannot attach a VF"}
	if !running {
		f.severity, f.why = api.SeverityWarning, "the runtime, when it starts, cannot attach a VF"
	}
	switch {
	case !there && e.CNI.Elsewhere != "":
		f.mend = []string{"link it to there"}
		if plainPath(e.CNI.BinDirs[0]) {
			f.mend = []string{fmt.Sprintf("mkdir -p %s && ln -s %s %[1]s/culvert", e.CNI.BinDirs[0], e.CNI.Elsewhere)}
		}
		e.addFinding(f, "the runtime looks for plugins there, and culvert is %s", e.CNI.Elsewhere)
		return
	case !there:
		f.mend = []string{"mkdir -p /opt/cni/bin && culvert host install    # puts the plugin there"}
		e.addFinding(f, "the CNI plugin culvert is not there")
		return
	case e.CNI.Build != "" && e.CNI.OwnBuild != "" && e.CNI.Build != e.CNI.OwnBuild:
		e.addFinding(finding{check: "cni", severity: api.SeverityWarning, object: dirs, why: "what one knows the other may not",
			mend: []string{"culvert host install --from FOLDER    # that has programs of one build"}}, "the CNI plugin was built from %s, culvert from %s", shortRevision(e.CNI.Build), shortRevision(e.CNI.OwnBuild))
	case e.CNI.Build == "" || e.CNI.OwnBuild == "":
		e.addOK("cni", dirs, "the CNI plugin culvert is there; the file does not show its version")
	default:
		e.addOK("cni", dirs, "the CNI plugin culvert is there, of the same build")
	}
	if slices.Contains(e.CNI.Plugins, netconf.TypeSRIOV) && e.CNI.SRIOV != netconf.TypeCulvert {
		e.addFinding(finding{check: "cni", severity: api.SeverityWarning, object: dirs, why: "networks of type sriov are served by it, and it knows nothing of the ledger",
			mend: []string{"culvert host install    # keeps it as sriov.before-culvert"}}, "the plugin sriov is not Culvert's")
	}
}

// shortRevision returns a revision as people write it.
func shortRevision(revision string) string {
	rest, dirty := strings.CutSuffix(revision, "+changed")
	if len(rest) > 12 {
		rest = rest[:12]
	}
	if dirty {
		rest += " with changes"
	}
	return rest
}

// checkConfigs looks for network configurations that other SR-IOV plugins left behind.
func (e *examination) checkConfigs() {
	for i, c := range e.CNI.Configs {
		if c.Err != "" {
			e.addFinding(finding{check: "cni", severity: api.SeverityWarning, object: c.File, why: "runtimes stop at it, or skip it", mend: moveAside(c.File)}, "it cannot be read: %s", c.Err)
			continue
		}
		for _, t := range c.Types {
			if slices.Contains(e.CNI.Plugins, t) {
				continue
			}
			f := finding{check: "cni", severity: api.SeverityNote, object: c.File, why: "a pod that names that network gets an error", mend: moveAside(c.File)}
			if i == 0 {
				f.severity, f.why = api.SeverityError, "it is the first by name, so it is the network of every pod, and none starts"
			}
			e.addFinding(f, "it wants the plugin %q, which is not there%s", t, nameOldStack(t))
		}
	}
}

// checkResults looks for results of ADD that a power cut damaged: the runtime writes them without
// fsync(2), so a file may be there and its content not.
func (e *examination) checkResults() {
	bad := slices.Concat(e.CNI.EmptyResults, e.CNI.BrokenResults)
	if len(bad) == 0 {
		if e.CNI.Results > 0 {
			e.addOK("cni", netconf.ResultsDir, "the runtime can read the results of all %d attachments that it has", e.CNI.Results)
		}
		return
	}
	f := finding{check: "cni", severity: api.SeverityError, object: netconf.ResultsDir, why: "the runtime cannot take these containers down, and their pods do not start again"}
	if len(e.CNI.EmptyResults) > 0 { // -mmin: not a file that the runtime is writing now
		f.mend = append(f.mend, "find "+netconf.ResultsDir+" -type f -size 0 -mmin +1 -delete")
	}
	for _, name := range e.CNI.BrokenResults {
		if path := netconf.ResultsDir + "/" + name; plainPath(path) {
			f.mend = append(f.mend, "rm "+path)
		} else {
			f.mend = append(f.mend, fmt.Sprintf("remove %q", path))
		}
	}
	e.addFinding(f, "%d of %d results of attachments are empty or no JSON, as after a power cut: %s", len(bad), e.CNI.Results, nameFirst(bad, 3))
}

// nameFirst joins names; of a long list it names only the first ones.
func nameFirst(all []string, most int) string {
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// moveAside returns the command that hides a file from a runtime.
func moveAside(file string) []string {
	if !plainPath(file) {
		return []string{"move it away"}
	}
	return []string{"mv " + file + " " + file + ".off"}
}

// plainPath reports whether a path can be part of a command as it is, without a character that a
// shell interprets.
func plainPath(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '-' || r > 'z' || strings.ContainsRune(";<>?[\\]^`=@", r) })
}

// nameOldStack names the stack that a stale configuration is from.
func nameOldStack(plugin string) string {
	switch plugin {
	case netconf.TypeSRIOV, "ib-sriov", "accelerated-bridge", "ovs-cni", "userspace", "host-device":
		return ": left behind by another SR-IOV stack"
	}
	if netconf.IsMultus(plugin) {
		return ": left behind by Multus"
	}
	return ""
}

// Package doctor judges whether a host is fit for VFs, and how to mend it. Facts that package
// gather collected go in. Findings come out, each with the fault, why it matters and the command
// that mends it. It is pure; package mend carries out the few repairs that are safe.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/survey"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// Facts are all facts that Examine judges.
type Facts struct {
	Version string
	Root    bool // the doctor runs as root, and sees everything

	Host    survey.Host
	NICs    []vf.NIC
	PFs     []vf.PF
	Devices map[vf.PCIAddr]survey.Device // PFs and their VFs
	// NICErr is the reason why the NICs could not be listed.
	NICErr string

	Spec desired.Spec
	// SpecErr is the reason why host.yaml could not be read. SpecMissing says that there is none.
	SpecErr     string
	SpecMissing bool

	Claims    []claims.Claim
	ClaimsErr string

	// Status is culvertd's answer. If there was none, Status is nil, and StatusErr is the reason.
	Status    *api.NodeStatus
	StatusErr string

	Ledger  survey.Disk
	CNI     CNI
	Libvirt Libvirt
	Peer    *Peer // nil: none was named

	// Cluster is nil unless an API server was asked.
	Cluster *Cluster

	// KubeletSwap says that the kubelet's configuration allows swap.
	KubeletSwap bool

	// Role is RoleKubernetes for a host that is to become a node of Kubernetes. Without a role, the
	// doctor finds out by itself whether the host is one.
	Role string
}

// RoleKubernetes is the role of a node of Kubernetes.
const RoleKubernetes = "kubernetes"

// CNI is the content of the folders of container runtimes.
type CNI struct {
	BinDirs, ConfDirs []string // as the runtimes' configurations say, else the usual
	Plugins           []string // names in BinDirs, without folders
	// Elsewhere is the folder in which the plugin culvert is installed, if it is none of BinDirs.
	Elsewhere string
	// Build is the revision that the plugin culvert was built from, OwnBuild
	// the doctor's; empty when unknown.
	Build, OwnBuild string
	// SRIOV is the target of the link /opt/cni/bin/sriov; it is empty if there is none.
	SRIOV string
	// Configs are the network configurations, in the order in which runtimes
	// read them.
	Configs []CNIConfig
	// DevicePlugin is the configuration of the SR-IOV device plugin, if there.
	DevicePlugin string
	// Results is how many results of ADD the runtimes keep in netconf.ResultsDir (libcni). EmptyResults and
	// BrokenResults are the results that runtimes cannot read.
	Results                     int
	EmptyResults, BrokenResults []string // names in netconf.ResultsDir
}

// CNIConfig is a network configuration in a runtime's folder.
type CNIConfig struct {
	File  string
	Types []string // of its plugins
	Err   string
}

// Peer has the outcome of the probes to another host.
type Peer struct {
	Address string
	Device  string
	MTU     int // of Device
	Want    int // bytes that should get through
	Fits    int // the largest that did; 0: no answer at all
	Least   int // the smallest that was tried
	Err     string
}

// Change is a repair that a command can undo. Examine offers repairs that disturb another program
// only for a host with a role.
type Change struct {
	Module   string // to load, now and at every boot
	Key      string // sysctl to set, now and at every boot
	Value    string
	Swap     bool   // turn it off, now and at every boot
	Packages string // to install, with a blank between them
	Ports    string // to open in firewalld, such as 10250/tcp, with a blank between them
}

// String describes the change.
func (c Change) String() string {
	switch {
	case c.Module != "":
		return "load module " + c.Module
	case c.Swap:
		return "turn swap off"
	case c.Packages != "":
		return "install " + c.Packages
	case c.Ports != "":
		return "open " + c.Ports + " in firewalld"
	}
	return fmt.Sprintf("set %s to %s", c.Key, c.Value)
}

// Finding is an api.Finding with its repair.
type Finding struct {
	api.Finding
	Change *Change
}

// Examine judges the facts. If a check cannot be made, a finding says so.
func Examine(f Facts) []Finding {
	e := &examination{Facts: f}
	if !f.Root {
		e.addFinding(finding{check: "root", severity: api.SeverityNote, object: host, mend: []string{"sudo culvert doctor"}},
			"seen without root, who also sees limits of processes, profiles of NetworkManager, what culvertd knows and whether its disk keeps what is written")
	}
	for _, check := range []func(*examination){
		checkNICs, checkArguments, checkIOMMU, checkModules,
		checkPFs, checkMTU, checkPeer, checkInterrupts,
		checkClaims, checkCulvertd, checkLimits, checkLedger, checkCNI, checkLibvirt, checkKubernetes, checkPools, checkIsolation,
	} {
		check(e)
	}
	return e.found
}

// examination collects findings.
type examination struct {
	Facts
	found []Finding
}

// finding is one finding of a check.
type finding struct {
	check    string
	severity api.Severity
	object   string
	why      string
	mend     []string
	change   *Change
}

const host = "host"

func (e *examination) addFinding(f finding, format string, args ...any) {
	e.found = append(e.found, f.describe(format, args...))
}

// describe returns the finding with a text.
func (f finding) describe(format string, args ...any) Finding {
	return Finding{
		Finding: api.Finding{
			Check: f.check, Severity: f.severity, Object: f.object, What: fmt.Sprintf(format, args...), Why: f.why, Mend: f.mend,
			Fixable: f.change != nil,
		},
		Change: f.change,
	}
}

func (e *examination) addOK(check, object, format string, args ...any) {
	e.addFinding(finding{check: check, severity: api.SeverityOK, object: object}, format, args...)
}

func (e *examination) addNote(check, object, format string, args ...any) {
	e.addFinding(finding{check: check, severity: api.SeverityNote, object: object}, format, args...)
}

// vfioPool returns the first pool whose VFs go to user space.
func (e *examination) vfioPool() (desired.Pool, bool) {
	for _, p := range e.Spec.Pools {
		if p.DeviceType == desired.VFIO {
			return p, true
		}
	}
	return desired.Pool{}, false
}

// wantsVFs reports whether host.yaml asks for VFs of a PF.
func (e *examination) wantsVFs(pf vf.PF) (desired.PFSpec, bool) {
	want, ok := e.Spec.ForPF(pf)
	return want, ok && want.VFs > 0
}

// findRunning returns the first process of one of the names.
func findRunning(h survey.Host, names ...string) (survey.Process, bool) {
	for _, p := range h.Processes {
		if slices.Contains(names, p.Name) {
			return p, true
		}
	}
	return survey.Process{}, false
}

// hasProgram reports whether a program is there, by its name without folder.
func hasProgram(h survey.Host, name string) bool {
	return slices.ContainsFunc(h.Programs, func(p string) bool { return strings.HasSuffix(p, "/"+name) })
}

// hasOneOf reports whether one of several programs is there.
func hasOneOf(h survey.Host, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return hasProgram(h, name) })
}

// installCommand returns the command that installs a package on this host's distribution.
func installCommand(h survey.Host, pkg string) string {
	if tool := Installer(h); tool != "" {
		return tool + " install " + pkg
	}
	return "install " + pkg
}

// Installer returns the name of the program that installs packages on this host; "" if it has none
// that the doctor knows.
func Installer(h survey.Host) string {
	for _, tool := range []string{aptGet, dnf, zypper} {
		if hasProgram(h, tool) {
			return tool
		}
	}
	return ""
}

// Programs that install packages.
const aptGet, dnf, zypper = "apt-get", "dnf", "zypper"

func pfName(pf vf.PF) string { return "PF " + pf.Label() }

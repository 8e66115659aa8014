package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/admin/doctor/gather"
	"github.com/culvert-net/culvert/internal/admin/doctor/mend"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/survey"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/vf"
)

// doctorBound is how long all checks may take together; probes to a peer that drops packets take
// most of it.
const doctorBound = 2 * time.Minute

// prepareBound is doctorBound where packages are installed too.
const prepareBound = 20 * time.Minute

// Variables that show that there is a cluster: kubectl's, and the kubelet's in pods.
const (
	clientConfig = "KUBECONFIG"
	inPod        = "KUBERNETES_SERVICE_HOST"
)

// doctorHelp is the description of culvert doctor.
const doctorHelp = `Examines this host without changing anything, with or without culvertd:

  NICs         the NICs that can have VFs, and the reason why others cannot.
               Driver, link, NUMA node, interrupts and queues.
               MTU of PF, host.yaml, VFs and their owners.
  host         IOMMU, arguments of the kernel, modules.
  others       files of NetworkManager, networkd, netplan, ifupdown, udev rules
               and scripts that contradict Culvert, by file and line.
  Culvert      culvertd, its limits and its disk, the CNI plugin and the folders
               of container runtimes, libvirt's hooks.
  Kubernetes   swap, modules, forwarding, SELinux, where there is a kubelet or a
               container runtime. Pools without allow, which serve any request.
               With a kubeconfig, the pods of the cluster that namespace
               isolation refuses or would refuse.

Each finding has the problem, the reason why it matters, and the command that
mends it. With --peer the doctor also sends packets that may not be fragmented to
another host, of the expected size, and finds the size that arrives.

It asks the cluster of --kubeconfig, --context or $KUBECONFIG, or that of the pod
it runs in, and no other. That takes the right to list pods and
network-attachment-definitions in all namespaces.

With --guest it examines the definition of a virtual machine on this host
instead. It compares queues, huge pages, pinning, NUMA node, locked memory, slots
and interrupts with the host and the VFs. It also checks the needs of Windows.
Each finding has the XML that mends it.

With --by it also looks into that guest, if it is Linux and runs: drivers, MTU,
queues, interrupts, irqbalance and numad. COMMAND opens a shell in the guest, by
ssh or a virtio channel; "agent" stands for QEMU's guest agent. The doctor
changes nothing there.

--fix makes the repairs that are marked *: it loads modules and sets sysctls, now
and at every boot, one file for each below /etc. It touches no NIC, no VF and no
container, reads back its changes, and prints the commands that undo them.

--role kubernetes examines a host that is to become a node of Kubernetes, before
it has a kubelet: also the programs that kubeadm needs, a container runtime and
firewalld. With --fix it then also turns swap off, installs the distribution's
packages and opens ports.

Exit status is 0 when there is nothing but "ok" and notes, and 1 when there is a
warning or an error. As another user than root it sees less, and says so.`

func newDoctorCommand(p *place) *cobra.Command {
	d := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine this host: is it fit for VFs, and what would mend it",
		Long:  doctorHelp,
		Example: `  sudo culvert doctor
  sudo culvert doctor --peer 172.16.91.2     # does a jumbo frame get there?
  sudo culvert doctor --fix
  sudo culvert doctor --role kubernetes --fix
  sudo culvert doctor --kubeconfig /etc/kubernetes/admin.conf
  virsh dumpxml db1 | sudo culvert doctor --guest -
  virsh dumpxml db1 | sudo culvert doctor --guest - --by "ssh root@192.0.2.7 sh"
  sudo culvert doctor -o json |
    jq -r '.findings[] | select(.severity == "error") | .what'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := addOutput(cmd, false)
	p.addClusterFlags(cmd)
	d.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return d.runDoctor(cmd, p, out) }
	return cmd
}

// doctorFlags has the flags that select what culvert doctor examines.
type doctorFlags struct {
	fix                   bool
	peer, guest, by, role string
}

func (d *doctorFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&d.fix, "fix", false, "do the repairs that are safe, and say how to undo them")
	cmd.Flags().StringVar(&d.peer, "peer", "", "the `ADDRESS` of another host to try the MTU to")
	cmd.Flags().StringVar(&d.guest, "guest", "", "the `FILE` with a guest's definition, or - for standard input")
	cmd.Flags().StringVar(&d.by, "by", "", "with --guest, the `COMMAND` that opens a shell in the guest, or agent")
	cli.AddChoice(cmd, &d.role, "role", "examine the host for a role that it is to get", doctor.RoleKubernetes)
	cmd.MarkFlagsMutuallyExclusive("guest", "role")
	cmd.MarkFlagsMutuallyExclusive("guest", "fix")
	cmd.MarkFlagsMutuallyExclusive("by", "fix")
	cmd.MarkFlagsMutuallyExclusive("guest", "peer")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("peer", cobra.NoFileCompletions)) // only if the flag were not there
}

func (d *doctorFlags) runDoctor(cmd *cobra.Command, p *place, out output) error {
	o, err := doctorOptions(&p.node, d.peer)
	o.Role = d.role
	if err == nil && d.guest == "" {
		o.Cluster, err = p.podNetworks()
	}
	if err != nil {
		return err
	}
	if d.by != "" && d.guest == "" {
		return errors.New("--by looks into the guest of --guest: virsh dumpxml db1 | culvert doctor --guest - --by COMMAND")
	}
	if d.fix && !o.IsRoot {
		return errors.New("doctor --fix loads modules and writes to /etc: use sudo")
	}
	bound := doctorBound
	if d.fix && d.role != "" {
		bound = prepareBound
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), bound)
	defer cancel()
	var report api.DoctorReport
	if d.guest != "" {
		if report, err = d.examineGuest(ctx, o, cmd); err != nil {
			return err
		}
	} else {
		report = examineHost(ctx, o, d.fix, func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format, args...) })
	}
	if err := out.writeValue(cmd, report, func(t text.Options) string { return text.Doctor(report, t) }); err != nil {
		return err
	}
	if report.Summary.Warnings+report.Summary.Errors > 0 {
		return cli.ExitStatus(1)
	}
	return nil
}

func doctorOptions(n *node, peer string) (gather.Options, error) {
	o := gather.Options{
		Root: "/", Kernel: kernel.New(kernel.Options{}), Status: n.readStatus,
		HostFile: desired.DefaultPath, Ledger: journal.DefaultPath, Version: version, IsRoot: os.Geteuid() == 0,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		o.Build = gather.Revision(info)
	}
	if peer != "" {
		addr, err := netip.ParseAddr(peer)
		if err != nil {
			return o, fmt.Errorf("--peer %q: want an IP address such as 172.16.91.2", peer)
		}
		o.Peer = addr.Unmap()
	}
	return o, nil
}

// podNetworks returns a function that asks a cluster for its pods' networks. The cluster is that
// of the flags, of $KUBECONFIG or of this pod; without one the function is nil. podNetworks does
// not use ~/.kube/config by itself, which may start a login.
func (p *place) podNetworks() (func(context.Context) (doctor.Cluster, error), error) {
	if !p.inCluster() && os.Getenv(clientConfig) == "" && os.Getenv(inPod) == "" {
		return nil, nil
	}
	c, err := p.openCluster()
	switch {
	case errors.Is(err, vf.ErrNotFound) && !p.inCluster():
		return nil, nil
	case err != nil:
		return nil, err
	}
	return func(ctx context.Context) (doctor.Cluster, error) {
		ctx, cancel := context.WithTimeout(ctx, statusBound)
		defer cancel()
		n, err := c.PodNetworks(ctx)
		return doctor.Cluster{Name: c.Name, Pods: n.Pods, Networks: n.Networks, Isolated: n.Isolated, Global: n.Global, Mode: n.Mode, Multus: n.Multus}, err
	}, nil
}

// examineHost examines the host. If fix is set, it repairs the host and examines it again.
func examineHost(ctx context.Context, o gather.Options, fix bool, say func(string, ...any)) api.DoctorReport {
	found := doctor.Examine(gather.Facts(ctx, o))
	var repairs []api.Repair
	if fix {
		changes := mend.Changes(found)
		for _, c := range changes {
			say("will %s\n", c)
		}
		repairs = mend.Host{Root: o.Root, Load: survey.LoadModule, Run: survey.RunProgram}.Apply(ctx, changes)
		found = doctor.Examine(gather.Facts(ctx, o))
	}
	r := reportOf(o, found)
	r.Repairs = repairs
	return r
}

// examineGuest examines the guest's definition in a file, for this host, and the guest itself if there
// is a way into it.
func (d *doctorFlags) examineGuest(ctx context.Context, o gather.Options, cmd *cobra.Command) (api.DoctorReport, error) {
	definition, err := readDefinition(cmd, []string{d.guest})
	if err != nil {
		return api.DoctorReport{}, err
	}
	var inside *doctor.Inside
	if d.by != "" {
		def, err := guest.Parse([]byte(definition))
		if err != nil {
			return api.DoctorReport{}, err
		}
		said := gather.Inside(ctx, def.Name, d.by)
		inside = &said
	}
	found, err := doctor.ExamineGuest(gather.Facts(ctx, o), []byte(definition), inside)
	return reportOf(o, found), err
}

func reportOf(o gather.Options, found []doctor.Finding) api.DoctorReport {
	r := api.DoctorReport{Version: o.Version, Time: time.Now(), Findings: []api.Finding{}}
	r.Node, _ = os.Hostname()
	counts := map[api.Severity]*int{
		api.SeverityOK: &r.Summary.OK, api.SeverityNote: &r.Summary.Notes, api.SeverityWarning: &r.Summary.Warnings, api.SeverityError: &r.Summary.Errors,
	}
	for _, f := range found {
		r.Findings = append(r.Findings, f.Finding)
		*counts[f.Severity]++
	}
	return r
}

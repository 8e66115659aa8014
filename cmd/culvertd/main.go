// Command culvertd owns every VF of a node: it makes them, gives them out,
// takes them back clean, and answers on a unix socket.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/daemon"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/rpc"
)

// version is set by the linker.
var version = "unknown"

func main() {
	daemon.SetCollector(os.Getenv("GOGC"), os.Getenv("GOMEMLIMIT"))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "culvertd:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var c daemon.Config
	var debug bool
	var choices networkChoices
	cmd := &cobra.Command{
		Use:   "culvertd",
		Short: "Own the SR-IOV Virtual Functions of this node",
		Long: `culvertd makes the Virtual Functions that host.yaml declares, gives them to pods,
containers and virtual machines, and takes them back clean. It keeps a ledger of
their owners. It runs as root, one on a host, normally by systemd:

  systemctl enable --now culvertd
  culvert status

It applies host.yaml again at every start, and finishes or undoes interrupted work
of an earlier run. It reports to systemd when the VFs are there, so that kubelet
and libvirtd can be ordered after it.`,
		Example: `  # in the foreground, with all it does to the kernel
  culvertd --debug

  # a second look at another configuration, away from the system's own files
  culvertd --host ./host.yaml --ledger ./ledger.db --socket ./culvertd.sock`,
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if debug {
				level = slog.LevelDebug
			}
			if err := choices.parseInto(&c.Cluster); err != nil {
				return err
			}
			c.Version = version
			c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			return daemon.Run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.HostFile, "host", desired.DefaultPath, "the file that declares this host's VFs and pools")
	c.KeepEvents = journal.DefaultEvents
	cli.AddCount(cmd, &c.KeepEvents, "keep-events", journal.LeastEvents, journal.MostEvents, "how many events the ledger keeps: the history of this host, some 600 bytes an event")
	f.StringVar(&c.Ledger, "ledger", journal.DefaultPath, "the ledger of the VFs and their owners")
	f.StringVar(&c.Socket, "socket", rpc.DefaultSocket, "where culvert and culvert-cni reach culvertd")
	f.BoolVar(&c.Kubernetes, "kubernetes", false, "this host is a node of a cluster: give the pools to its kubelet")
	f.StringVar(&c.KubeletDir, "kubelet-dir", daemon.DefaultKubeletDir, "root folder of the node's kubelet")
	f.StringVar(&c.PluginDir, "plugin-dir", "", "folder of the installed CNI plugin, which culvertd removes when --daemonset is deleted")
	f.StringVar(&c.ProcRoot, "proc", "/proc", "where the host's /proc is, writable below sys/net: elsewhere in a container that has a PID namespace of its own")
	choices.addFlags(f)
	addClusterFlags(f, &c.Cluster)
	f.BoolVar(&c.SegmentDiscovery, "segment-discovery", true, "send a small frame on each PF every few seconds, to find out which PFs share an L2 segment and warn of pools over two. PFs whose segment is named take no part")
	f.StringVar(&c.Metrics, "metrics", "", "address where Prometheus reads metrics, such as 127.0.0.1:9810; empty: nowhere")
	f.BoolVar(&debug, "debug", false, "log every change to the kernel")
	cmd.AddCommand(leaveCommand(), installCommand())
	cli.Explain(cmd)
	return cmd
}

// networkChoices has the flags about networks whose values need parsing.
type networkChoices struct {
	podNetworks, whereabouts string
	ipamTypes                []string
	everyPod, exceptPods     []string
}

func (n *networkChoices) addFlags(f *pflag.FlagSet) {
	f.StringVar(&n.podNetworks, "pod-networks", string(pod.Auto), "the program that sets up the networks of pods: auto (Culvert, unless Multus is there), always (Culvert), never (another meta plugin)")
	f.StringVar(&n.whereabouts, "whereabouts", string(cni.WhereaboutsAuto), "source of the addresses of networks with ipam of type whereabouts, the same on all nodes: auto, plugin, pools (Culvert). auto is the plugin if the cluster has whereabouts, else Culvert")
	f.StringSliceVar(&n.ipamTypes, "ipam-types", nil, "CNI plugins that networks may name in ipam.type besides "+strings.Join(ipam.DefaultTypes(), ", ")+": culvert-cni executes them as root, for every author of a network")
	f.StringSliceVar(&n.everyPod, "default-networks", nil, "networks ([namespace/]name, by default of "+netannotation.DefaultNamespace+") that every pod gets before those that it asks for, as Multus' defaultNetworks; beside Multus only Multus' own counts")
	f.StringSliceVar(&n.exceptPods, "system-namespaces", netannotation.DefaultSystemNamespaces(), "namespaces whose pods get none of --default-networks")
}

func (n *networkChoices) parseInto(c *daemon.ClusterConfig) (err error) {
	if c.PodNetworks, err = pod.ParseMode(n.podNetworks); err != nil {
		return err
	}
	if c.Whereabouts, err = cni.ParseWhereaboutsMode(n.whereabouts); err != nil {
		return err
	}
	if c.EveryPod, err = netannotation.ParseEveryPod(n.everyPod, n.exceptPods); err != nil {
		return fmt.Errorf("--default-networks: %w", err)
	}
	c.IPAMTypes, err = ipam.ParseTypes(n.ipamTypes)
	return err
}

// addClusterFlags adds the flags of a node in a cluster whose values need no parsing.
func addClusterFlags(f *pflag.FlagSet, c *daemon.ClusterConfig) {
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: by the service account of the pod that culvertd is in")
	f.StringVar(&c.NodeName, "node-name", nodeName(), "this host's name in the cluster; by default $NODE_NAME or the host's own")
	f.StringVar(&c.DaemonSet, "daemonset", "", "the DaemonSet of this culvertd, namespace/name: when it is deleted, culvertd removes the CNI plugin")
	f.StringVar(&c.DevicePlugin, "device-plugin-config", sources.DefaultDevicePlugin, "the ConfigMap of the SR-IOV network device plugin, namespace/name, with a key config.json or one for this node")
	f.StringVar(&c.DevicePluginPrefix, "device-plugin-prefix", desired.DevicePluginPrefix, "prefix of the resources in it that name none, as that plugin's flag -resource-prefix")
	f.StringVar(&c.ConfDir, "cni-conf-dir", pod.DefaultConfDir, "where the container runtime's network configurations are")
	f.BoolVar(&c.Isolation.On, "namespace-isolation", true, "let pods use networks of their own namespace only; false: of every namespace")
	f.StringSliceVar(&c.Isolation.Global, "global-namespaces", netannotation.DefaultGlobal(), "namespaces whose networks every pod may use, with --namespace-isolation")
}

// nodeName returns the name that a DaemonSet sets, or the host's, which a kubelet takes in lower
// case.
func nodeName() string {
	if n := os.Getenv("NODE_NAME"); n != "" {
		return n
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return strings.ToLower(name)
}

// leaveCommand returns the command that an uninstall runs on a node.
func leaveCommand() *cobra.Command {
	dir := pod.DefaultConfDir
	cmd := &cobra.Command{
		Use:   "leave-pod-networks",
		Short: "Remove the file that makes the container runtime call Culvert first",
		Long: `Removes ` + pod.Conflist + `, so that the container runtime sets up the default
network of pods by itself again. An uninstall runs it on each node, after culvertd
has stopped there and no pod has a VF any more. It is no error when the file is
not there.`,
		Example: `  culvertd leave-pod-networks`,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return pod.Leave(dir) },
	}
	cmd.Flags().StringVar(&dir, "cni-conf-dir", dir, "where the container runtime's network configurations are")
	return cmd
}

// installCommand returns the command that the DaemonSet's init container runs.
func installCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install-plugin DIR",
		Short: "Install the CNI plugin into a folder, from beside this program",
		Long: `Copies culvert-cni, which lies beside this program, into DIR as the plugins
culvert and sriov. It keeps a plugin sriov that was there before. The DaemonSet
runs it before culvertd, as a container that has no capability.`,
		Example: `  culvertd install-plugin /opt/cni/bin`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return daemon.InstallPlugin(args[0]) },
	}
}

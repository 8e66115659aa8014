package scenario

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/vf"
)

func (m fakeMachine) Tune(a vf.PCIAddr, _, _ string) error {
	for _, name := range fake.AttributeNames() {
		if err := m.SetAttribute(a, name, "eth0"); err != nil {
			return err
		}
	}
	return nil
}

func (m fakeMachine) Looks(a vf.PCIAddr, _, _ string) (string, error) {
	return m.ChangedAttributes(a), nil
}

// tunings are changes that the owner of an interface can make with CAP_NET_ADMIN. igbvf refuses
// some: it has one queue, and no receive rules.
var tunings = []string{
	"ip link set dev IF arp off", "ip link set dev IF multicast off", "ip link set dev IF txqueuelen 17",
	"ip link set dev IF alias mine", "ip link property add dev IF altname eth0", "ip link property add dev IF altname IF-too",
	"ip link set dev IF gso_max_size 9000 gso_max_segs 7", "ip link set dev IF gro_max_size 9000", "ip link set dev IF group 42",
	"ip link set dev IF broadcast 01:02:03:04:05:06", "ip link set dev IF mode dormant", "ip link set dev IF protodown on",
	"ip link set dev IF promisc on", "ip link set dev IF allmulticast on", "ip maddress add 33:33:00:00:00:77 dev IF",
	"tc qdisc add dev IF clsact", "tc qdisc replace dev IF root tbf rate 1mbit burst 32kbit latency 400ms",
	"tc filter add dev IF ingress matchall action drop",
	"ethtool -G IF rx 512 tx 512", "ethtool -L IF combined 1", "ethtool -C IF rx-usecs 200", "ethtool -A IF rx off tx off",
	"ethtool -K IF gro off gso off tso off rx off tx off sg off", "ethtool -K IF rxvlan off txvlan off", "ethtool -s IF msglvl 0x1f", "ethtool -s IF wol g",
	"ethtool -X IF equal 1", "ethtool -N IF flow-type tcp4 dst-port 80 action 0", "ethtool -N IF rx-flow-hash udp4 sdfn",
	"ip link add link IF name IF.7 type vlan id 7", "sysctl -qw net.ipv4.conf.IF.proxy_arp=1",
}

// mostRefused is how many of tunings igbvf and the kernel may refuse.
const mostRefused = 12

func (linux) Tune(_ vf.PCIAddr, path, ifname string) error {
	var refused []string
	for _, t := range tunings {
		if out, err := inNetns(path, strings.ReplaceAll(t, "IF", ifname)); err != nil {
			refused = append(refused, fmt.Sprintf("%s: %s", t, strings.TrimSpace(out)))
		}
	}
	if len(refused) > mostRefused {
		return fmt.Errorf("the kernel refused %d of %d changes:\n%s", len(refused), len(tunings), strings.Join(refused, "\n"))
	}
	return inSysfs(path, ifname, func(dir string) error {
		for file, value := range queueTunings {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

// queueTunings are values that the owner can write below the interface's folder in sysfs, on a node
// with one CPU. One queue has no xps_cpus.
var queueTunings = map[string]string{
	"queues/rx-0/rps_cpus": "1", "queues/rx-0/rps_flow_cnt": "64", "queues/tx-0/byte_queue_limits/limit_max": "4000",
	"gro_flush_timeout": "20000", "napi_defer_hard_irqs": "2",
}

// inSysfs calls fn with the folder of an interface in the sysfs of a netns.
func inSysfs(path, ifname string, fn func(dir string) error) error {
	return netns.Run(path, func() error { // on a thread of its own, which ends with the function
		dir, err := os.MkdirTemp("", "sysfs")
		if err != nil {
			return err
		}
		defer os.Remove(dir)
		err = errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("sysfs", dir, "sysfs", 0, ""))
		if err != nil {
			return fmt.Errorf("mount the sysfs of %s: %w", path, err)
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		return fn(filepath.Join(dir, "class", "net", ifname))
	})
}

// looking has the commands that print how an interface is set up.
var looking = []string{
	"ip -d link show dev IF", "tc qdisc show dev IF", "tc filter show dev IF ingress", "ethtool -g IF", "ethtool -l IF",
	"ethtool -c IF", "ethtool -a IF", "ethtool -k IF", "ethtool IF", "ethtool -x IF", "ethtool -n IF", "sysctl net.ipv4.conf.IF.proxy_arp",
}

// counted matches the parts of their output that change each time: the index of the interface, and
// facts that depend on when it got carrier.
var counted = regexp.MustCompile(`(?m)^[0-9]+:|link-netnsid [0-9]+|state \S+|NO-CARRIER,|,LOWER_UP|^\s*(Speed|Duplex|Link detected):.*$`)

func (linux) Looks(_ vf.PCIAddr, path, ifname string) (string, error) {
	var b strings.Builder
	for _, q := range looking {
		out, _ := inNetns(path, strings.ReplaceAll(q, "IF", ifname)) // an error message is compared, too
		fmt.Fprintf(&b, "%s\n%s\n", q, counted.ReplaceAllString(out, ""))
	}
	err := inSysfs(path, ifname, func(dir string) error {
		for _, file := range slices.Sorted(maps.Keys(queueTunings)) {
			value, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %s", file, value)
		}
		return nil
	})
	return b.String(), err
}

// inNetns runs a command in a netns. A shell or nsenter of busybox would run its own ip.
func inNetns(path, command string) (string, error) {
	var out []byte
	err := netns.Run(path, func() (err error) {
		args := strings.Fields(command)
		out, err = exec.Command(args[0], args[1:]...).CombinedOutput()
		return err
	})
	return string(out), err
}

package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/vf"
)

// Machine reads the fingerprint of the machine, with the interfaces of this network
// namespace. Fields stay empty where the machine has no answer.
func (r Reader) Machine() (bench.Machine, error) {
	m := bench.Machine{
		Name: r.readLine("proc/sys/kernel/hostname"), Kernel: r.readLine("proc/sys/kernel/osrelease"),
		Governor: r.readGovernor(),
	}
	m.NUMANodes, m.NUMACPUs = r.readNUMA()
	stat, err := r.readText("proc/stat")
	if err != nil {
		return m, err
	}
	_, each, err := bench.ParseCPUTimes([]byte(stat))
	if err != nil {
		return m, err
	}
	m.CPUs = len(each)
	memory, err := r.readText("proc/meminfo")
	if err != nil {
		return m, err
	}
	if m.MemoryMiB, err = parseMemory(memory); err != nil {
		return m, err
	}
	cpus, err := r.readText("proc/cpuinfo")
	if err != nil {
		return m, err
	}
	m.CPU = parseModel(cpus)
	m.Hypervisor = nameHypervisor(cpus, r.readLine("sys/class/dmi/id/sys_vendor"), r.readLine("sys/devices/system/clocksource/clocksource0/available_clocksource"))
	// The bus lists the devices of all network namespaces: an agent in a pod has none of its own.
	m.OpenStack = vf.IsOpenStack(r.readLine("sys/class/dmi/id/sys_vendor"), r.readLine("sys/class/dmi/id/product_name"), r.readLine("sys/class/dmi/id/chassis_asset_tag")) && len(r.listFiles("sys/bus/virtio/drivers/virtio_net/virtio[0-9]*")) > 0
	for _, file := range r.listFiles("sys/devices/system/cpu/vulnerabilities/*") {
		name := filepath.Base(file)
		if text := r.readLine("sys/devices/system/cpu/vulnerabilities/" + name); text != "" && text != "Not affected" {
			m.Mitigated = append(m.Mitigated, name+": "+text)
		}
	}
	m.Sysctls, m.Platform = r.readSysctls(), r.readPlatform()
	links, err := r.netLinks()
	if err != nil {
		return m, err
	}
	for _, l := range links {
		m.Interfaces = append(m.Interfaces, l.Interface)
	}
	return m, nil
}

// readLine reads a file of one line. A file that is missing or unreadable is empty: kernels differ
// in the files that they have.
func (r Reader) readLine(name string) string {
	text, err := r.readText(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// mostNodes is above the number of NUMA nodes that Linux can have (MAX_NUMNODES, at most 1 << 10).
const mostNodes = 1 << 10

// readNUMA counts the NUMA nodes, and lists the processors of each on a machine with several. The
// index in the list is the node's number; a number that no node has, has no processors.
func (r Reader) readNUMA() (nodes int, cpus []string) {
	for _, file := range r.listFiles("sys/devices/system/node/node[0-9]*") {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), "node"))
		if err != nil || n >= mostNodes {
			continue
		}
		nodes++
		cpus = slices.Concat(cpus, make([]string, max(0, n+1-len(cpus))))
		cpus[n] = r.readLine(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", n))
	}
	if nodes < 2 {
		return 1, nil
	}
	return nodes, cpus
}

// listFiles returns the files that match a pattern, in order.
func (r Reader) listFiles(pattern string) []string {
	all, err := filepath.Glob(r.pathOf(pattern))
	if err != nil { // the patterns are constants
		return nil
	}
	slices.Sort(all)
	return all
}

// parseMemory reads MemTotal of /proc/meminfo (proc_meminfo(5)), in MiB.
func parseMemory(text string) (int, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 52)
			if err != nil || kib < 0 {
				return 0, fmt.Errorf("read /proc/meminfo: MemTotal is %q", strings.TrimSpace(rest))
			}
			return int(kib / 1024), nil
		}
	}
	return 0, errors.New("read /proc/meminfo: no MemTotal")
}

// cpuField returns the first processor's value of a key in /proc/cpuinfo.
func cpuField(text, key string) string {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// parseModel returns the name of the processor, or for Arm its numbers, since an Arm has no name in
// /proc/cpuinfo.
func parseModel(text string) string {
	if name := cpuField(text, "model name"); name != "" {
		return name
	}
	if maker := cpuField(text, "CPU implementer"); maker != "" {
		return "Arm implementer " + maker + " part " + cpuField(text, "CPU part")
	}
	return ""
}

// nameHypervisor names the hypervisor that runs the machine, as far as it can be known without the
// CPUID instruction: QEMU without KVM has neither KVM's clock nor another one of its own.
func nameHypervisor(cpus, vendor, clocks string) string {
	virtual := slices.Contains(strings.Fields(cpuField(cpus, "flags")), "hypervisor")
	switch {
	case strings.Contains(cpuField(cpus, "model name"), "TCG"):
		return "tcg"
	case strings.Contains(clocks, "kvm-clock"):
		return "kvm"
	case strings.Contains(clocks, "hyperv"):
		return "hyperv"
	case strings.Contains(clocks, "xen"):
		return "xen"
	case vendor == "QEMU":
		return "tcg"
	case virtual:
		return "unknown"
	}
	return ""
}

// readGovernor lists the frequency governors in use: one, when all processors have the same.
func (r Reader) readGovernor() string {
	var seen []string
	for _, file := range r.listFiles("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		if g := strings.TrimSpace(string(text)); g != "" && !slices.Contains(seen, g) {
			seen = append(seen, g)
		}
	}
	return strings.Join(seen, ",")
}

// readSysctls returns the sysctls that affect figures.
func (r Reader) readSysctls() []bench.Setting {
	var all []bench.Setting
	for _, name := range []string{
		"net.core.busy_poll", "net.core.busy_read", "net.core.default_qdisc", "net.core.netdev_budget", "net.core.netdev_budget_usecs",
		"net.core.netdev_max_backlog", "net.core.rmem_default", "net.core.rmem_max", "net.core.wmem_default", "net.core.wmem_max",
		"net.ipv4.tcp_congestion_control", "net.ipv4.tcp_limit_output_bytes", "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_rmem", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_wmem",
	} {
		value := r.readLine("proc/sys/" + strings.ReplaceAll(name, ".", "/"))
		if value != "" {
			all = append(all, bench.Setting{Name: name, Value: strings.Join(strings.Fields(value), " ")})
		}
	}
	return all
}

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
)

// Machine reads the fingerprint of the machine, with the interfaces of this network
// namespace. What the machine does not tell is left empty.
func (r Reader) Machine() (bench.Machine, error) {
	m := bench.Machine{
		Name: r.line("proc/sys/kernel/hostname"), Kernel: r.line("proc/sys/kernel/osrelease"),
		NUMANodes: max(1, len(r.glob("sys/devices/system/node/node[0-9]*"))), Governor: r.governor(),
	}
	for n := range m.NUMANodes {
		if m.NUMANodes > 1 {
			m.NUMACPUs = append(m.NUMACPUs, r.line(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", n)))
		}
	}
	stat, err := r.text("proc/stat")
	if err != nil {
		return m, err
	}
	_, each, err := bench.ParseCPUTimes([]byte(stat))
	if err != nil {
		return m, err
	}
	m.CPUs = len(each)
	memory, err := r.text("proc/meminfo")
	if err != nil {
		return m, err
	}
	if m.MemoryMiB, err = parseMemory(memory); err != nil {
		return m, err
	}
	cpus, err := r.text("proc/cpuinfo")
	if err != nil {
		return m, err
	}
	m.CPU = parseModel(cpus)
	m.Hypervisor = hypervisor(cpus, r.line("sys/class/dmi/id/sys_vendor"), r.line("sys/devices/system/clocksource/clocksource0/available_clocksource"))
	for _, file := range r.glob("sys/devices/system/cpu/vulnerabilities/*") {
		name := filepath.Base(file)
		if text := r.line("sys/devices/system/cpu/vulnerabilities/" + name); text != "" && text != "Not affected" {
			m.Mitigated = append(m.Mitigated, name+": "+text)
		}
	}
	m.Sysctls = r.sysctls()
	links, err := r.netLinks()
	if err != nil {
		return m, err
	}
	for _, l := range links {
		m.Interfaces = append(m.Interfaces, l.Interface)
	}
	return m, nil
}

// line reads a file of one line. What is not there or not to be read is empty: kernels
// differ in what they tell.
func (r Reader) line(name string) string {
	text, err := r.text(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// glob lists in order what there is.
func (r Reader) glob(pattern string) []string {
	all, err := filepath.Glob(r.path(pattern))
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

// parseModel names the processor; an Arm's by its numbers, since it says no name.
func parseModel(text string) string {
	if name := cpuField(text, "model name"); name != "" {
		return name
	}
	if maker := cpuField(text, "CPU implementer"); maker != "" {
		return "Arm implementer " + maker + " part " + cpuField(text, "CPU part")
	}
	return ""
}

// hypervisor says what runs the machine, as far as it can be told without the CPUID
// instruction: QEMU without KVM has neither KVM's clock nor another one of its own.
func hypervisor(cpus, vendor, clocks string) string {
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

// governor lists the frequency governors in use: one, when all processors have the same.
func (r Reader) governor() string {
	var seen []string
	for _, file := range r.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") {
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

// sysctls are those that change what a figure is.
func (r Reader) sysctls() []bench.Setting {
	var all []bench.Setting
	for _, name := range []string{
		"net.core.busy_poll", "net.core.busy_read", "net.core.default_qdisc", "net.core.netdev_budget", "net.core.netdev_budget_usecs",
		"net.core.netdev_max_backlog", "net.core.rmem_default", "net.core.rmem_max", "net.core.wmem_default", "net.core.wmem_max",
		"net.ipv4.tcp_congestion_control", "net.ipv4.tcp_limit_output_bytes", "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
	} {
		value := r.line("proc/sys/" + strings.ReplaceAll(name, ".", "/"))
		if value != "" {
			all = append(all, bench.Setting{Name: name, Value: strings.Join(strings.Fields(value), " ")})
		}
	}
	return all
}

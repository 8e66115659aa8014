package evidence

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// readPlatform returns the other properties of the machine that affect figures, as far as its
// files show them.
func (r Reader) readPlatform() []bench.Setting {
	var all []bench.Setting
	add := func(name, value string) {
		if value != "" {
			all = append(all, bench.Setting{Name: name, Value: value})
		}
	}
	add("kernel command line", commandLine(r.readLine("proc/cmdline")))
	add("SMT", r.readLine("sys/devices/system/cpu/smt/control"))
	add("idle states", r.idleStates())
	add("turbo off (intel_pstate)", r.readLine("sys/devices/system/cpu/intel_pstate/no_turbo"))
	add("boost", r.readLine("sys/devices/system/cpu/cpufreq/boost"))
	iommus := "none"
	if all := r.listFiles("sys/class/iommu/*"); len(all) > 0 {
		iommus = filepath.Base(all[0])
	}
	add("IOMMU", iommus)
	add("drivers out of the kernel's tree", r.foreignDrivers())
	return all
}

// places matches parameters of the kernel that name locations or what the console shows. They
// differ with each machine and do not affect its speed.
var places = regexp.MustCompile(`^(root\w*|BOOT_IMAGE|initrd|init|resume|console|earlyprintk|ip|ro|rw|quiet|splash|panic|hostname|rd\..*|systemd\..*|culvert.*)(=.*)?$`)

// commandLine returns the parameters that the kernel was started with, without those that match
// places.
func commandLine(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(text), places.MatchString), " ")
}

// idleStates returns the names of the idle states that the first processor may enter.
func (r Reader) idleStates() string {
	var names []string
	for _, dir := range r.listFiles("sys/devices/system/cpu/cpu0/cpuidle/state[0-9]*") {
		state := "sys/devices/system/cpu/cpu0/cpuidle/" + filepath.Base(dir)
		if r.readLine(state+"/disable") != "1" {
			names = append(names, r.readLine(state+"/name"))
		}
	}
	return strings.Join(names, " ")
}

// foreignDrivers returns the modules whose taint has an O
// (Documentation/admin-guide/tainted-kernels.rst), as R1's Chelsio driver had.
func (r Reader) foreignDrivers() string {
	var names []string
	for _, file := range r.listFiles("sys/module/*/taint") {
		name := filepath.Base(filepath.Dir(file))
		if strings.Contains(r.readLine("sys/module/"+name+"/taint"), "O") {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// readSteering returns the RPS and XPS settings of an interface: the queues that have processors.
func (r Reader) readSteering(name string) (all []bench.Setting) {
	for _, file := range append(r.listFiles("sys/class/net/"+name+"/queues/rx-*/rps_cpus"), r.listFiles("sys/class/net/"+name+"/queues/tx-*/xps_cpus")...) {
		queue := filepath.Base(filepath.Dir(file))
		mask := r.readLine("sys/class/net/" + name + "/queues/" + queue + "/" + filepath.Base(file))
		if strings.Trim(mask, "0,") != "" {
			all = append(all, bench.Setting{Name: queue + " " + filepath.Base(file), Value: mask})
		}
	}
	return all
}

// readBus returns the PCI Express link of a function: "8.0 GT/s PCIe x8". A VF does not show it,
// so for a VF it is the PF's.
func (r Reader) readBus(pci string) string {
	for _, at := range []string{r.devicePath(pci), r.devicePath(pci, "physfn")} {
		if width := r.readLine(at + "/current_link_width"); width != "" && width != "0" {
			return r.readLine(at+"/current_link_speed") + " x" + width
		}
	}
	return ""
}

package survey

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Process is one of the programs that matter to Culvert.
type Process struct {
	PID    int
	Name   string // at most 15 characters, as the kernel has it
	UID    int    // effective; -1 when it could not be read
	Limits Limits
}

// Limits are the soft limits of a process; Unlimited, or -1 where it could not
// be read.
type Limits struct {
	OpenFiles    int64
	LockedMemory int64 // bytes
}

// Unlimited is a limit that is none.
const Unlimited = math.MaxInt64

// wanted has the programs to look for, by the 15 characters of /proc/PID/comm.
var wanted = []string{
	"culvertd", "irqbalance", "NetworkManager", "systemd-network",
	"kubelet", "k3s-server", "k3s-agent", "containerd", "crio", "dockerd",
	"libvirtd", "virtqemud", "firewalld",
	"sriovdp", "sriov-network-c", // the SR-IOV device plugin, the SR-IOV operator's config daemon
}

func (r *reader) readProcesses() []Process {
	quiet := reader{root: r.root} // processes end while they are read
	var out []Process
	for _, name := range quiet.listNames("proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		dir := "proc/" + name + "/"
		comm := quiet.readLine(dir + "comm")
		if !slices.Contains(wanted, comm) {
			continue
		}
		out = append(out, Process{PID: pid, Name: comm, UID: parseUID(quiet.readText(dir + "status")), Limits: ParseLimits(quiet.readText(dir + "limits"))})
	}
	slices.SortFunc(out, func(a, b Process) int { return a.PID - b.PID })
	return out
}

// ParseLimits reads /proc/PID/limits (proc(5)): names with blanks, then the
// soft and the hard limit.
func ParseLimits(text []byte) Limits {
	l := Limits{OpenFiles: -1, LockedMemory: -1}
	for line := range strings.Lines(string(text)) {
		for name, into := range map[string]*int64{"Max open files": &l.OpenFiles, "Max locked memory": &l.LockedMemory} {
			rest, ok := strings.CutPrefix(line, name)
			fields := strings.Fields(rest)
			if !ok || len(fields) < 2 {
				continue
			}
			if fields[0] == "unlimited" {
				*into = Unlimited
			} else if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil && n >= 0 {
				*into = n
			}
		}
	}
	return l
}

// parseUID reads the effective user of /proc/PID/status.
func parseUID(text []byte) int {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Uid:"); ok {
			if fields := strings.Fields(rest); len(fields) >= 2 {
				if uid, err := strconv.Atoi(fields[1]); err == nil {
					return uid
				}
			}
		}
	}
	return -1
}

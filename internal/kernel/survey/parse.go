package survey

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// ParseCmdline splits the kernel's arguments (proc(5), /proc/cmdline). Quotes
// keep blanks together, as the kernel does (lib/cmdline.c, next_arg).
func ParseCmdline(text []byte) []string {
	var out []string
	var word strings.Builder
	quoted := false
	flush := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	for _, c := range string(text) {
		switch {
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\n' || c == '\t' || c == 0):
			flush()
		default:
			word.WriteRune(c)
		}
	}
	flush()
	return out
}

// IRQ is one line of /proc/interrupts that has a number, with where it goes.
type IRQ struct {
	Name   string   // of the last handler, e.g. enp1s0-TxRx-0
	Counts []uint64 // taken by each processor that the file lists
	// CPUs has the processors that receive the interrupt at present (effective_affinity_list); it
	// is nil if the kernel does not report them.
	CPUs []int
}

// ParseInterrupts reads /proc/interrupts (proc(5)). Lines of architectures' own
// (NMI, LOC) have no number and are left out.
func ParseInterrupts(text []byte) map[int]IRQ {
	out := map[int]IRQ{}
	columns := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 0 && strings.HasPrefix(fields[0], "CPU") {
			columns = len(fields)
			continue
		}
		if len(fields) == 0 || columns == 0 {
			continue
		}
		number, ok := strings.CutSuffix(fields[0], ":")
		n, err := strconv.ParseUint(number, 10, 31)
		if !ok || err != nil {
			continue
		}
		irq := IRQ{}
		fields = fields[1:]
		for len(fields) > 0 && len(irq.Counts) < columns {
			count, err := strconv.ParseUint(fields[0], 10, 64)
			if err != nil {
				break
			}
			irq.Counts, fields = append(irq.Counts, count), fields[1:]
		}
		if len(fields) > 0 {
			irq.Name = fields[len(fields)-1]
		}
		out[int(n)] = irq
	}
	return out
}

func (r *reader) readAffinities(irqs map[int]IRQ) {
	for n, irq := range irqs {
		dir := fmt.Sprintf("proc/irq/%d/", n)
		for _, name := range []string{"effective_affinity_list", "smp_affinity_list"} {
			if list, err := vf.ParseNumbers(r.readLine(dir + name)); err == nil && len(list) > 0 {
				irq.CPUs = list
				break
			}
		}
		irqs[n] = irq
	}
}

// ParseSwaps reads /proc/swaps: a heading, then a line for each.
func ParseSwaps(text []byte) []string {
	var out []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && strings.HasPrefix(fields[0], "/") {
			out = append(out, fields[0])
		}
	}
	return out
}

// ParseFstabSwaps reads /etc/fstab (fstab(5)): the devices and files that are swap at every boot.
func ParseFstabSwaps(text []byte) []string {
	var out []string
	for line := range strings.Lines(string(text)) {
		if IsFstabSwap(line) {
			out = append(out, strings.Fields(line)[0])
		}
	}
	return out
}

// IsFstabSwap reports whether a line of /etc/fstab makes swap at boot.
func IsFstabSwap(line string) bool {
	fields := strings.Fields(line)
	return len(fields) > 2 && !strings.HasPrefix(fields[0], "#") && fields[2] == "swap"
}

// parseFileSystems reads /proc/filesystems: "nodev" or nothing, then a name.
func parseFileSystems(text []byte) []string {
	var out []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			out = append(out, fields[len(fields)-1])
		}
	}
	return out
}

// cpuVendor reads vendor_id of /proc/cpuinfo.
func cpuVendor(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "vendor_id" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

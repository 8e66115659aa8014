package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// CPUTime is the work of one processor, or of all, since the machine booted.
type CPUTime struct {
	User    time.Duration // with nice; guests' time is in it
	System  time.Duration
	IRQ     time.Duration
	SoftIRQ time.Duration
	Steal   time.Duration // the hypervisor gave it to others
	Idle    time.Duration // or waiting for I/O
}

// Tick is the unit of /proc/stat and /proc/PID/stat: USER_HZ is 100 on every
// architecture that Linux's user space sees today (include/uapi/asm-generic/param.h).
const Tick = 10 * time.Millisecond

// maxTicks keeps ten columns of ticks within a time.Duration.
const maxTicks = 1 << 56 / int64(Tick)

// ParseCPUTime reads the first line of /proc/stat (proc_stat(5)): all processors together.
func ParseCPUTime(text []byte) (CPUTime, error) {
	line, _, _ := strings.Cut(string(text), "\n")
	name, t, err := parseCPULine(line)
	if err == nil && name != "cpu" {
		err = fmt.Errorf("read /proc/stat: the first line is of %s and not of all processors", excerpt.Quote(name))
	}
	return t, err
}

// ParseCPUTimes reads all of /proc/stat: all processors together, and each by its
// number. Processors that are offline are not in it.
func ParseCPUTimes(text []byte) (all CPUTime, each map[int]CPUTime, err error) {
	if all, err = ParseCPUTime(text); err != nil {
		return CPUTime{}, nil, err
	}
	each = map[int]CPUTime{}
	_, rest, _ := strings.Cut(string(text), "\n")
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "cpu") {
			break
		}
		name, t, err := parseCPULine(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return CPUTime{}, nil, err
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(name, "cpu"), 10, 16)
		if err != nil {
			return CPUTime{}, nil, fmt.Errorf("read /proc/stat: %q is no processor", name)
		}
		each[int(n)] = t
	}
	return all, each, nil
}

// parseCPULine reads a line of /proc/stat: user nice system idle iowait irq
// softirq, and steal since Linux 2.6.11.
func parseCPULine(line string) (name string, t CPUTime, err error) {
	fields := strings.Fields(line)
	if len(fields) < 8 || !strings.HasPrefix(fields[0], "cpu") {
		return "", t, fmt.Errorf("read /proc/stat: %s is not \"cpu\" with seven columns or more", excerpt.Quote(line))
	}
	for i, to := range []*time.Duration{&t.User, &t.User, &t.System, &t.Idle, &t.Idle, &t.IRQ, &t.SoftIRQ, &t.Steal} {
		if i+1 == len(fields) {
			break
		}
		n, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil || n < 0 || n > maxTicks {
			return "", CPUTime{}, fmt.Errorf("read /proc/stat: column %d is %q", i+1, fields[i+1])
		}
		*to += time.Duration(n) * Tick
	}
	return fields[0], t, nil
}

// Busy returns the time in user space, the kernel and interrupts, without steal.
func (t CPUTime) Busy() time.Duration { return t.User + t.System + t.IRQ + t.SoftIRQ }

// Since returns the processor time between the reading earlier and this one.
func (t CPUTime) Since(earlier CPUTime) CPUTime {
	return CPUTime{
		User: t.User - earlier.User, System: t.System - earlier.System, IRQ: t.IRQ - earlier.IRQ,
		SoftIRQ: t.SoftIRQ - earlier.SoftIRQ, Steal: t.Steal - earlier.Steal, Idle: t.Idle - earlier.Idle,
	}
}

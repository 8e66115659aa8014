package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// CPUTime is what all processors of a machine have done since it booted.
type CPUTime struct {
	Busy time.Duration // in user space, the kernel and interrupts
	Idle time.Duration // idle, or waiting for I/O
}

// tick is the unit of /proc/stat: USER_HZ is 100 on every architecture that
// Linux's user space sees today (include/uapi/asm-generic/param.h).
const tick = 10 * time.Millisecond

// maxTicks keeps ten columns of ticks within a time.Duration.
const maxTicks = 1 << 56 / int64(tick)

// ParseCPUTime reads the first line of /proc/stat (proc_stat(5)). Time that a
// hypervisor gave to others (steal) counts as neither; time of guests is in
// user time already.
func ParseCPUTime(text []byte) (CPUTime, error) {
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return CPUTime{}, fmt.Errorf("read /proc/stat: the first line is %q and not \"cpu\" with seven columns or more", brief([]byte(line)))
	}
	var t CPUTime
	for i, f := range fields[1:8] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || n < 0 || n > maxTicks {
			return CPUTime{}, fmt.Errorf("read /proc/stat: column %d is %q", i+1, f)
		}
		d := time.Duration(n) * tick
		switch i {
		case 3, 4: // idle, iowait
			t.Idle += d
		default: // user nice system, irq softirq
			t.Busy += d
		}
	}
	return t, nil
}

// Since returns what was done after earlier was read.
func (t CPUTime) Since(earlier CPUTime) CPUTime {
	return CPUTime{Busy: t.Busy - earlier.Busy, Idle: t.Idle - earlier.Idle}
}

// Plus adds another machine.
func (t CPUTime) Plus(other CPUTime) CPUTime {
	return CPUTime{Busy: t.Busy + other.Busy, Idle: t.Idle + other.Idle}
}

// PerGigabit is how many seconds of processor a gigabit took: the same number
// as how many processors one Gb/s keeps busy.
func (t CPUTime) PerGigabit(gigabits float64) float64 { return t.Busy.Seconds() / gigabits }

package vf

import (
	"fmt"
	"strconv"
	"strings"
)

// Numbers writes an ascending list of VF indexes, processors or NUMA nodes as
// the kernel does: 0-3,8.
func Numbers(all []int) string {
	var parts []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		part := strconv.Itoa(all[i])
		if j > i {
			part += "-" + strconv.Itoa(all[j])
		}
		parts, i = append(parts, part), j+1
	}
	return strings.Join(parts, ",")
}

// mostNumber bounds what ParseNumbers reads: Linux has at most 8192 processors
// (CONFIG_NR_CPUS), and a list that repeats them is no list.
const mostNumber = 1 << 16

// ParseNumbers reads what Numbers writes, as the kernel has lists of processors and NUMA
// nodes: "0-3,8".
func ParseNumbers(s string) ([]int, error) {
	if s == "" {
		return nil, nil
	}
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, ranged := strings.Cut(part, "-")
		a, err := strconv.ParseUint(first, 10, 16)
		b := a
		if err == nil && ranged {
			b, err = strconv.ParseUint(last, 10, 16)
		}
		if err != nil || b < a || len(out)+int(b-a) > mostNumber {
			return nil, fmt.Errorf("list %q: want numbers and ranges such as 0-3,8", s)
		}
		for n := a; n <= b; n++ {
			out = append(out, int(n))
		}
	}
	return out, nil
}

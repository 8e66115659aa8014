package vf

import (
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

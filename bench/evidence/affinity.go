package evidence

import "golang.org/x/sys/unix"

// UsableCPUs returns the processors that this process may use (sched_getaffinity(2)), or none if the
// kernel does not say.
func UsableCPUs() (all []int) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return nil
	}
	const most = 1024 // of a CPUSet
	for cpu := range most {
		if may.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all
}

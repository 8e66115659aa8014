package kernel

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// queueFiles are the files of a queue's settings, in the netdevice's folder in sysfs
// (Documentation/ABI/testing/sysfs-class-net-queues): which CPUs process its packets, which CPUs
// send by it, how fast it sends, and how much the driver may queue.
var queueFiles = map[string][]string{
	"rps_cpus": {"rps_cpus"}, "rps_flow_cnt": {"rps_flow_cnt"},
	vf.XPSCPUs: {"xps_cpus"}, vf.XPSQueues: {"xps_rxqs"}, "tx_maxrate": {"tx_maxrate"},
	"byte_queue_limits": {
		"byte_queue_limits/hold_time", "byte_queue_limits/limit_max", "byte_queue_limits/limit_min", "byte_queue_limits/stall_thrs",
	},
}

// mostQueues bounds how many queues are read, since each file of a queue costs system calls.
const mostQueues = 512

// readQueues returns the settings of all queues of a netdevice of the host by name. A file
// that the kernel does not have, or has no value for, is left out of its setting.
func (k *Kernel) readQueues(addr vf.PCIAddr, netdev string) (map[string]string, error) {
	dir := k.sys.pciPath(addr, "net", netdev, "queues")
	queues, err := listNames(dir)
	if err != nil {
		return nil, err
	}
	queues = queues[:min(len(queues), mostQueues)]
	out := map[string]string{}
	for setting, files := range queueFiles {
		var all []string
		for _, queue := range queues {
			for _, file := range files {
				if v, err := readLine(dir + "/" + queue + "/" + file); err == nil {
					all = append(all, queue+"/"+file+"="+v)
				}
			}
		}
		slices.Sort(all)
		out[setting] = rtnl.Digest([]byte(strings.Join(all, " ")))
	}
	return out, nil
}

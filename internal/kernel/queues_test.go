package kernel

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// I2: each setting of a queue that sysfs shows is compared.
func TestQueueSettings(t *testing.T) {
	root := t.TempDir()
	addr := pciAddr(t, "01:10.0")
	k := New(Options{SysRoot: root})
	dir := k.sys.pciPath(addr, "net", "v0", "queues")
	write := func(file, value string) {
		t.Helper()
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{
		"rx-0/rps_cpus": "rps_cpus", "rx-1/rps_cpus": "rps_cpus", "rx-0/rps_flow_cnt": "rps_flow_cnt",
		"tx-0/xps_cpus": vf.XPSCPUs, "tx-0/xps_rxqs": vf.XPSQueues, "tx-0/tx_maxrate": "tx_maxrate",
		"tx-0/byte_queue_limits/limit_max": "byte_queue_limits", "tx-0/byte_queue_limits/limit_min": "byte_queue_limits",
		"tx-0/byte_queue_limits/hold_time": "byte_queue_limits", "tx-0/byte_queue_limits/stall_thrs": "byte_queue_limits",
	}
	for file := range files {
		write(file, "0")
	}
	write("tx-0/byte_queue_limits/limit", "0")
	made, err := k.readQueues(addr, "v0")
	if err != nil {
		t.Fatal(err)
	}
	changed := func() (out []string) {
		now, err := k.readQueues(addr, "v0")
		if err != nil {
			t.Fatal(err)
		}
		for setting, value := range now {
			if value != made[setting] {
				out = append(out, setting)
			}
		}
		return out
	}
	for file, setting := range files {
		write(file, "1")
		if got := changed(); len(got) != 1 || got[0] != setting {
			t.Errorf("%s was changed: %v", file, got)
		}
		write(file, "0")
	}
	write("tx-0/byte_queue_limits/limit", "7") // the kernel moves it as packets go
	if got := changed(); len(got) > 0 {
		t.Errorf("nothing was changed: %v", got)
	}
}

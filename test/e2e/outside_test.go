//go:build lab

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
)

// useOutside takes three VFs of the first PF from a host without Culvert: one carries a VLAN of the
// host, one is in a netns that somebody made by hand, and one is open in a QEMU that was started by
// hand. It pings over the VLAN all the time.
const useOutside = `set -e
name() { ls /sys/bus/pci/devices/$(basename $(readlink /sys/class/net/enp1s0/device/virtfn$1))/net; }
tagged=$(name 0); ip link set $tagged up
ip link add link $tagged name tagged.77 type vlan id 77; ip address add 10.84.77.1/24 dev tagged.77; ip link set tagged.77 up
ip netns add byhand; ip link set $(name 1) netns byhand name theirs; ip -n byhand link set theirs up
pci=$(basename $(readlink /sys/class/net/enp1s0/device/virtfn2))
echo $pci >/sys/bus/pci/devices/$pci/driver/unbind
echo vfio-pci >/sys/bus/pci/devices/$pci/driver_override; echo $pci >/sys/bus/pci/drivers_probe
systemd-run --unit byhand-qemu qemu-system-x86_64 -machine q35 -m 64 -display none -S -device vfio-pci,host=$pci
systemd-run --unit byhand-ping ping -i 0.2 -O 10.84.77.2`

// endOutside ends what useOutside began.
const endOutside = `systemctl stop byhand-ping byhand-qemu 2>/dev/null
ip link del tagged.77 2>/dev/null; ip netns del byhand 2>/dev/null
pci=$(basename $(readlink /sys/class/net/enp1s0/device/virtfn2))
echo >/sys/bus/pci/devices/$pci/driver_override
echo $pci >/sys/bus/pci/drivers/vfio-pci/unbind 2>/dev/null && echo $pci >/sys/bus/pci/drivers_probe; true`

// I2: Culvert is installed on a host whose VFs are in use. A VLAN of the host that carries traffic has
// one, a netns made by hand another, and a QEMU the third. All keep their VFs, also when settings on them change, when
// culvertd restarts and when it is killed. Culvert takes each VF over when its use ends.
func TestI2UsersOutsideKeepTheirVFs(t *testing.T) {
	n, far := nodes[0], nodes[1]
	leavesNothing(t, nodes...)
	other := plug(t, far, 77, 99)
	must(t, far, "ip", "-n", other.Netns, "address", "add", "10.84.77.2/24", "dev", "net1")

	must(t, n, "sh", "-c", "systemctl stop culvertd && rm /var/lib/culvert/ledger.db")
	t.Cleanup(func() {
		if out, err := n.Run(context.Background(), "sh", "-c", endOutside+"; systemctl start culvertd"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	must(t, n, "bash", "-c", useOutside)
	replies := func() string {
		return string(must(t, n, "sh", "-c", "journalctl -u byhand-ping -o cat | grep -c 'bytes from'; journalctl -u byhand-ping -o cat | grep 'no answer yet' | tail -n 1; true"))
	}
	awaitTrue(t, "the VLAN carries traffic", func() (any, bool) {
		r := replies()
		return r, !strings.HasPrefix(r, "0\n")
	})
	indices := func() string {
		return string(must(t, n, "sh", "-c", "cat /sys/class/net/tagged.77/iflink; ip -n byhand -o link show theirs | cut -d: -f1,2; systemctl is-active byhand-qemu byhand-ping"))
	}
	before := indices()
	kept := func(when string) {
		t.Helper()
		must(t, n, "timeout", "120", "sh", "-c", "until culvert vf list >/dev/null 2>&1; do sleep 0.2; done")
		pings := replies()
		awaitTrue(t, when+": pings go on", func() (any, bool) {
			now := replies()
			return now, now != pings
		})
		if after := indices(); after != before {
			t.Errorf("%s: they have\n%s\nand had\n%s", when, after, before)
		}
	}
	used := func(st api.NodeStatus) (by []string) {
		for _, v := range st.VFs {
			if v.PF == "enp1s0" && v.Index < 3 {
				by = append(by, fmt.Sprintf("%s: %s", v.Phase, v.UsedBy))
			}
		}
		return by
	}
	must(t, n, "systemctl", "start", "culvertd")
	kept("after the installation")
	awaitTrue(t, "the status names all users", func() (any, bool) {
		all := strings.Join(used(status(t, n)), "\n")
		return all, strings.Contains(all, "below tagged.77") && strings.Contains(all, "another network namespace") && strings.Contains(all, "qemu")
	})
	must(t, n, "sh", "-c", "for i in 0 1 2; do ip link set enp1s0 vf $i max_tx_rate 50; done")
	kept("after a setting of the PF changed")
	must(t, n, "systemctl", "restart", "culvertd")
	kept("after a restart")
	must(t, n, "systemctl", "kill", "--signal", "KILL", "culvertd")
	kept("after kill -9")

	must(t, n, "bash", "-c", endOutside)
	awaitTrue(t, "Culvert takes the VFs over", func() (any, bool) {
		st := status(t, n)
		free := 0
		for _, v := range st.VFs {
			if v.Phase == "free" && len(v.Differences) == 0 {
				free++
			}
		}
		return st.Problems, free == 14
	})
}

package claims

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/culvert-net/culvert/internal/vf"
)

// brief returns the claims of a host's files on one line each: PF, VFs, setting, value.
func brief(t *testing.T, files map[string]string) string {
	t.Helper()
	return briefOn(t, host(), files)
}

func briefOn(t *testing.T, pfs []vf.PF, files map[string]string) string {
	t.Helper()
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	rules, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range rules.On(pfs) {
		pf := c.PF
		if pf == "" {
			pf = "?"
		}
		for _, v := range c.VFs {
			pf += fmt.Sprintf("#%d", v)
		}
		out = append(out, strings.TrimSpace(pf+" "+string(c.Setting)+" "+c.Value))
	}
	return strings.Join(out, "; ")
}

// TestShellForms has the forms in which a script sets VFs up, and forms that only read. Each is the
// text of /etc/rc.local.
func TestShellForms(t *testing.T) {
	const count = "/sys/class/net/enp1s0f0/device/sriov_numvfs"
	for _, tt := range []struct{ text, want string }{
		// the number of VFs
		{"echo 4 > " + count, "enp1s0f0 sriov_numvfs 4"},
		{"echo 4 >" + count + " # all", "enp1s0f0 sriov_numvfs 4"},
		{"echo -n '4' >> " + count, "enp1s0f0 sriov_numvfs 4"},
		{`printf "4\n" > ` + count, "enp1s0f0 sriov_numvfs 4"},
		{`printf '%d\n' 4 > ` + count, "enp1s0f0 sriov_numvfs 4"},
		{"echo 4 | sudo tee " + count + " >/dev/null", "enp1s0f0 sriov_numvfs 4"},
		{"sudo tee -a " + count + " <<< 4", "enp1s0f0 sriov_numvfs 4"},
		{"sudo sh -c 'echo 4 > " + count + "'", "enp1s0f0 sriov_numvfs 4"},
		{`bash -lc "echo 4 > ` + count + `"`, "enp1s0f0 sriov_numvfs 4"},
		{"su - root -c 'echo 4 > " + count + "'", "enp1s0f0 sriov_numvfs 4"},
		{"if [ -d /sys ]; then echo 4 > " + count + "; fi", "enp1s0f0 sriov_numvfs 4"},
		{"test -e /x || { echo 0 > " + count + "; echo 4 > " + count + "; }", "enp1s0f0 sriov_numvfs"},
		{"echo 4 \\\n  > " + count, "enp1s0f0 sriov_numvfs 4"},
		{"cat /etc/vfs > " + count, "enp1s0f0 sriov_numvfs"},
		{"echo $(cat /etc/vfs) > " + count, "enp1s0f0 sriov_numvfs"},
		{"echo 4 > /sys/bus/pci/devices/0000:01:00.1/sriov_numvfs", "enp1s0f1 sriov_numvfs 4"},
		{"echo 4 > /sys/bus/pci/drivers/igb/0000:01:00.1/sriov_numvfs", "enp1s0f1 sriov_numvfs 4"},
		{"echo 4 > /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/sriov_numvfs", "enp1s0f1 sriov_numvfs 4"},
		{"echo 4 > /sys/class/net/enp1s0f?/device/sriov_numvfs", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"echo 4 > /sys/class/net/ens9/device/sriov_numvfs", "? sriov_numvfs 4"},
		// another function: an Intel GPU with SR-IOV
		{"echo 7 > /sys/bus/pci/devices/0000:00:02.0/sriov_numvfs", ""},
		// variables and loops
		{"NIC=enp1s0f0\nN=4\necho ${N} > /sys/class/net/${NIC}/device/sriov_numvfs", "enp1s0f0 sriov_numvfs 4"},
		{"export NIC=\"enp1s0f0\"\necho ${N:-6} > \"/sys/class/net/$NIC/device/sriov_numvfs\"", "enp1s0f0 sriov_numvfs 6"},
		{"F=" + count + "; echo 4 > $F", "enp1s0f0 sriov_numvfs 4"},
		{"PCI=$(ethtool -i enp1s0f1 | awk '/bus-info/ {print $2}')\necho 4 > /sys/bus/pci/devices/$PCI/sriov_numvfs", "enp1s0f1 sriov_numvfs 4"},
		{"for n in enp1s0f0 enp1s0f1; do\n  echo 4 > /sys/class/net/$n/device/sriov_numvfs\ndone", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"NICS='enp1s0f0 enp1s0f1'\nfor n in $NICS; do echo 4 > /sys/class/net/$n/device/sriov_numvfs; done", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"NICS=(enp1s0f1)\nfor n in \"${NICS[@]}\"; do echo 4 > /sys/class/net/$n/device/sriov_numvfs; done", "enp1s0f1 sriov_numvfs 4"},
		{"for n in enp1s0f{0,1}; do echo 4 > /sys/class/net/$n/device/sriov_numvfs; done", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"while read n; do echo 4 > /sys/class/net/$n/device/sriov_numvfs; done < /etc/nics", "? sriov_numvfs 4"},
		{". /etc/default/vfs\necho $N > /sys/class/net/$NIC/device/sriov_numvfs", "enp1s0f1 sriov_numvfs 5"},
		{"if [ \"$IFACE\" = enp1s0f1 ]; then\n echo 4 > /sys/class/net/$IFACE/device/sriov_numvfs\nfi", "enp1s0f1 sriov_numvfs 4"},
		{"I=$1\n[ \"$I\" != enp1s0f1 ] && exit 0\necho 4 > /sys/class/net/$I/device/sriov_numvfs", "enp1s0f1 sriov_numvfs 4"},
		{"case \"$1\" in\n enp1s0f1) echo 4 > /sys/class/net/$1/device/sriov_numvfs ;;\nesac", "enp1s0f1 sriov_numvfs 4"},
		{"[ \"$2\" = 0 ] && exit 0\necho $2 > " + count, "enp1s0f0 sriov_numvfs"}, // 0 is no value that is written
		{"echo 4 > /sys/bus/pci/devices/0000:01:00.*/sriov_numvfs", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"cd /sys/class/net/enp1s0f1/device && echo 4 > sriov_numvfs", "enp1s0f1 sriov_numvfs 4"},
		{"DEV=/sys/class/net/enp1s0f1/device\necho $(( 3 + 1 )) > $DEV/sriov_numvfs", "enp1s0f1 sriov_numvfs 4"},
		// settings of VFs
		{"ip link set enp1s0f0 vf 0 mac 02:00:00:00:00:01", "enp1s0f0#0 VF settings"},
		{"/sbin/ip -force l set dev enp1s0f0 vf 1 vlan 30 qos 2", "enp1s0f0#1 VF settings"},
		{"ip link set vf 1 trust on dev enp1s0f0", "enp1s0f0#1 VF settings"},
		{"ip link set enp1s0f0 vf 1 max_tx_rate 100 min_tx_rate 10", "enp1s0f0#1 VF settings"},
		{"ip link set enp1s0f0 vf 1 state enable vf 2 spoofchk off", "enp1s0f0#1#2 VF settings"},
		{"for i in {0..2}; do ip link set enp1s0f0 vf $i trust on; done", "enp1s0f0#0#1#2 VF settings"},
		{"for i in `seq 2`; do ip link set enp1s0f0 vf $i trust on; done", "enp1s0f0#1#2 VF settings"},
		{"for i in $(seq 0 2 2); do ip link set enp1s0f0 vf $i trust on; done", "enp1s0f0#0#2 VF settings"},
		{"N=2\nfor ((i=0; i<N; i++)); do ip link set enp1s0f0 vf $i trust on; done", "enp1s0f0#0#1 VF settings"},
		{"N=3\nfor i in $(seq 0 $((N-1))); do ip link set enp1s0f0 vf $i trust on; done", "enp1s0f0#0#1#2 VF settings"},
		{"sudo bash -c \"for i in {0..1}; do ip link set enp1s0f0 vf \\$i trust on; done\"", "enp1s0f0#0#1 VF settings"},
		{"i=0\nwhile [ $i -lt 4 ]; do ip link set enp1s0f0 vf $((i)) trust on; done", "enp1s0f0#0#1#2#3 VF settings"},
		{"ip -b /etc/vfs.batch", "enp1s0f0#1 VF settings"},
		{"echo 02:00:00:00:00:01 > /sys/class/net/enp1s0f0/device/sriov/2/mac", "enp1s0f0#2 VF settings 02:00:00:00:00:01"},
		{"devlink port function set pci/0000:01:00.1/2 hw_addr 02:00:00:00:00:01", "enp1s0f1 VF settings"},
		{"nmcli con modify lan ifname enp1s0f0 sriov.total-vfs 4 sriov.vfs '0 trust=true'", "enp1s0f0 VF settings; enp1s0f0 sriov_numvfs 4"},
		{"incus config device add c1 eth0 nic nictype=sriov parent=enp1s0f1 vlan=5", "enp1s0f1 VF settings; enp1s0f1 sriov_numvfs"},
		{"lxc network create vfs --type=sriov parent=enp1s0f1", "enp1s0f1 VF settings; enp1s0f1 sriov_numvfs"},
		{"lxc profile device add default eth0 nic nictype=bridged parent=br0", ""},
		// the mode of the switch
		{"devlink dev eswitch set pci/0000:01:00.1 mode switchdev", "enp1s0f1 eswitch mode switchdev"},
		{"devlink dev param set pci/0000:01:00.1 name x value 1 cmode runtime", ""},
		{"echo switchdev > /sys/class/net/enp1s0f1/compat/devlink/mode", "enp1s0f1 eswitch mode switchdev"},
		// the driver
		{"driverctl set-override 0000:01:10.2 vfio-pci", "enp1s0f0#1 driver vfio-pci"},
		{"driverctl -v --nosave set-override 0000:01:10.2 vfio-pci", "enp1s0f0#1 driver vfio-pci"},
		{"driverctl unset-override 0000:01:10.2", "enp1s0f0#1 driver"},
		{"driverctl set-override 0000:65:00.0 vfio-pci", ""}, // a GPU
		{"driverctl list-overrides", ""},
		{"dpdk-devbind.py -b vfio-pci 0000:01:10.0 01:10.2", "enp1s0f0#0#1 driver vfio-pci"},
		{"dpdk-devbind.py --bind=igb_uio enp1s0f1", "enp1s0f1 driver igb_uio"},
		{"dpdk-devbind.py -u 0000:01:10.0", "enp1s0f0#0 driver"},
		{"dpdk-devbind.py --status", ""},
		{"virsh nodedev-detach pci_0000_01_10_4", "enp1s0f0#2 driver vfio-pci"},
		{"virsh -c qemu:///system list", ""},
		{"echo vfio-pci > /sys/bus/pci/devices/0000:01:10.0/driver_override", "enp1s0f0#0 driver vfio-pci"},
		{"echo vfio-pci > /sys/class/net/enp1s0f0/device/virtfn2/driver_override", "enp1s0f0#2 driver vfio-pci"},
		{"echo 0000:01:10.0 > /sys/bus/pci/drivers/vfio-pci/bind", "enp1s0f0#0 driver vfio-pci"},
		{"echo 0000:01:10.0 > /sys/bus/pci/drivers/igbvf/unbind", "enp1s0f0#0 driver"},
		{"echo 0000:01:10.0 > /sys/bus/pci/drivers_probe", "enp1s0f0#0 driver"},
		{"echo '8086 10ca' > /sys/bus/pci/drivers/vfio-pci/new_id", "enp1s0f0#0#1#2 driver vfio-pci"},
		{"echo 10de 2204 > /sys/bus/pci/drivers/vfio-pci/new_id", ""},
		{"modprobe vfio-pci ids=8086:10ca,10de:2204", "enp1s0f0#0#1#2 driver vfio-pci"},
		{"modprobe igb max_vfs=3", "enp1s0f0 sriov_numvfs 3; enp1s0f1 sriov_numvfs 3"},
		{"modprobe vfio-pci", ""},
		// lines that only read
		{"cat " + count, ""},
		{"cat " + count + " > /var/log/vfs.log", ""},
		{"test $(cat " + count + ") -gt 0 && exit 0 2>/dev/null", ""},
		{"N=$(cat " + count + ")", ""},
		{"[ -w " + count + " ] || exit 1 >&2", ""},
		{"while [ $(<" + count + ") = 0 ]; do sleep 1; done", ""},
		{"grep -q 4 < " + count, ""},
		{"ip link show enp1s0f0 | grep 'vf 3'", ""},
		{"ip -d link show dev enp1s0f0", ""},
		{"devlink dev eswitch show pci/0000:01:00.0", ""},
		{"echo 'echo 4 > " + count + "'", ""},
		{"# echo 4 > " + count, ""},
		{"cat > /root/x.sh <<EOF\necho 4 > " + count + "\nEOF\necho 5 > /sys/class/net/enp1s0f1/device/sriov_numvfs", "enp1s0f1 sriov_numvfs 5"},
		{"logger wrote 4 to sriov_numvfs of enp1s0f0 > /dev/null", ""},
		{"udevadm info -a " + count + " > /tmp/sriov_numvfs.txt", ""},
	} {
		got := brief(t, map[string]string{
			"etc/rc.local":    "#!/bin/bash\n" + tt.text + "\n",
			"etc/default/vfs": "# of this host\nNIC=enp1s0f1\nN=5\n",
			"etc/vfs.batch":   "link set enp1s0f0 vf 1 vlan 3\nlink show\n",
		})
		if got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

// TestPlaces has each place in which people set VFs up, with a form of its own.
func TestPlaces(t *testing.T) {
	const (
		write  = "echo 4 > /sys/class/net/enp1s0f0/device/sriov_numvfs"
		script = "#!/bin/sh\n" + write + "\n"
		four   = "enp1s0f0 sriov_numvfs 4"
		unit   = "[Service]\nExecStart=/bin/sh -c '" + write + "'\n"
	)
	for _, tt := range []struct{ name, text, want string }{
		{"etc/rc.local", script, four},
		{"etc/rc.d/rc.local", script, four},
		{"etc/init.d/vfs", script, four},
		{"etc/network/if-up.d/vfs", script, four},
		{"etc/network/if-pre-up.d/vfs", script, four},
		{"etc/network/if-down.d/vfs", script, four},
		{"etc/network/if-post-down.d/vfs", script, four},
		{"etc/NetworkManager/dispatcher.d/10-vfs", script, four},
		{"etc/NetworkManager/dispatcher.d/pre-up.d/10-vfs", script, four},
		{"etc/networkd-dispatcher/routable.d/vfs", script, four},
		{"etc/networkd-dispatcher/configured.d/vfs", script, four},
		{"etc/cron.daily/vfs", script, four},
		{"etc/libvirt/hooks/qemu", script, four},
		{"sbin/ifup-local", script, four},
		{"etc/init.d/vfs", "\x7fELF" + write, ""}, // no script
		{"etc/crontab", "SHELL=/bin/sh\n@reboot root " + write + "\n", four},
		{"etc/cron.d/vfs", "*/5 * * * * root  sleep 5 && " + write + "\n", four},
		{"var/spool/cron/crontabs/root", "@reboot " + write + "\n", four},
		{"var/spool/cron/root", "0 * * * * " + write + "\n", four},
		{"etc/sysfs.d/vfs.conf", "class/net/enp1s0f0/device/sriov_numvfs = 4\nmode class/net/enp1s0f1/device/sriov_numvfs = 0644\n", four},
		{"etc/tmpfiles.d/vfs.conf", "w /sys/class/net/enp1s0f0/device/sriov_numvfs - - - - 4\nz /sys/class/net/enp1s0f1/device/sriov_numvfs 0644 - - - 3\n", four},
		{"usr/lib/tmpfiles.d/vfs.conf", "w+ /sys/class/net/enp1s0f0/device/sriov_numvfs - - - - 4\n", four},
		{"etc/systemd/system/vfs.service", unit, four},
		{"usr/lib/systemd/system/vfs.service", unit, four},
		{"etc/systemd/system/x.service.d/vfs.conf", unit, four},
		{"usr/lib/systemd/system/x.service.d/vfs.conf", "[Service]\nExecStartPre=-/bin/sh -c \\\n  '" + write + "'\n", four},
		{"etc/systemd/system/vfs.service", "[Unit]\nDescription=" + write + "\n", ""},
		{"etc/systemd/system/vfs.service", "[Service]\nEnvironment=\"NIC=enp1s0f0\" N=4\nExecStart=/bin/sh -c 'echo ${N} > /sys/class/net/${NIC}/device/sriov_numvfs'\n", four},
		{"etc/systemd/system/vfs@.service", "[Service]\nExecStart=/bin/sh -c 'echo 4 > /sys/class/net/%i/device/sriov_numvfs'\n", "? sriov_numvfs 4"},
		{"etc/udev/rules.d/x.rules", `ACTION=="add", KERNEL=="enp1s0f0", RUN+="/bin/sh -c '` + write + `'"`, four},
		{"etc/udev/rules.d/x.rules", `KERNEL=="enp1s0f0", RUN{program}+="/bin/sh -c 'echo 4 > /sys/class/net/%k/device/sriov_numvfs'"`, four},
		{"etc/udev/rules.d/x.rules", `DRIVERS=="igb", KERNEL=="enp1s0f*", RUN+="/bin/sh -c 'echo 4 > /sys$devpath/device/sriov_numvfs'"`, "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"usr/lib/udev/rules.d/x.rules", `SUBSYSTEM=="pci", ATTR{vendor}=="0x8086", ATTR{device}=="0x10c9", ATTR{sriov_numvfs}="4"`, "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"run/udev/rules.d/x.rules", `SUBSYSTEM=="net", ATTR{address}=="90:e2:ba:00:00:01", ATTR{device/sriov_numvfs}="4"`, four},
		{"etc/udev/rules.d/x.rules", `KERNEL=="enp1s0f0|enp1s0f1", RUN+="/sbin/ip link set %k vf 0 trust on"`, "enp1s0f0#0 VF settings; enp1s0f1#0 VF settings"},
		{"etc/udev/rules.d/x.rules", `KERNEL=="enp1s0f0", PROGRAM=="/bin/sh -c 'echo 4 > /sys/class/net/%k/device/sriov_numvfs'"`, four},
		{"etc/udev/rules.d/x.rules", `ENV{ID_PATH}=="pci-0000:01:00.0", ATTR{device/sriov_numvfs}="4"`, four},
		{"etc/udev/rules.d/x.rules", `SUBSYSTEM=="net", DRIVERS=="ixgbe", ATTR{device/sriov_numvfs}="4"`, ""},
		{"etc/udev/rules.d/x.rules", `SUBSYSTEM=="net", KERNEL=="eth2", ATTR{device/sriov_numvfs}="4"`, "? sriov_numvfs 4"}, // perhaps renamed since
		{"etc/udev/rules.d/x.rules", `KERNEL=="enp1s0f0", ATTR{device/sriov_numvfs}=="4", RUN+="/bin/true"`, ""},
		{"etc/udev/rules.d/x.rules", `SUBSYSTEM=="pci", KERNEL=="0000:01:10.2", ATTR{driver_override}="vfio-pci"`, "enp1s0f0#1 driver vfio-pci"},
		{"etc/modprobe.d/x.conf", "options igb max_vfs=4\noptions ixgbe max_vfs=8\n", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"usr/lib/modprobe.d/x.conf", "options mlx4_core num_vfs=4 probe_vf=0\n", ""},
		{"etc/modprobe.d/x.conf", "options igb InterruptThrottleRate=1 \\\n  max_vfs=4\n", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"etc/modprobe.d/x.conf", "options vfio-pci ids=8086:10CA,10de:2204 disable_vga=1\n", "enp1s0f0#0#1#2 driver vfio-pci"},
		{"etc/modprobe.d/x.conf", "options vfio-pci ids=8086:10ca:8086:a03c\n", "enp1s0f0#0#1#2 driver vfio-pci"},
		{"etc/modprobe.d/x.conf", "options igb max_vfs=4,2\n", "enp1s0f0 sriov_numvfs 4,2; enp1s0f1 sriov_numvfs 4,2"},
		{"etc/modprobe.d/x.conf", "options vfio_pci disable_vga=1\n", ""},
		{"etc/modprobe.d/x.conf", "install igb /sbin/modprobe --ignore-install igb && " + write + "\n", four},
		{"proc/cmdline", "root=/dev/sda1 vfio-pci.ids=8086:10ca\n", "enp1s0f0#0#1#2 driver vfio-pci"},
		{"etc/kernel/cmdline", "igb.max_vfs=4\n", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"boot/loader/entries/a.conf", "title x\noptions root=/dev/sda1 igb.max_vfs=4\n", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"etc/default/grub.d/x.cfg", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX igb.max_vfs=4\"\n", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"etc/systemd/system/vfs.service", "[Service]\nExecStart=/bin/sh -c 'for i in 0 1; do ip link set enp1s0f0 vf $$i trust on; done'\n", "enp1s0f0#0#1 VF settings"},
		{"etc/dpdk/interfaces", "# bus id driver\npci 0000:01:10.2 vfio-pci\n", "enp1s0f0#1 driver vfio-pci"},
		{"etc/driverctl.d/0000:01:10.2", "vfio-pci\n", "enp1s0f0#1 driver vfio-pci"},
		{"etc/driverctl.d/pci-0000:01:00.1", "vfio-pci\n", "enp1s0f1 driver vfio-pci"},
		{"etc/driverctl.d/0000:65:00.0", "vfio-pci\n", ""},
		{"etc/os-net-config/config.yaml", "network_config:\n- type: linux_bond\n  members:\n  - {type: sriov_pf, name: enp1s0f0, numvfs: 4, link_mode: switchdev}\n", "enp1s0f0 eswitch mode switchdev; enp1s0f0 sriov_numvfs 4"},
		{"etc/os-net-config/config.json", `{"network_config": [{"type": "sriov_vf", "device": "enp1s0f0", "vfid": 2, "vlan_id": 5, "driver": "vfio-pci"}]}`, "enp1s0f0#2 VF settings; enp1s0f0#2 driver vfio-pci"},
		{"var/lib/incus/containers/c1/backup.yaml", "container:\n  expanded_devices:\n    eth0: {type: nic, nictype: sriov, parent: enp1s0f0, vlan: \"10\"}\n", "enp1s0f0 VF settings; enp1s0f0 sriov_numvfs"},
		{"var/snap/lxd/common/lxd/virtual-machines/v1/backup.yaml", "instance:\n  devices:\n    eth0: {type: nic, nictype: sriov, parent: enp1s0f0}\n", "enp1s0f0 VF settings; enp1s0f0 sriov_numvfs"},
		{"etc/incus/preseed.yaml", "networks:\n- name: vfs\n  type: sriov\n  config: {parent: enp1s0f1}\n", "enp1s0f1 VF settings; enp1s0f1 sriov_numvfs"},
		{"var/lib/incus/containers/c1/backup.yaml", "devices:\n  eth0: {type: nic, nictype: macvlan, parent: enp1s0f0}\n", ""},
		{"etc/systemd/network/a.link", "[Match]\nDriver=igb\n[SR-IOV]\nVirtualFunction=0\n[SR-IOV]\nVirtualFunction=5\n[Link]\nSR-IOVVirtualFunctions=2\n",
			"enp1s0f0#0 VF settings; enp1s0f0#5 VF settings; enp1s0f0 sriov_numvfs 2; enp1s0f1#0 VF settings; enp1s0f1#5 VF settings; enp1s0f1 sriov_numvfs 2"},
	} {
		if got := brief(t, map[string]string{tt.name: tt.text}); got != tt.want {
			t.Errorf("/%s: %s\n got %s\nwant %s", tt.name, tt.text, got, tt.want)
		}
	}
}

// TestManyFiles has forms that take more than one file: scripts that other files name, the instances
// of a template, files of variables.
func TestManyFiles(t *testing.T) {
	const script = "#!/bin/sh\necho ${2:-4} > /sys/class/net/$1/device/sriov_numvfs\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a unit", map[string]string{"etc/systemd/system/a.service": "[Service]\nExecStart=/opt/vfs enp1s0f0 6\n", "opt/vfs": script}, "enp1s0f0 sriov_numvfs 6"},
		{"a unit by a shell", map[string]string{"etc/systemd/system/a.service": "[Service]\nExecStart=/bin/bash -e /opt/vfs enp1s0f0\n", "opt/vfs": strings.TrimPrefix(script, "#!/bin/sh\n")}, "enp1s0f0 sriov_numvfs 4"},
		{"one of two", map[string]string{"etc/systemd/system/a.service": "[Service]\nExecStart=/opt/vfs enp1s0f0\nExecStart=/opt/vfs enp1s0f1 6\n", "opt/vfs": script}, "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 6"},
		{"a program", map[string]string{"etc/systemd/system/a.service": "[Service]\nExecStart=/opt/vfs enp1s0f0\n", "opt/vfs": "\x7fELF" + script}, ""},
		{"cron", map[string]string{"etc/cron.d/a": "@reboot root /opt/vfs enp1s0f0\n", "opt/vfs": script}, "enp1s0f0 sriov_numvfs 4"},
		{"udev", map[string]string{"etc/udev/rules.d/a.rules": `DRIVERS=="igb", KERNEL=="enp1s0f1", RUN+="vfs %k"`, "usr/lib/udev/vfs": script}, "enp1s0f1 sriov_numvfs 4"},
		{"udev's environment", map[string]string{"etc/udev/rules.d/a.rules": `KERNEL=="enp1s0f1", RUN+="/opt/vfs"`, "opt/vfs": "#!/bin/sh\necho 4 > /sys/class/net/$INTERFACE/device/sriov_numvfs\n"}, "enp1s0f1 sriov_numvfs 4"},
		{"a script of a script", map[string]string{"etc/rc.local": "#!/bin/sh\nsh /opt/a\n", "opt/a": "/opt/vfs enp1s0f0 3\n", "opt/vfs": script}, "enp1s0f0 sriov_numvfs 3"},
		{"two scripts that call each other", map[string]string{"etc/rc.local": "#!/bin/sh\n/opt/a x\n", "opt/a": "#!/bin/sh\n/opt/b $1$1\n", "opt/b": "#!/bin/sh\n/opt/a $1$1\n"}, ""},
		{"ifupdown", map[string]string{"run/network/ifstate": "", "etc/network/interfaces": "iface enp1s0f1 inet manual\n up /opt/vfs $IFACE 2\n", "opt/vfs": script}, "enp1s0f1 sriov_numvfs 2"},
		{"a template", map[string]string{"etc/systemd/system/v@.service": "[Service]\nExecStart=/opt/vfs %i 2\n", "etc/systemd/system/multi-user.target.wants/v@enp1s0f1.service": "", "opt/vfs": script}, "enp1s0f1 sriov_numvfs 2"},
		{"a file of variables", map[string]string{"etc/systemd/system/v.service": "[Service]\nEnvironmentFile=-/etc/sysconfig/vfs\nExecStart=/bin/sh -c 'echo ${N} > /sys/class/net/${NIC}/device/sriov_numvfs'\n", "etc/sysconfig/vfs": "NIC=enp1s0f1\nN=3\n"}, "enp1s0f1 sriov_numvfs 3"},
		{"a rule that hides a package's", map[string]string{"etc/udev/rules.d/a.rules": "# off\n", "usr/lib/udev/rules.d/a.rules": `KERNEL=="enp1s0f1", ATTR{device/sriov_numvfs}="4"`}, ""},
	} {
		if got := brief(t, tt.files); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestUnmanagedByUdev: NetworkManager leaves a device alone if udev's database has NM_UNMANAGED, or,
// for a device that is not in the database, if a rule sets it.
func TestUnmanagedByUdev(t *testing.T) {
	const (
		rule    = `SUBSYSTEM=="net", ACTION=="add|change", DRIVERS=="igb*", ENV{NM_UNMANAGED}="1"` + "\n"
		pfs     = "enp1s0f0 managed; enp1s0f1 managed"
		all     = "enp1s0f0 managed; enp1s0f0#0#1 managed; enp1s0f1 managed"
		without = "enp1s0f0#0#1 managed; enp1s0f1 managed"
	)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, all},
		{"the rule", map[string]string{"etc/udev/rules.d/a.rules": rule}, ""},
		{"of a package", map[string]string{"usr/lib/udev/rules.d/a.rules": `KERNEL=="enp1s0f0v*", ENV{NM_UNMANAGED}="1"`}, pfs},
		{"undone by a later rule", map[string]string{"etc/udev/rules.d/a.rules": rule + `KERNEL=="enp1s0f?", ENV{NM_UNMANAGED}="0"`}, pfs},
		{"on a condition that is not known", map[string]string{"etc/udev/rules.d/a.rules": `DRIVERS=="igb*", TAG=="x", ENV{NM_UNMANAGED}="1"`}, all},
		{"for another driver", map[string]string{"etc/udev/rules.d/a.rules": `DRIVERS=="veth", ENV{NM_UNMANAGED}="1"`}, all},
		{"in the database", map[string]string{"run/udev/data/n4": "E:ID_PATH=pci-0000:01:00.0\nE:NM_UNMANAGED=1\n", "run/udev/data/+pci:0000:01:00.1": "E:ID_PATH=pci-0000:01:00.1\nE:NM_UNMANAGED=1\n"}, without},
		{"the database, not the rule", map[string]string{"etc/udev/rules.d/a.rules": rule, "run/udev/data/n4": "E:ID_PATH=pci-0000:01:00.0\n"}, "enp1s0f0 managed"},
		{"and a later file adds one", map[string]string{"etc/NetworkManager/conf.d/a.conf": "[keyfile]\nunmanaged-devices=interface-name:none\nunmanaged-devices+=interface-name:enp1s0f?\n"}, "enp1s0f0#0#1 managed"},
		{"and a later file takes one away", map[string]string{"etc/NetworkManager/conf.d/a.conf": "[keyfile]\nunmanaged-devices=interface-name:none,interface-name:enp1s0f?\nunmanaged-devices-=interface-name:enp1s0f?\n"}, all},
		{"NetworkManager's own file decides", map[string]string{"etc/udev/rules.d/a.rules": rule, "etc/NetworkManager/conf.d/a.conf": "[device-a]\nmatch-device=driver:igb\nmanaged=1\n"}, pfs},
	} {
		files := map[string]string{"run/NetworkManager/devices/2": ""}
		for name, text := range tt.files {
			files[name] = text
		}
		if got := brief(t, files); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestIfcfg: NetworkManager reads RHEL's files unless NM_CONTROLLED=no, and then the service network
// reads them where it is installed.
func TestIfcfg(t *testing.T) {
	const nm, scripts, at = "run/NetworkManager/devices/2", "etc/sysconfig/network-scripts/ifup-eth", "etc/sysconfig/network-scripts/ifcfg-"
	leave := map[string]string{"etc/NetworkManager/conf.d/a.conf": "[main]\nno-auto-default=*\n"}
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"without a program", map[string]string{at + "enp1s0f0": "SRIOV_TOTAL_VFS=7\n"}, ""},
		{"the service network alone", map[string]string{scripts: "", at + "enp1s0f0": "SRIOV_TOTAL_VFS=7\n"}, "enp1s0f0 managed"},
		{"of a VF", map[string]string{nm: "", at + "enp1s0f0v1": "export PATH\nDEVICE=enp1s0f0v1\nSRIOV_TOTAL_VFS=7\n"}, "enp1s0f0#1 managed"},
		{"NetworkManager", map[string]string{nm: "", at + "x": "HWADDR=90:E2:BA:00:00:01\nSRIOV_TOTAL_VFS=\"7\"\nSRIOV_VF2=vlans=3\n"}, "enp1s0f0 managed; enp1s0f0 sriov_numvfs 7; enp1s0f0#2 VF settings vlans=3"},
		{"not NetworkManager's", map[string]string{nm: "", at + "enp1s0f0": "SRIOV_TOTAL_VFS=7\nNM_CONTROLLED=no\n"}, ""},
		{"the service network", map[string]string{nm: "", scripts: "", at + "enp1s0f0v1": "DEVICE=enp1s0f0v1\nNM_CONTROLLED='no'\n"}, "enp1s0f0#1 managed"},
		{"another type", map[string]string{nm: "", at + "enp1s0f0": "TYPE=Bond\nDEVICE=enp1s0f0\nMTU=9000\n"}, ""},
		{"another NIC", map[string]string{nm: "", at + "eno1": "SRIOV_TOTAL_VFS=7\n"}, ""},
	} {
		files := map[string]string{}
		for _, m := range []map[string]string{leave, tt.files} {
			for name, text := range m {
				files[name] = text
			}
		}
		if got := brief(t, files); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestESwitchOfProfile: eswitch-mode of a profile is a claim unless it keeps the present mode.
func TestESwitchOfProfile(t *testing.T) {
	for value, want := range map[string]string{
		"1": "enp1s0f0 eswitch mode switchdev; ", "switchdev": "enp1s0f0 eswitch mode switchdev; ", "0": "enp1s0f0 eswitch mode legacy; ",
		"-1": "", "preserve": "", "": "",
	} {
		got := brief(t, map[string]string{
			"run/NetworkManager/devices/2":            "",
			"etc/NetworkManager/conf.d/a.conf":        "[keyfile]\nunmanaged-devices=except:interface-name:enp1s0f0\n",
			"etc/NetworkManager/system-connections/a": "[connection]\nid=a\ntype=ethernet\ninterface-name=enp1s0f0\n[sriov]\ntotal-vfs=4\neswitch-mode=" + value + "\n",
		})
		if want = "enp1s0f0 managed; enp1s0f0 sriov_numvfs 4; " + want; got+"; " != want {
			t.Errorf("%q:\n got %s\nwant %s", value, got, want)
		}
	}
}

package claims

import "testing"

// TestFunctionsOfShell: a function counts with the arguments of its calls, or without if no line calls it.
func TestFunctionsOfShell(t *testing.T) {
	const setup = "setup() {\n  local pf=$1 n=${2:-3}\n  echo $n > /sys/class/net/$pf/device/sriov_numvfs\n}\n"
	for _, tt := range []struct{ text, want string }{
		{setup + "setup enp1s0f1 2", "enp1s0f1 sriov_numvfs 2"},
		{setup + "setup enp1s0f0 || exit 1", "enp1s0f0 sriov_numvfs 3"},
		{setup + "for i in enp1s0f0 enp1s0f1; do setup $i; done", "enp1s0f0 sriov_numvfs 3; enp1s0f1 sriov_numvfs 3"},
		{setup + "main() { setup \"$@\"; }\nmain enp1s0f1 5", "enp1s0f1 sriov_numvfs 5"},
		{setup + "trap setup EXIT", "? sriov_numvfs 3"},
		{"function setup\n{\n  echo 4 > /sys/bus/pci/devices/$1/sriov_numvfs\n}\nsetup 0000:01:00.1\n", "enp1s0f1 sriov_numvfs 4"},
		{"function setup {\n  awk '/x/ { print }' /x\n  if true; then { :; }; fi\n}\nsetup\necho 4 > /sys/class/net/enp1s0f1/device/sriov_numvfs", "enp1s0f1 sriov_numvfs 4"},
		{"setup() { cat > /x <<EOF\n}\nEOF\necho 4 > /sys/class/net/$1/device/sriov_numvfs; }\nsetup enp1s0f1", "enp1s0f1 sriov_numvfs 4"},
		{"set_vf() {\n  case $1 in\n  --pf) pf=$2 ;;\n  esac\n  shift 2\n  ip link set $pf vf $1 trust on\n}\nset_vf --pf enp1s0f1 3", "enp1s0f1#3 VF settings"},
		{"each() { for d; do echo 4 > /sys/class/net/$d/device/sriov_numvfs; done; }\neach enp1s0f0 enp1s0f1", "enp1s0f0 sriov_numvfs 4; enp1s0f1 sriov_numvfs 4"},
		{"again() { again $1; echo 4 > /sys/class/net/$1/device/sriov_numvfs; }\nagain enp1s0f1", "enp1s0f1 sriov_numvfs 4"},
		{"f() {\n while getopts \"i:n:\" o; do\n case $o in\n i) pf=$OPTARG ;;\n n) n=$OPTARG ;;\n esac\n done\n echo $n > /sys/class/net/$pf/device/sriov_numvfs\n}\nf -i enp1s0f1 -n4", "enp1s0f1 sriov_numvfs 4"},
		{". /etc/lib.sh\nmake_vfs enp1s0f1", "enp1s0f1 sriov_numvfs 6"},
	} {
		got := brief(t, map[string]string{
			"etc/rc.local": "#!/bin/bash\n" + tt.text + "\n",
			"etc/lib.sh":   "make_vfs() {\n  echo 6 > /sys/class/net/$1/device/sriov_numvfs\n}\n",
		})
		if got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

// TestValuesOfShell has the forms in which a script keeps the name of a PF, a number or a folder.
func TestValuesOfShell(t *testing.T) {
	const four = "enp1s0f1 sriov_numvfs 4"
	for _, tt := range []struct{ text, want string }{
		{"PFS=(\n  enp1s0f0 # left\n  enp1s0f1\n)\nfor p in ${PFS[@]}; do echo 4 > /sys/class/net/$p/device/sriov_numvfs; done", "enp1s0f0 sriov_numvfs 4; " + four},
		{"PFS=\"\nenp1s0f1\n\"\nfor p in $PFS; do echo 4 > /sys/class/net/$p/device/sriov_numvfs; done", four},
		{"PFS=(enp1s0f0 enp1s0f1)\necho 4 > /sys/class/net/${PFS[1]}/device/sriov_numvfs", four},
		{"P=${1:-${PF:-enp1s0f1}}\necho 4 > /sys/class/net/$P/device/sriov_numvfs", four},
		{": ${P:=enp1s0f1}\nP=enp1s0f1\necho 4 > /sys/class/net/${P:?no PF}/device/sriov_numvfs", four},
		{"D=/sys/class/net/enp1s0f1\necho 4 > /sys/class/net/${D##*/}/device/sriov_numvfs", four},
		{"for d in enp1s0f0 enp1s0f1; do\n cd /sys/class/net/$d/device\n echo 4 > sriov_numvfs\ndone", "enp1s0f0 sriov_numvfs 4; " + four},
		{"pushd /sys/class/net/enp1s0f1\ncd device\necho 4 > sriov_numvfs", four},
		{"f=$(find /sys/devices -name sriov_numvfs | grep 0000:01:00.1)\necho 4 > $f", four},
		{"echo 4 > /sys/class/net/${p%%:*}/device/sriov_numvfs", "? sriov_numvfs 4"}, // no pattern
		{"N=3\ni=0\nwhile [ $i -lt $N ]; do\n ip link set enp1s0f1 vf $i trust on\n i=$((i+1))\ndone", "enp1s0f1#0#1#2 VF settings"},
		{"i=first\nwhile [ $i -lt 4 ]; do ip link set enp1s0f1 vf $i trust on; done", "enp1s0f1 VF settings"},
		{"i=1\nuntil (( i > 2 )); do ip link set enp1s0f1 vf $((i)) trust on; done", "enp1s0f1#1#2 VF settings"},
		{"declare -A VFS=( [enp1s0f0]=4 [\"enp1s0f1\"]=4 )\nfor p in \"${!VFS[@]}\"; do echo ${VFS[$p]} > /sys/class/net/$p/device/sriov_numvfs; done", "enp1s0f0 sriov_numvfs; enp1s0f1 sriov_numvfs"},
		{"PFS=enp1s0f0,enp1s0f1\nfor p in ${PFS//,/ }; do echo 4 > /sys/class/net/$p/device/sriov_numvfs; done", "enp1s0f0 sriov_numvfs 4; " + four},
		// VFs by their links
		{"echo $(basename $(readlink /sys/class/net/enp1s0f0/device/virtfn1)) > /sys/bus/pci/drivers/vfio-pci/bind", "enp1s0f0#1 driver vfio-pci"},
		{"driverctl set-override $(basename $(readlink /sys/class/net/enp1s0f0/device/virtfn0)) vfio-pci", "enp1s0f0#0 driver vfio-pci"},
		{"for v in /sys/class/net/enp1s0f0/device/virtfn*; do echo vfio-pci > $v/driver_override; done", "enp1s0f0#0#1#2 driver vfio-pci"},
		{"echo \"\\$4\" 2>&1 > /sys/class/net/enp1s0f1/device/sriov_numvfs", "enp1s0f1 sriov_numvfs"},
		// programs that run another
		{"timeout 5s ip link set enp1s0f1 vf 0 vlan 3", "enp1s0f1#0 VF settings"},
		{"ip netns exec red ip link set enp1s0f1 vf 0 vlan 3", "enp1s0f1#0 VF settings"},
		{"flock /run/vfs ip link set enp1s0f1 vf 0 vlan 3", "enp1s0f1#0 VF settings"},
		{"python3 /opt/dpdk/usertools/dpdk-devbind.py --bind vfio-pci 0000:01:10.4", "enp1s0f0#2 driver vfio-pci"},
		{"nsenter -t 1 -n ip link set enp1s0f1 vf 0 vlan 3", "enp1s0f1#0 VF settings"},
		// other scripts
		{"cd /opt/vfs\n./make.sh enp1s0f1", four},
		{"/opt/vfs/outer.sh", four},
		{"for p in enp1s0f0 enp1s0f1; do /opt/vfs/make.sh $p; done", "enp1s0f0 sriov_numvfs 4; " + four},
	} {
		got := brief(t, map[string]string{
			"etc/rc.local":     "#!/bin/bash\n" + tt.text + "\n",
			"opt/vfs/make.sh":  "#!/bin/sh\necho 4 > /sys/class/net/$1/device/sriov_numvfs\n",
			"opt/vfs/outer.sh": "#!/bin/bash\nHERE=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" >/dev/null 2>&1 && pwd)\nsource $HERE/lib/pf.sh\n",
			"opt/vfs/lib/pf.sh": "L=$(dirname \"$BASH_SOURCE\")\n$(dirname $(readlink -f $0))/make.sh ${PF:-enp1s0f1}\n" +
				"[ -e $L/x ] && ${0%/*}/make.sh enp1s0f1\n",
		})
		if got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

// TestMorePlaces has the places of cloud-init, nmstate and others, and further forms of units and rules.
func TestMorePlaces(t *testing.T) {
	const (
		write  = "echo 4 > /sys/class/net/enp1s0f0/device/sriov_numvfs"
		script = "#!/bin/sh\n" + write + "\n"
		four   = "enp1s0f0 sriov_numvfs 4"
	)
	for _, tt := range []struct{ name, text, want string }{
		{"etc/cloud/cloud.cfg.d/99-vfs.cfg", "#cloud-config\nbootcmd:\n- " + write + "\n- [ip, link, set, enp1s0f0, vf, '1', trust, 'on']\n", four + "; enp1s0f0#1 VF settings"},
		{"var/lib/cloud/instance/cloud-config.txt", "#cloud-config\nbootcmd:\n- |\n  PF=enp1s0f0\n  echo 4 > /sys/class/net/$PF/device/sriov_numvfs\n", four},
		{"etc/cloud/cloud.cfg", "runcmd:\n- " + write + "\n", ""}, // at the first boot
		{"var/lib/cloud/scripts/per-boot/vfs", script, four},
		{"etc/nmstate/a.yml", "interfaces:\n- name: enp1s0f0\n  type: ethernet\n  ethernet:\n    sr-iov:\n      total-vfs: 4\n      vfs: [{id: 0, trust: true}, {id: 2}]\n", "enp1s0f0#0#2 VF settings; " + four},
		{"etc/nmstate/a.yml", "interfaces:\n- {name: enp1s0f0, type: ethernet, state: up}\n", ""},
		{"etc/sriov-netplan-shim/interfaces.yaml", "interfaces:\n  enp1s0f0:\n    num_vfs: 4\n", four},
		{"etc/libvirt/qemu/networks/vfs.xml", "<network>\n  <forward mode='hostdev' managed='yes'>\n    <pf dev='enp1s0f0'/>\n  </forward>\n</network>\n", "enp1s0f0 VF settings"},
		{"etc/initramfs-tools/scripts/init-top/vfs", script, four},
		{"var/lib/vz/snippets/vfs.sh", script, four},
		{"var/lib/vz/snippets/user.yaml", "bootcmd: ['" + write + "']\n", ""}, // of a guest
		{"var/spool/cron/tabs/root", "@reboot " + write + "\n", four},
		{"etc/systemd/system/a.service", `[Service]` + "\n" + `ExecStart=/bin/sh -c 'echo 4 > /sys/bus/pci/devices/0000\\:01\\:00.0/sriov_numvfs'` + "\n", four},
		{"etc/systemd/system/a.service", `[Service]` + "\n" + `ExecStart=/bin/sh -c 'echo 4 > /sys/bus/pci/devices/0000\\:65\\:00.0/sriov_numvfs'` + "\n", ""}, // of another device
		{"etc/systemd/system/a.service", "[Service]\nExecStart=/bin/sh ./vfs.sh\nWorkingDirectory=/opt\n", four},
		{"etc/udev/rules.d/a.rules", `SUBSYSTEM=="pci", ATTR{vendor}=="0x8086", ATTR{class}=="0x030000", ATTR{sriov_numvfs}="4"`, ""}, // graphics
		{"etc/udev/rules.d/a.rules", `SUBSYSTEM=="pci", ENV{PCI_CLASS}=="10802", ATTR{sriov_numvfs}="4"`, ""},                         // a disk
		{"etc/udev/rules.d/a.rules", `SUBSYSTEM=="nvme", ATTR{device/sriov_numvfs}="4"`, ""},
		{"etc/udev/rules.d/a.rules", `SUBSYSTEM=="pci", ATTR{class}=="0x0200*", ATTR{device}=="0x10c9", ATTR{sriov_numvfs}="4"`, four + "; enp1s0f1 sriov_numvfs 4"},
		{"etc/udev/rules.d/a.rules", `SUBSYSTEM=="pci", ATTR{class}!="0x030000", ATTR{sriov_numvfs}="4"`, "? sriov_numvfs 4"},
	} {
		got := brief(t, map[string]string{tt.name: tt.text, "opt/vfs.sh": script})
		if got != tt.want {
			t.Errorf("%s: %s\n got %s\nwant %s", tt.name, tt.text, got, tt.want)
		}
	}
}

// TestAlternativeNames: the kernel takes an alternative name of a PF for the PF, and so do networkd's
// Name= and ifupdown.
func TestAlternativeNames(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"etc/rc.local", "#!/bin/sh\necho 4 > /sys/class/net/uplink/device/sriov_numvfs\nip link set uplink vf 0 trust on\n", "enp1s0f1 sriov_numvfs 4; enp1s0f1#0 VF settings"},
		{"etc/rc.local", "#!/bin/sh\necho 4 > /sys/class/net/upl*/device/sriov_numvfs\n", "enp1s0f1 sriov_numvfs 4"},
		{"etc/udev/rules.d/a.rules", `KERNEL=="x", ATTR{[net/uplink]device/sriov_numvfs}="4"`, "enp1s0f1 sriov_numvfs 4"},
		{"etc/systemd/network/a.network", "[Match]\nName=uplink\n[SR-IOV]\nVirtualFunction=1\nTrust=yes\n", "enp1s0f1 managed; enp1s0f1#1 VF settings"},
		{"etc/systemd/network/a.link", "[Match]\nOriginalName=uplink\n[Link]\nSR-IOVVirtualFunctions=4\n", ""},
		{"etc/netplan/a.yaml", "network:\n  ethernets:\n    uplink:\n      virtual-function-count: 4\n", "enp1s0f1 managed; enp1s0f1 sriov_numvfs 4"},
		{"etc/network/interfaces", "auto uplink\niface uplink inet manual\n  mtu 9000\n", "enp1s0f1 MTU 9000"},
	} {
		pfs := host()
		pfs[1].AltNames = []string{"uplink"}
		got := briefOn(t, pfs, map[string]string{tt.name: tt.text, "run/systemd/netif/state": "", "run/network/ifstate": ""})
		if got != tt.want {
			t.Errorf("%s: %s\n got %s\nwant %s", tt.name, tt.text, got, tt.want)
		}
	}
}

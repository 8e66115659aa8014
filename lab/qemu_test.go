package lab

import (
	"slices"
	"strings"
	"testing"
)

func TestMachineArgs(t *testing.T) {
	m := machine{
		Accel: "tcg", MemoryMiB: memoryLimit, CPUs: 2, Kernel: "/k", Initrd: "/i", Cmdline: "quiet", IOMMU: true,
		Disk: "/a,b.qcow2", QMPFD: 3, Share: "/share",
		Mgmt:     &port{ID: "mgmt", MAC: macAddr(2, 0), Backend: tapBackend(2, 0)},
		PFs:      []port{{ID: "pf1", MAC: macAddr(2, 1), Backend: "hubport,hubid=0"}, {ID: "pf2", MAC: macAddr(2, 2), Backend: tapBackend(2, 2)}},
		Channels: []channel{{"stdout", 4}},
	}
	args := strings.Join(m.commandLine(), " ")
	for _, want := range []string{
		"-machine q35,sata=off,smbus=off,i8042=off,kernel-irqchip=split ",
		"-accel tcg,", "-cpu max,erms=off,fsrm=off ", "-m 2048 ", "-smp 2 ",
		"-device intel-iommu,intremap=on,caching-mode=on",
		"-device pcie-root-port,id=rp1,chassis=1,slot=1,bus=pcie.0,addr=0x2 -netdev hubport,id=pf1,hubid=0 -device igb,id=dev-pf1,bus=rp1,netdev=pf1,mac=52:54:00:c1:02:01",
		"-device pcie-root-port,id=rp2,chassis=2,slot=2,bus=pcie.0,addr=0x3 -netdev tap,id=pf2,script=no,downscript=no,ifname=n2p2 -device igb,id=dev-pf2,bus=rp2,netdev=pf2,mac=52:54:00:c1:02:02",
		"file=/a,,b.qcow2", "socket,id=monitor,fd=3", "path=/share",
		"-chardev socket,id=stdout,fd=4 -device virtserialport,chardev=stdout,name=stdout",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("no %q in %s", want, args)
		}
	}
}

func TestMachineArgsLeavesOutWhatIsUnset(t *testing.T) {
	args := machine{Accel: "kvm", MemoryMiB: 512, CPUs: 1}.commandLine()
	for _, word := range []string{"igb", "intel-iommu", "virtio-9p", "virtio-blk", "virtserialport", "-mon", "tcg"} {
		if i := slices.IndexFunc(args, func(a string) bool { return strings.Contains(a, word) }); i >= 0 {
			t.Errorf("%s in %q", word, args)
		}
	}
}

//go:build kubernetes

package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// userSpace has pods with VFs that were bound to vfio-pci before Culvert was installed. They have
// their VFs open, as testpmd has: old-net by a network with a VLAN, old-plain by its resource
// alone.
type userSpace struct {
	*testing.T
	vfs []string          // all that are bound to vfio-pci, by their PCI addresses
	has map[string]string // the VF of each pod
}

// userPod is a pod of namespace user-space that has its VF open.
func userPod(name, network string) string {
	const program = `[bash, -euc, "for g in /dev/vfio/[0-9]*; do exec 3<>$g; done; exec sleep infinity"]`
	text := strings.Replace(podWith(name, network, "intel.com/dpdk"), "metadata: {name: ", "metadata: {namespace: user-space, name: ", 1)
	return strings.Replace(text, "[sleep, infinity]", program, 1)
}

// startUserSpace starts the two pods, and begins to record all binds and unbinds of PCI devices on
// the node.
func startUserSpace(t *testing.T) *userSpace {
	t.Helper()
	u := &userSpace{T: t, has: map[string]string{}}
	u.vfs = strings.Fields(on(t, "worker1", "cd /sys/bus/pci/drivers/vfio-pci && ls -d 0000:*"))
	if len(u.vfs) != 3 {
		t.Fatalf("bound to vfio-pci are %v", u.vfs)
	}
	u.start("old-net", "default/dpdk")
	u.start("old-plain", "")
	on(t, "worker1", "systemd-run --quiet --unit pci-events sh -c 'exec udevadm monitor --kernel --subsystem-match=pci >/run/pci-events'")
	return u
}

// start starts a pod, which must get a VF that no other pod has, and open it.
func (u *userSpace) start(name, network string) {
	u.Helper()
	feed(u.T, userPod(name, network), "apply", "-f", "-")
	ready(u.T, "pod/"+name, "-n", "user-space")
	address := strings.TrimSpace(kubectl(u.T, "-n", "user-space", "exec", name, "--", "bash", "-c", "echo $PCIDEVICE_INTEL_COM_DPDK"))
	if !slices.Contains(u.vfs, address) {
		u.Fatalf("pod %s has VF %s, which is none of %v", name, address, u.vfs)
	}
	for other, its := range u.has {
		if its == address {
			u.Errorf("pods %s and %s have VF %s", name, other, address)
		}
	}
	u.has[name] = address
	u.requireOpen()
}

// awaitAdmission makes a pod until the kubelet admits it. The kubelet refuses pods with VFs for good
// until a culvertd that was killed has registered again.
func (u *userSpace) awaitAdmission(name, network string) {
	u.Helper()
	eventually(u.T, "pod "+name+" is admitted", func() error {
		feed(u.T, userPod(name, network), "apply", "-f", "-")
		_, err := k8s.Kubectl(u.Context(), "-n", "user-space", "wait", "--for=condition=Ready", "--timeout=90s", "pod/"+name)
		if err != nil {
			kubectl(u.T, "-n", "user-space", "delete", "pod", name, "--wait")
		}
		return err
	})
}

// end deletes a pod.
func (u *userSpace) end(name string) {
	u.Helper()
	kubectl(u.T, "-n", "user-space", "delete", "pod", name, "--wait")
	delete(u.has, name)
}

// requireOpen checks that every pod has run without a restart, with its VF open.
func (u *userSpace) requireOpen() {
	u.Helper()
	for name, address := range u.has {
		group := strings.TrimSpace(on(u.T, "worker1", "basename $(readlink /sys/bus/pci/devices/"+address+"/iommu_group)"))
		if is := strings.TrimSpace(kubectl(u.T, "-n", "user-space", "exec", name, "--", "bash", "-c", "[ /proc/1/fd/3 -ef /dev/vfio/"+group+" ] && echo open || true")); is != "open" {
			u.Errorf("pod %s does not have VF %s open, of IOMMU group %s", name, address, group)
		}
		if restarts := kubectl(u.T, "-n", "user-space", "get", "pod", name, "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
			u.Errorf("pod %s was started again %s times", name, restarts)
		}
	}
}

// requireKept checks that the pods from before have their VFs, also when culvertd ends and when it is
// killed, and that culvertd names them as the owners. A new pod gets the VF that is left. No VF in user space was bound anew.
func (u *userSpace) requireKept() {
	u.Helper()
	for name, address := range u.has {
		requireState(u.T, address, "given", "user-space/"+name)
	}
	list := on(u.T, "worker1", "culvert vf list")
	for _, name := range []string{"user-space/old-net", "user-space/old-plain"} {
		if !strings.Contains(list, name) {
			u.Errorf("culvert vf list does not name %s:\n%s", name, list)
		}
	}
	for i, signal := range []string{"TERM", "KILL"} {
		on(u.T, "worker1", "pkill -"+signal+" -x culvertd")
		eventually(u.T, "culvertd runs again", func() error {
			const state = "jsonpath={.items[0].status.containerStatuses[0].restartCount} {.items[0].status.containerStatuses[0].ready}"
			if now := kubectl(u.T, "-n", "culvert-system", "get", "pods", "-l", "app.kubernetes.io/name=culvertd", "-o", state); now != fmt.Sprint(i+1, " true") {
				return fmt.Errorf("restarts and readiness are %s", now)
			}
			return nil
		})
		u.requireOpen()
	}
	u.awaitAdmission("new-net", "default/dpdk")
	u.start("new-net", "default/dpdk")
	u.requireBinding()
}

// requireHandedOn checks that culvertd takes over the VF of a pod from before when that pod has
// ended. The next pod gets it without the VLAN that the SR-IOV CNI plugin left on it (I2).
func (u *userSpace) requireHandedOn() {
	u.Helper()
	address := u.has["old-net"]
	vlan := fmt.Sprintf(`for i in 4 5 6; do
		[ "$(basename "$(readlink /sys/class/net/enp2s0/device/virtfn$i)")" != %s ] || ip -j link show dev enp2s0 | jq ".[0].vfinfo_list[] | select(.vf == $i) | .vlan_list[0].vlan // 0"
	done`, address)
	if got := strings.TrimSpace(on(u.T, "worker1", vlan)); got != "7" {
		u.Errorf("VF %s of the running pod old-net has VLAN %s, and had 7", address, got)
	}
	u.end("old-net")
	requireState(u.T, address, "free", "")
	u.start("next", "")
	if u.has["next"] != address {
		u.Errorf("pod next has VF %s, and %s was free", u.has["next"], address)
	}
	if got := strings.TrimSpace(on(u.T, "worker1", vlan)); got != "0" {
		u.Errorf("VF %s, which pod next has, has VLAN %s", address, got)
	}
	u.requireOpen()
	u.requireBinding()
}

// requireBack checks that the device plugin gives out the VFs again that Culvert gave out.
// Meanwhile the pod from before runs on, and so does the pod with a VF from Culvert but without a
// network.
func (u *userSpace) requireBack() {
	u.Helper()
	u.requireOpen()
	u.start("back", "default/dpdk")
	u.end("next")
	u.requireBinding()
	on(u.T, "worker1", "systemctl stop pci-events")
}

// requireState waits until the NodeState has this phase and owner of a VF.
func requireState(t *testing.T, address, phase, owner string) {
	t.Helper()
	eventually(t, fmt.Sprintf("VF %s is %s %s", address, phase, owner), func() error {
		all, err := vfs()
		for _, v := range all["worker1"] {
			if v.PCI != address {
				continue
			}
			name := ""
			if v.Owner != nil {
				name = v.Owner.Name
			}
			if v.Phase != phase || name != owner {
				return fmt.Errorf("it is %s %s", v.Phase, name)
			}
			return nil
		}
		return fmt.Errorf("it is not there: %w", err)
	})
}

// requireBinding checks that the VFs are bound to vfio-pci, and were all the time. Other VFs were
// bound anew meanwhile, which shows that the record of binds works.
func (u *userSpace) requireBinding() {
	u.Helper()
	if now := strings.Fields(on(u.T, "worker1", "cd /sys/bus/pci/drivers/vfio-pci && ls -d 0000:*")); !slices.Equal(now, u.vfs) {
		u.Errorf("bound to vfio-pci are %v, and were %v", now, u.vfs)
	}
	events := on(u.T, "worker1", "cat /run/pci-events")
	if !strings.Contains(events, "bind ") {
		u.Errorf("nothing was bound, so this test shows nothing:\n%s", events)
	}
	for line := range strings.SplitSeq(events, "\n") {
		for _, address := range u.vfs {
			if strings.Contains(line, address+" ") && strings.Contains(line, "bind ") {
				u.Errorf("VF %s was bound anew: %s", address, line)
			}
		}
	}
}

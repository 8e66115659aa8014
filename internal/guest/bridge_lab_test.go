//go:build lab

package guest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/test/soak"
)

// bridgeScript makes a VF a port of a bridge, as a guest may do with its VF: what it knows of the VF is
// the same. Namespace g is the guest, behind is a machine on the bridge with a MAC address of its own,
// and peer is a machine on the PF's wire.
const bridgeScript = `set -e
exec 3>&1 >&2
modprobe igbvf; modprobe veth
echo 1 >/sys/class/net/eth0/device/sriov_numvfs
until vf=$(ls /sys/bus/pci/devices/0000:01:10.0/net) && [ -n "$vf" ]; do usleep 100000; done
ip netns add peer; ip netns add g; ip netns add behind
ip link set eth1 netns peer; ip -n peer link set eth1 up; ip -n peer addr add 10.7.0.2/24 dev eth1
ip link set "$vf" netns g; ip -n g link set lo up
ip -n g link add out0 type veth peer name in0; ip -n g link set in0 netns behind
in_g() { ip netns exec g "$@"; }
addBridge
ip -n g link set "$vf" up; ip -n g link set out0 up; ip -n g link set br0 address "$(in_g cat /sys/class/net/$vf/address)" up
ip -n g addr add 10.7.0.1/24 dev br0
ip -n behind link set in0 address 02:00:00:00:00:77 up; ip -n behind addr add 10.7.0.3/24 dev in0
# answers NAMESPACE ADDRESS TRIES WHAT: the emulation may be slow, so an answer has several tries.
answers() {
	for try in $(seq "$3"); do ip netns exec "$1" ping -c 1 -W 1 "$2" && echo "$4 answers" >&3 && return; done
	echo "$4 gets no answer" >&3
}
ip -n g -br link; ip -n peer -br link; ip link show eth0
answers g 10.7.0.2 40 "the peer"
ip -n g neigh; ip -n peer neigh
answers behind 10.7.0.1 20 "the guest, from behind"
for trust in off on; do for spoofchk in on off; do
	ip link set eth0 vf 0 trust $trust; ip link set eth0 vf 0 spoofchk $spoofchk
	ip link show eth0 | grep "spoof checking $spoofchk, .*trust $trust"
	ip -n peer neigh flush all
	answers g 10.7.0.2 20 "trust $trust, spoofchk $spoofchk: the VF's address"
	for try in $(seq 5); do # until the peer has heard the address; then the second of its answer is over, too
		answers behind 10.7.0.2 1 "trust $trust, spoofchk $spoofchk: a second address" 3>/run/second
		if ip -n peer neigh show 10.7.0.3 | grep 02:00:00:00:00:77; then echo "  the peer has heard it" >>/run/second; break; fi
	done
	cat /run/second >&3
done; done
`

const (
	linuxBridge = `addBridge() {
	modprobe bridge
	ip -n g link add br0 type bridge
	ip -n g link set "$vf" master br0
	ip -n g link set out0 master br0
	echo accepted >&3
}
`
	// openVSwitch runs Open vSwitch with the datapath in user space, since a fast node has no module
	// of it.
	openVSwitch = `addBridge() {
	modprobe tun; mkdir -p /dev/net; [ -c /dev/net/tun ] || mknod /dev/net/tun c 10 200
	export PATH=/ovs/bin:$PATH LD_LIBRARY_PATH=/ovs/lib OVS_RUNDIR=/run/ovs OVS_LOGDIR=/run/ovs OVS_DBDIR=/run/ovs OVS_SYSCONFDIR=/run/ovs
	mkdir -p /run/ovs
	ovsdb-tool create /run/ovs/conf.db /ovs/vswitch.ovsschema
	in_g ovsdb-server /run/ovs/conf.db --remote=punix:/run/ovs/db.sock &
	until [ -S /run/ovs/db.sock ]; do usleep 100000; done
	in_g ovs-vsctl --db=unix:/run/ovs/db.sock --no-wait init
	in_g ovs-vswitchd unix:/run/ovs/db.sock &
	for port in "add-br br0 -- set bridge br0 datapath_type=netdev other-config:hwaddr=\"$(in_g cat /sys/class/net/$vf/address)\"" "add-port br0 $vf" "add-port br0 out0"; do in_g ovs-vsctl --db=unix:/run/ovs/db.sock --timeout=60 $port; done
	in_g ovs-vsctl --db=unix:/run/ovs/db.sock list-ports br0 | grep "$vf"
	echo accepted >&3
}
`
)

// R4, section 10: a bridge of the guest accepts its VF as a port. Packets of the VF's own MAC address
// pass. A second machine behind the bridge gets no answer, since the NIC gives a VF only the frames for
// the VF's own address, whatever trust and spoof check are. What it sends goes out in the lab: igb's
// emulation enforces neither setting. A NIC that enforces spoof check drops that, too.
func TestVFInABridge(t *testing.T) { inABridge(t, linuxBridge) }

// The same with Open vSwitch.
func TestVFInOpenVSwitch(t *testing.T) {
	soak.Only(t, "it fetches Open vSwitch; TestVFInABridge shows the same")
	tree, err := exec.CommandContext(t.Context(), "../../tools/ovs").Output()
	if err != nil {
		t.Fatal(err)
	}
	inABridge(t, openVSwitch, "--file", strings.TrimSpace(string(tree))+":/ovs")
}

func inABridge(t *testing.T, bridge string, options ...string) {
	t.Helper()
	culvert := os.Getenv("CULVERT")
	if culvert == "" {
		t.Fatal("CULVERT is not set: make build && CULVERT=$PWD/build/bin/culvert go test -tags lab ./internal/guest")
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte(bridge+bridgeScript), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, messages bytes.Buffer
	words := append([]string{"lab", "fast", "--quiet", "--file", script + ":/script"}, options...)
	cmd := exec.CommandContext(t.Context(), culvert, append(words, "--", "sh", "/script")...)
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, messages.String(), out.String())
	}
	want := "accepted\nthe peer answers\nthe guest, from behind answers\n"
	for _, s := range []string{"trust off, spoofchk on", "trust off, spoofchk off", "trust on, spoofchk on", "trust on, spoofchk off"} {
		want += s + ": the VF's address answers\n" + s + ": a second address gets no answer\n  the peer has heard it\n"
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, messages.String())
	}
}

//go:build lab

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/soak"
)

// vms is the pool of VFs that are bound to vfio-pci: two of the second wire.
const vms = "culvert.dev/vms"

// defined defines a guest until the test ends. Then it takes the guest's VFs back, and removes the
// definition.
func defined(t *testing.T, n node.Node, name, address string) node.Guest {
	t.Helper()
	g, err := n.DefineGuest(t.Context(), name, netip.MustParsePrefix(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = n.Script(ctx, "take "+name+"'s VFs back", `virsh destroy "$1" || true; culvert vm detach "$1"`, name) // the test may have done so
		if err := g.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return g
}

// give gives a guest a VF.
func give(t *testing.T, g node.Guest, flags ...string) api.VF {
	t.Helper()
	if err := g.GiveVF(t.Context(), flags...); err != nil {
		t.Fatal(err)
	}
	for _, v := range status(t, g.Node).VFs {
		if v.Owner != nil && v.Owner.Name == g.Name {
			return v
		}
	}
	t.Fatalf("%s has no VF", g.Name)
	return api.VF{}
}

// fails checks that a command of a node failed, and that its output has all words.
func fails(t *testing.T, err error, words ...string) {
	t.Helper()
	var exit *node.ExitError
	if !errors.As(err, &exit) {
		t.Errorf("want a refusal that says %q, got %v", words, err)
		return
	}
	mentions(t, exit.Stdout+exit.Stderr, words...)
}

// TestGuests runs all tests on one guest, since its boot takes long: libvirt, QEMU and VFIO are the
// real ones. While the guest boots on the first node, tests that need no boot run on the second
// one.
func TestGuests(t *testing.T) {
	leavesNothing(t, nodes...)
	db1 := defined(t, nodes[0], "db1", "10.90.0.1/24")
	v := give(t, db1, "--pool", vms, "--vlan", "90", "--max-tx-rate", "500")
	if err := db1.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"libvirt sets what the ledger says", func(t *testing.T) { asPromised(t, db1, v, 90) }},
		{"P10: a used up pool names the owners", usedUp},
		{"P10: no start on a container's VF", refusedByTheHook},
		{"P15: every way", everyWay},
		{"P12: every end", everyEnd},
		{"P11: a PF as a whole", inSoak(wholePF)},
		{"hooks that are there twice", inSoak(hooksTwice)},
		{"AppArmor lets the hook run", appArmor},
		{"P11: without hooks, and without libvirt", unheard},
		{"ping", func(t *testing.T) { pingGuest(t, db1) }},
		{"P18: the doctor looks inside", func(t *testing.T) { examined(t, db1, v) }},
		{"culvert bench", inSoak(func(t *testing.T) { benchGuest(t, db1) })},
		{"P15: the guest cannot change its MAC address", func(t *testing.T) { lockedMAC(t, db1, v) }},
		{"a VF as it runs", inSoak(func(t *testing.T) { plugged(t, db1) })},
		{"P12: QEMU is killed", inSoak(func(t *testing.T) { killed(t, db1, v) })},
		{"P16: to the other host", inSoak(migrated)},
	} {
		t.Run(step.name, step.run)
	}
}

// inSoak returns a step that only make soak runs.
func inSoak(run func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		soak.Only(t, "a step that takes a minute or more on an emulated processor")
		run(t)
	}
}

// now returns the present state of a VF, by culvertd.
func now(t *testing.T, n node.Node, v api.VF) api.VF {
	t.Helper()
	for _, is := range status(t, n).VFs {
		if is.ID == v.ID {
			return is
		}
	}
	t.Fatalf("%s is gone", v.Name)
	return api.VF{}
}

// asPromised checks that a guest that runs has the VF with the settings of its lease, by the
// kernel, QEMU and Culvert.
func asPromised(t *testing.T, g node.Guest, leased api.VF, vlan int) {
	t.Helper()
	asLeased(t, g, leased, vlan)
	mentions(t, string(must(t, g.Node, "sh", "-c", `tr '\0' ' ' <"/proc/$(cat "/run/libvirt/qemu/$1.pid")/cmdline"`, "sh", g.Name)), leased.PCI.String())
}

// asLeased is asPromised without QEMU's command line, which only has the VFs that QEMU was started
// with.
func asLeased(t *testing.T, g node.Guest, leased api.VF, vlan int) {
	t.Helper()
	is := now(t, g.Node, leased)
	if is.Owner == nil || is.Owner.Name != g.Name || is.Phase != "attached" || len(is.Differences) > 0 || is.Driver != "vfio-pci" {
		t.Errorf("culvertd says of %s: %s, driver %s, owner %v, differences %v", is.Name, is.Phase, is.Driver, is.Owner, is.Differences)
	}
	got := jq(t, g.Node, fmt.Sprintf(`.[0].vfinfo_list[] | select(.vf == %d) | "\(.address // .mac) vlan \(.vlan_list[0].vlan)"`, leased.Index),
		"ip -d -j link show dev "+leased.PF)
	if want := fmt.Sprintf("%s vlan %d", leased.Settings.MAC, vlan); got != want {
		t.Errorf("the PF holds %q, want %q", got, want)
	}
	mentions(t, string(must(t, g.Node, "culvert", "vm", "list")), g.Name, leased.PCI.String())
}

// usedUp: the pool has two VFs. culvertd refuses a VF to the third guest, before libvirt gets a
// definition with it, and names both owners.
func usedUp(t *testing.T) {
	n := nodes[1]
	give(t, defined(t, n, "db2", "10.90.0.2/24"), "--pool", vms)
	give(t, defined(t, n, "db3", "10.90.0.3/24"), "--pool", vms)
	fails(t, defined(t, n, "db4", "10.90.0.4/24").GiveVF(t.Context(), "--pool", vms), "2 of 2", "vm db2", "vm db3", "nothing free for vm db4")
}

// handmade is a device as a person writes it into a definition.
const handmade = `<hostdev mode='subsystem' type='pci' managed='%s'>
  <source><address domain='0x0000' bus='0x%02x' slot='0x%02x' function='0x%x'/></source>
</hostdev>
`

// trunk is a port of Open vSwitch with two VLANs. No VF has such a port, so the hook must pass over
// it: libvirt asks for its network only after the hook.
const trunk = `<interface type='network'>
  <source network='trunks'/>
  <vlan trunk='yes'><tag id='42'/><tag id='47'/></vlan>
  <model type='virtio'/>
</interface>
`

// refusedByTheHook: a definition that a person wrote has a VF of a container, also beside a trunk
// port. libvirt names the owner and does not start the guest; the container keeps its VF.
func refusedByTheHook(t *testing.T) {
	n := nodes[1]
	a := network(t, n, "guarded", "1.1.0", pool)
	a.Args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=precious"
	netns(t, n, a.Netns)
	add(t, n, a)
	v := holder(t, n, "guarded")
	theirs := func(managed string) string {
		return fmt.Sprintf(handmade, managed, v.PCI.Bus, v.PCI.Device, v.PCI.Function)
	}
	for name, devices := range map[string][]string{"no": {theirs("no")}, "yes": {theirs("yes")}, "trunk": {trunk, theirs("yes")}} {
		g := defined(t, n, "thief-"+name, "10.90.0.9/24")
		for _, device := range devices {
			if _, err := n.Feed(t.Context(), strings.NewReader(device), "add a device", `virsh attach-device "$1" /dev/stdin --config`, g.Name); err != nil {
				t.Fatal(err)
			}
		}
		fails(t, g.Start(t.Context()), v.PCI.String(), "pod default/precious")
	}
	if _, err := n.CNI(t.Context(), "check", a); err != nil {
		t.Error(err)
	}
}

// everyWay: libvirt accepts the output of culvert vm xml in each way, and starts the guest. When
// the guest has stopped, its VF is free, with every attribute at its baseline. make test has the
// first way alone.
func everyWay(t *testing.T) {
	n := nodes[1]
	ways := []string{"interface", "hostdev", "network"}
	if testing.Short() {
		ways = ways[:1]
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			g := defined(t, n, "by-"+way, "10.90.0.5/24")
			flags := []string{"--pool", vms, "--vlan", "91", "--way", way}
			v := give(t, g, flags...)
			if way == "network" {
				name := "culvert-" + strings.NewReplacer(":", "-", ".", "-").Replace(v.PCI.String())
				if _, err := n.Script(t.Context(), "define the network", `
					culvert vm xml --print network "${@:2}" "/run/$1.xml" >/run/network.xml
					virsh net-define --validate /run/network.xml
					virsh net-start "$(sed -n 's,.*<name>\(.*\)</name>,\1,p' /run/network.xml)"`, append([]string{g.Name}, flags...)...); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if _, err := n.Script(context.Background(), "remove the network", `virsh net-destroy "$1"; virsh net-undefine "$1"`, name); err != nil {
						t.Error(err)
					}
				})
			}
			if err := g.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			asPromised(t, g, v, 91)
			must(t, n, "virsh", "destroy", g.Name)
			cameBack(t, g, v)
		})
	}
}

// unheard: the hooks are gone, and culvertd finds the guest in libvirt's list. Then libvirt is
// stopped; culvertd reports that and goes on. QEMU is killed meanwhile, and when libvirt is back
// the VF becomes free.
func unheard(t *testing.T) {
	n := nodes[1]
	script := func(what, text string, args ...string) string {
		t.Helper()
		out, err := n.Script(t.Context(), what, text, args...)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	back := `for event in qemu network; do if [ -e "/run/hook.$event" ]; then mv "/run/hook.$event" "/etc/libvirt/hooks/$event.d/culvert"; fi; done
		systemctl start libvirtd`
	t.Cleanup(func() {
		if _, err := n.Script(context.Background(), "put libvirt and its hooks back", back); err != nil {
			t.Error(err)
		}
	})
	script("take the hooks away", `for event in qemu network; do mv "/etc/libvirt/hooks/$event.d/culvert" "/run/hook.$event"; done`)

	quiet, twin := defined(t, n, "quiet", "10.90.0.6/24"), defined(t, n, "twin", "10.90.0.7/24")
	v := freeIn(t, n, vms)
	device := fmt.Sprintf(handmade, "no", v.PCI.Bus, v.PCI.Device, v.PCI.Function)
	for _, g := range []node.Guest{quiet, twin} {
		if _, err := n.Feed(t.Context(), strings.NewReader(device), "add a device", `virsh attach-device "$1" /dev/stdin --config`, g.Name); err != nil {
			t.Fatal(err)
		}
	}
	if err := quiet.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await := func(what, command string, words ...string) {
		t.Helper()
		script(what, `while [ "$SECONDS" -lt 600 ]; do
				out=$(eval "$1" 2>&1) || true
				found=yes
				for word in "${@:2}"; do case $out in *"$word"*) ;; *) found= ;; esac; done
				if [ "$found" ]; then exit; fi
				sleep 0.2
			done
			echo "$out" >&2
			exit 1`, append([]string{command}, words...)...)
	}
	await("the list is compared", "culvert vm list", "quiet", v.PCI.String())
	await("two definitions name one VF", "culvert status -o json", "guest twin", "that of guest quiet does too")
	mentions(t, script("events", "culvert events"), "Adopted VF "+v.PCI.String(), "to vm quiet")

	script("stop libvirt", "systemctl stop libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket")
	// culvertd reports a closed connection, and a moment later that there is no socket.
	await("culvertd says so", "culvert status -o json", `"object": "libvirt"`, "until then it knows guests by the hooks")
	mentions(t, script("doctor", "culvert doctor -o json || true"), "culvertd cannot ask it which guests there are: ")
	script("kill QEMU", `kill -KILL "$(cat /run/libvirt/qemu/quiet.pid)"`)
	script("libvirt again", back)
	cameBack(t, quiet, v)
}

// freeIn returns a free VF of a pool.
func freeIn(t *testing.T, n node.Node, pool string) api.VF {
	t.Helper()
	for _, v := range status(t, n).VFs {
		if v.Pool == pool && v.Phase == "free" {
			return v
		}
	}
	t.Fatalf("no VF of %s is free", pool)
	return api.VF{}
}

// pingGuest: a container with a VF of the other node and the guest reach each other over their
// VLAN.
func pingGuest(t *testing.T, g node.Guest) {
	n := nodes[1]
	a := network(t, n, "beside", "1.1.0", `"pool": "culvert.dev/rest", "vlan": 90, "ipam": {"type": "static", "addresses": [{"address": "10.90.0.100/24"}]}`)
	netns(t, n, a.Netns)
	add(t, n, a)
	seconds, err := g.Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the guest was up after %s s of its own", seconds)
	if out, err := n.Run(t.Context(), "ip", "netns", "exec", a.Netns, "ping", "-c", "5", "-w", "300", "10.90.0.1"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := g.Exec(t.Context(), "ping -c 3 -W 60 10.90.0.100"); err != nil {
		t.Error(err)
	}
}

func lockedMAC(t *testing.T, g node.Guest, v api.VF) {
	out, err := g.Exec(t.Context(), "cat /sys/class/net/eth0/address; ip link set eth0 address 02:00:00:00:66:66")
	if err == nil {
		t.Error("the guest has another MAC address now")
	}
	mentions(t, string(out), v.Settings.MAC.String())
}

// plugged: a guest that runs gets a second VF, finds it, and gives it back, while its first one stays.
func plugged(t *testing.T, g node.Guest) {
	const mac = "02:00:00:00:93:01"
	for range 2 { // the second time the guest has it already
		must(t, g.Node, "culvert", "vm", "attach", g.Name, "--device", "net2", "--pool", vms, "--vlan", "93", "--mac", mac)
	}
	v := holding(t, g.Node, g.Name, "net2")
	asLeased(t, g, v, 93)
	if out, err := g.Exec(t.Context(), "for i in $(seq 300); do if grep -qs "+mac+" /sys/class/net/*/address; then break; fi; sleep 1; done; grep -s "+mac+" /sys/class/net/*/address"); err != nil {
		t.Errorf("the guest does not see it: %v\n%s", err, out)
	}
	for _, which := range [][]string{{"dumpxml", g.Name}, {"dumpxml", "--inactive", g.Name}} {
		mentions(t, string(must(t, g.Node, append([]string{"virsh"}, which...)...)), mac)
	}

	must(t, g.Node, "culvert", "vm", "detach", g.Name, "net2")
	if is := now(t, g.Node, v); is.Phase != "free" || len(is.Differences) > 0 {
		t.Errorf("it is %s %s, differences %v", is.Phase, is.Reason, is.Differences)
	}
	for _, which := range [][]string{{"dumpxml", g.Name}, {"dumpxml", "--inactive", g.Name}} {
		if text := string(must(t, g.Node, append([]string{"virsh"}, which...)...)); strings.Contains(text, mac) {
			t.Errorf("virsh %s still has it", strings.Join(which, " "))
		}
	}
	holding(t, g.Node, g.Name, "net1")
}

// killed: the VF of a guest whose QEMU was killed comes back by itself, and is at its
// baseline then.
func killed(t *testing.T, g node.Guest, v api.VF) {
	if err := g.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	cameBack(t, g, v)
}

// holding returns the VF that a guest has as a device.
func holding(t *testing.T, n node.Node, name, device string) api.VF {
	t.Helper()
	for _, v := range status(t, n).VFs {
		if v.Owner != nil && v.Owner.Name == name && v.Owner.Interface == device {
			return v
		}
	}
	t.Fatalf("%s has no VF on %s as %s", name, n.Name, device)
	return api.VF{}
}

//go:build lab

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/soak"
)

// teamed is a virtio interface that can have a VF as its fast path. Its frames leave by the PF, on
// the VF's VLAN.
const teamed = `<interface type='direct'>
  <mac address='02:00:00:00:92:01'/>
  <source dev='enp2s0.92' mode='bridge'/>
  <model type='virtio'/>
  <teaming type='persistent'/>
  <alias name='ua-slow'/>
</interface>
`

// migrated: a guest that is off migrates to the other node by ssh, starts there, and migrates back
// while it runs.
func migrated(t *testing.T) {
	from, to := nodes[0], nodes[1]
	g, err := from.DefineGuest(t.Context(), "mover", netip.MustParsePrefix("10.90.0.7/24"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			if _, err := n.Script(context.Background(), "remove the guest wherever it is", `
				virsh destroy "$1" || true
				culvert vm detach "$1" || true
				! virsh domuuid "$1" || virsh undefine "$1"`, g.Name); err != nil {
				t.Error(err)
			}
		}
	})
	for _, n := range nodes {
		must(t, n, "ip", "link", "add", "enp2s0.92", "up", "link", "enp2s0", "type", "vlan", "id", "92")
		t.Cleanup(func() {
			if _, err := n.Run(context.Background(), "ip", "link", "del", "enp2s0.92"); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := from.Feed(t.Context(), strings.NewReader(teamed), "add a virtio interface", `virsh attach-device "$1" /dev/stdin --config`, g.Name); err != nil {
		t.Fatal(err)
	}
	host := trusted(t, from, to)
	must(t, from, "culvert", "vm", "attach", g.Name, "--pool", vms, "--vlan", "92", "--trust", "on", "--mac", "02:00:00:00:92:01", "--failover", "ua-slow")
	must(t, from, "virsh", "autostart", g.Name)
	before := holding(t, from, g.Name, "net1")

	_, err = from.Run(t.Context(), "culvert", "vm", "migrate", g.Name, host, "--pool", "none")
	fails(t, err, "host "+to.Name, `pool "none": not found`)
	must(t, from, "virsh", "domuuid", g.Name)
	if _, err := to.Run(t.Context(), "virsh", "domuuid", g.Name); err == nil {
		t.Error("the refused guest is on the other host")
	}

	undoneOnTheWay(t, g, to, host)
	killedOnTheWay(t, g, to, host)
	for range 2 { // the second time it is there already
		must(t, from, "culvert", "vm", "migrate", g.Name, host)
	}
	after := holding(t, to, g.Name, "net1")
	if after.Settings != before.Settings {
		t.Errorf("its VF has %v, had %v", after.Settings, before.Settings)
	}
	mentions(t, string(must(t, to, "virsh", "dominfo", g.Name)), "Autostart:      enable")
	if is := now(t, from, before); is.Phase != "free" || len(is.Differences) > 0 {
		t.Errorf("the VF that it had is %s, differences %v", is.Phase, is.Differences)
	}
	if _, err := from.Run(t.Context(), "virsh", "domuuid", g.Name); err == nil {
		t.Error("it is defined on both hosts")
	}
	g.Node = to
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	asPromised(t, g, after, 92)
	t.Run("as it runs", func(t *testing.T) { sailed(t, g, from) })
	g.Node = from
	t.Run("as it runs, over TLS", func(t *testing.T) {
		soak.Only(t, "a guest that runs goes to another node once more")
		sailedOverTLS(t, g, to)
	})
}

// autostarts reports whether libvirt of a node starts a guest with the node.
func autostarts(t *testing.T, n node.Node, guest string) bool {
	t.Helper()
	out, err := n.Script(t.Context(), "look for autostart", `if [ -L "/etc/libvirt/qemu/autostart/$1.xml" ]; then echo yes; fi`, guest)
	if err != nil {
		t.Fatal(err)
	}
	return len(out) > 0
}

// undoneOnTheWay: the other host cannot make the guest start with it, after this host has stopped
// doing so. culvert undoes the whole migration, and the guest starts with this host again.
func undoneOnTheWay(t *testing.T, g node.Guest, to node.Node, host string) {
	t.Helper()
	const obstacle = "/etc/libvirt/qemu/autostart/mover.xml"
	must(t, to, "mkdir", "-p", obstacle)
	_, err := g.Node.Run(t.Context(), "culvert", "vm", "migrate", g.Name, host)
	must(t, to, "rmdir", obstacle)
	fails(t, err, g.Node.Name+": keep the guest from starting with the host", to.Name+": let the guest start with the host")
	if text := string(must(t, g.Node, "virsh", "dumpxml", "--inactive", g.Name)); strings.Contains(text, "moving-") || !autostarts(t, g.Node, g.Name) {
		t.Errorf("undone, it starts with the host: %v:\n%s", autostarts(t, g.Node, g.Name), text)
	}
	if _, err := to.Run(t.Context(), "virsh", "domuuid", g.Name); err == nil {
		t.Error("undone, the guest is on the other host")
	}
}

// killedOnTheWay: culvert is killed when the guest can start on neither host. libvirt starts the
// guest with none of the hosts, and the mark in the definition records that it did so before.
func killedOnTheWay(t *testing.T, g node.Guest, to node.Node, host string) {
	t.Helper()
	if _, err := g.Node.Script(t.Context(), "kill culvert on the way", `
		exec 3< <(exec culvert vm migrate "$1" "$2" 2>&1)
		while read -r line <&3; do
			echo "$line" >&2
			case $line in *"$3: let the guest start with the host"*) kill -KILL "$!"; break ;; esac
		done`, g.Name, host, to.Name); err != nil {
		t.Fatal(err)
	}
	mentions(t, string(must(t, g.Node, "virsh", "dumpxml", "--inactive", g.Name)), `moving-to="`+to.Name+`"`, `moving-autostart="on"`)
	mentions(t, string(must(t, to, "virsh", "dumpxml", "--inactive", g.Name)), `moving-from="`+g.Node.Name+`"`)
	if autostarts(t, g.Node, g.Name) {
		t.Error("libvirt would start the marked guest with its host")
	}
	fails(t, g.Start(t.Context()), "is on its way to host "+to.Name)
}

// sailed: a guest that runs migrates to another node, while a container of the node that it leaves
// pings it. The container's VF is on the same wire and VLAN.
func sailed(t *testing.T, g node.Guest, to node.Node) {
	from := g.Node
	a := network(t, from, "ashore", "1.1.0", `"pool": "culvert.dev/rest", "vlan": 92, "ipam": {"type": "static", "addresses": [{"address": "10.90.0.100/24"}]}`)
	netns(t, from, a.Netns)
	add(t, from, a)
	host := trusted(t, from, to)
	if _, err := g.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	const identity = "cat /proc/sys/kernel/random/boot_id"
	boot, err := g.Exec(t.Context(), identity)
	if err != nil {
		t.Fatal(err)
	}
	awaitFastPath(t, g)

	before := holding(t, from, g.Name, "net1")
	watch := watchDirect(t, from, host)
	out, err := from.Script(t.Context(), "migrate it under ping", `
		ip netns exec "$1" ping -c 5 -w 300 10.90.0.7 >&2
		ip netns exec "$1" ping -i 0.5 10.90.0.7 &
		ping=$!
		trap 'kill "$ping" || true' EXIT
		culvert vm migrate "$2" "$3" --live -o json >/run/migrated.json
		for try in $(seq 60); do # an address that does not answer ends ping before its deadline
			! ip netns exec "$1" ping -c 3 -w 5 10.90.0.7 >&2 || break
			sleep 1
		done
		((try < 60))
		trap - EXIT
		kill -INT "$ping"
		wait "$ping" || true`, a.Netns, g.Name, host)
	if err != nil {
		t.Fatal(err)
	}
	ping, err := bench.ParsePing(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d pings, two a second, came back", ping.Received, ping.Sent)
	if direct := watch(); direct != "" {
		t.Errorf("QEMU has sent something by TCP itself:\n%s", direct)
	}
	wentOver(t, from, g, to, "ssh")

	after := holding(t, to, g.Name, "net1")
	if after.Settings != before.Settings {
		t.Errorf("its VF has %v, had %v", after.Settings, before.Settings)
	}
	if is := now(t, from, before); is.Phase != "free" || len(is.Differences) > 0 {
		t.Errorf("the VF that it had is %s, differences %v", is.Phase, is.Differences)
	}
	if _, err := from.Run(t.Context(), "virsh", "domuuid", g.Name); err == nil {
		t.Error("it is defined on both hosts")
	}
	g.Node = to
	asLeased(t, g, after, 92)
	awaitFastPath(t, g)
	is, err := g.Exec(t.Context(), identity)
	if err != nil || string(is) != string(boot) {
		t.Errorf("another boot than before: %v\n%s%s", err, boot, is)
	}
}

// awaitFastPath waits until a guest has a VF as the fast path of its virtio interface.
func awaitFastPath(t *testing.T, g node.Guest) {
	t.Helper()
	if _, err := g.Exec(t.Context(), "timeout 300 sh -c 'until ls -l /sys/class/net/eth0/lower_*/device/driver | grep igbvf; do sleep 1; done'"); err != nil {
		t.Error(err)
	}
}

// trusted lets root of one node reach another node by ssh, and returns the other node's name for
// ssh.
func trusted(t *testing.T, from, to node.Node) string {
	t.Helper()
	key, err := from.Script(t.Context(), "make a key", `[ -e ~/.ssh/id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; cat ~/.ssh/id_ed25519.pub`)
	if err != nil {
		t.Fatal(err)
	}
	address, err := to.Feed(t.Context(), strings.NewReader(string(key)), "trust a key", `cat >>~/.ssh/authorized_keys; hostname -I`)
	if err != nil {
		t.Fatal(err)
	}
	host := strings.Fields(string(address))[0]
	if _, err := from.Script(t.Context(), "know the host", `ssh-keyscan -T 300 -t ed25519 "$1" >>~/.ssh/known_hosts`, host); err != nil {
		t.Fatal(err)
	}
	return "root@" + host
}

// watchDirect watches whether QEMU of a node connects to another node, whose name trusted returned.
// The returned function ends the watch, and returns the connections seen. They may include others
// of the node, if the kernel chose a port of QEMU's range for their other end.
func watchDirect(t *testing.T, n node.Node, other string) func() string {
	t.Helper()
	if _, err := n.Script(t.Context(), "watch QEMU's connections", `
		systemd-run --quiet --unit watch-direct sh -c "
			while sleep 0.1; do ss -Htn state established '( dst $1 and dport >= :49152 and dport <= :49215 )'; done >/run/direct"`,
		strings.TrimPrefix(other, "root@")); err != nil {
		t.Fatal(err)
	}
	return func() string {
		t.Helper()
		out, err := n.Script(t.Context(), "end watching", `systemctl stop watch-direct; sort -u /run/direct`)
		if err != nil {
			t.Error(err)
		}
		return string(out)
	}
}

// wentOver checks that culvert has reported the transport by which it sent a guest.
func wentOver(t *testing.T, from node.Node, g node.Guest, to node.Node, transport string) {
	t.Helper()
	var said api.GuestMigrated
	if err := json.Unmarshal(must(t, from, "cat", "/run/migrated.json"), &said); err != nil {
		t.Error(err)
	}
	if want := (api.GuestMigrated{Guest: g.Name, Host: to.Name, Transport: transport}); said != want {
		t.Errorf("it says %+v, want %+v", said, want)
	}
}

// sailedOverTLS: a guest that runs migrates to another node from QEMU to QEMU, which needs
// certificates for the nodes' names.
func sailedOverTLS(t *testing.T, g node.Guest, to node.Node) {
	from := g.Node
	certify(t, from, to)
	host := trusted(t, from, to)
	watch := watchDirect(t, from, host)
	_, err := from.Script(t.Context(), "migrate it over TLS", `culvert vm migrate "$1" "$2" --live --transport tls -o json >/run/migrated.json`, g.Name, host)
	direct := watch()
	if err != nil {
		t.Fatal(err)
	}
	wentOver(t, from, g, to, "tls")
	if direct == "" {
		t.Error("QEMU has not connected to the other QEMU")
	}
	g.Node = to
	asLeased(t, g, holding(t, to, g.Name, "net1"), 92)
	awaitFastPath(t, g)
}

// certify gives QEMU of each node a certificate for the nodes' names, signed by an authority that
// all trust.
func certify(t *testing.T, nodes ...node.Node) {
	t.Helper()
	key, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	own, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, err3 := x509.MarshalPKCS8PrivateKey(own)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "nodes"}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, n := range nodes {
		leaf.DNSNames = append(leaf.DNSNames, n.Name)
	}
	ca, err1 := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	cert, err2 := x509.CreateCertificate(rand.Reader, leaf, authority, own.Public(), key)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		for _, f := range []struct {
			names string
			block pem.Block
		}{
			{"ca-cert.pem", pem.Block{Type: "CERTIFICATE", Bytes: ca}},
			{"server-cert.pem client-cert.pem", pem.Block{Type: "CERTIFICATE", Bytes: cert}},
			{"server-key.pem client-key.pem", pem.Block{Type: "PRIVATE KEY", Bytes: der}},
		} {
			if _, err := n.Feed(t.Context(), bytes.NewReader(pem.EncodeToMemory(&f.block)), "certify QEMU", `
				mkdir -p /etc/pki/qemu && cd /etc/pki/qemu && tee $1 >/dev/null && chown libvirt-qemu $1`, f.names); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if _, err := n.Run(context.Background(), "rm", "-rf", "/etc/pki/qemu"); err != nil {
				t.Error(err)
			}
		})
	}
}

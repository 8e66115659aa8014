package node

import (
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Guest is a virtual machine of the node's libvirt: the small one of nodes whose lab has
// Guests, which runs commands from its serial console.
type Guest struct {
	Node Node
	Name string
}

//go:embed guest.xml
var guestXML string

// PutEmptyHooks puts hooks of libvirt that do nothing where Culvert's will be.
func (n Node) PutEmptyHooks(ctx context.Context) error {
	_, err := n.Script(ctx, "put empty hooks", `
		for kind in qemu network; do
			mkdir -p "/etc/libvirt/hooks/$kind.d"
			printf '#!/bin/sh\n' >"/etc/libvirt/hooks/$kind.d/culvert"
			chmod 755 "/etc/libvirt/hooks/$kind.d/culvert"
		done`)
	return err
}

// StartLibvirt starts libvirt anew, so that it looks for hooks. It returns when libvirt has
// probed its QEMU.
func (n Node) StartLibvirt(ctx context.Context) error {
	_, err := n.Script(ctx, "start libvirt", `
		systemctl try-restart libvirtd
		virsh --quiet domcapabilities --virttype qemu >/dev/null`)
	return err
}

// DefineGuest defines a guest. Its first VF, which it does not have yet, will
// get the address. It runs under KVM where the node has it.
func (n Node) DefineGuest(ctx context.Context, name string, address netip.Prefix) (Guest, error) {
	definition := strings.NewReplacer("NAME", name, "ADDRESS", address.String()).Replace(guestXML)
	_, err := n.Feed(ctx, strings.NewReader(definition), "define the guest "+name, `
		kind=qemu
		if [ -w /dev/kvm ]; then kind=kvm; fi
		sed "s/TYPE/$kind/" | virsh --quiet define /dev/stdin`)
	return Guest{Node: n, Name: name}, err
}

// GiveVF gives the guest a VF, with culvert vm xml's flags, and defines it anew.
func (g Guest) GiveVF(ctx context.Context, flags ...string) error {
	_, err := g.Node.Script(ctx, "give "+g.Name+" a VF", `
		name=$1
		shift
		virsh dumpxml --inactive "$name" >"/run/$name.xml"
		culvert vm xml "$@" "/run/$name.xml" >"/run/$name.new"
		virsh --quiet define --validate "/run/$name.new"`, append([]string{g.Name}, flags...)...)
	return err
}

// Start powers the guest on. Its kernel has not begun when it returns: see Await.
func (g Guest) Start(ctx context.Context) error {
	_, err := g.Node.Run(ctx, "virsh", "--quiet", "start", g.Name)
	return err
}

// guestBoot bounds a guest's boot. Where both the node and the guest in it are
// emulated it takes half a minute on an idle machine, and minutes on a busy one.
const guestBoot = 10 * time.Minute

// Await waits until the guest takes commands, and returns how many seconds of its own time that
// took.
func (g Guest) Await(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, guestBoot, fmt.Errorf("the guest %s is not up after %s", g.Name, guestBoot))
	defer cancel()
	out, err := g.Node.Script(ctx, "await the guest "+g.Name, `
		log=/var/log/libvirt/qemu/$1.console
		until grep -qs '^guest: ready' "$log"; do
			if [ ! -e "/run/libvirt/qemu/$1.pid" ]; then # to ask virsh would take time from the guest
				echo "it does not run; its console ends with: $(tail -n 20 "$log")" >&2
				exit 1
			fi
			sleep 2
		done
		sed -n 's/^guest: ready after \([0-9.]*\).*/\1/p' "$log"`, g.Name)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return strings.TrimSpace(string(out)), err
}

// Exec runs a line of shell in the guest and returns what it printed. The error is
// an *ExitError when its status is not 0.
func (g Guest) Exec(ctx context.Context, line string) ([]byte, error) {
	return g.Node.Script(ctx, g.Name+": "+line, `
		exec 3<>"$(virsh ttyconsole "$1")"
		stty raw -echo <&3
		printf '%s\n' "$2" >&3
		while IFS= read -r -t 600 said <&3; do
			said=${said%$'\r'}
			case $said in
			=[0-9]*) exit "${said#=}" ;;
			*) printf '%s\n' "$said" ;;
			esac
		done
		echo "no answer in 10 min" >&2
		exit 1`, g.Name, line)
}

// Place returns the place of the guest for culvert bench run. A virtio channel leads to a shell in
// it.
func (g Guest) Place() string {
	return fmt.Sprintf("lab:%s/%s,vm=%s,by=socat - UNIX-CONNECT:/run/libvirt/qemu/%[3]s.shell", g.Node.Lab.Name(), g.Node.Name, g.Name)
}

// Kill kills the guest's QEMU, as the kernel does when it is out of memory, and returns when
// libvirt has noticed.
func (g Guest) Kill(ctx context.Context) error {
	_, err := g.Node.Script(ctx, "kill QEMU of "+g.Name, `
		kill -KILL "$(cat "/run/libvirt/qemu/$1.pid")"
		until [ "$(virsh domstate "$1")" = "shut off" ]; do
			if [ "$SECONDS" -gt 600 ]; then
				echo "libvirt says that it is $(virsh domstate "$1")" >&2
				exit 1
			fi
			sleep 0.2
		done`, g.Name)
	return err
}

// Ended waits until a guest that has ended has no VF any more.
func (g Guest) Ended(ctx context.Context) error {
	_, err := g.Node.Script(ctx, "wait until "+g.Name+" has no VF", `
		named="\"name\": *\"$1\""
		while list=$(culvert vm list -o json); do
			if ! [[ $list =~ $named ]]; then exit; fi
			if [ "$SECONDS" -gt 600 ]; then break; fi
			sleep 0.2
		done
		culvert vm list >&2
		exit 1`, g.Name)
	return err
}

// Remove ends the guest, if it runs, and takes its definition away.
func (g Guest) Remove(ctx context.Context) error {
	_, err := g.Node.Script(ctx, "remove the guest "+g.Name, `
		if [ "$(virsh domstate "$1")" != "shut off" ]; then virsh --quiet destroy "$1"; fi
		virsh --quiet undefine "$1"`, g.Name)
	return err
}

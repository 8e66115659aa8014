package node

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
)

// Rootfs is the root of containers: some of the node's own Debian files.
const Rootfs = "/run/culvert-demo/rootfs"

// programs of the root, with the libraries that they are linked with.
// iperf3 loads one more library itself, libgcc_s, to end its threads.
const programs = "iperf3 ping ip sh cat sleep"

// Prepare makes the containers' root and starts containerd.
func (n Node) Prepare(ctx context.Context) error {
	_, err := n.Script(ctx, "prepare containers", `
		systemctl start containerd &
		mkdir -p "$1"/{proc,sys,dev,etc,tmp,run}
		for p in $2; do
			p=$(type -P "$p")
			echo "$p"
			ldd "$p" | grep -o '/[^ ]*'
			ldconfig -p | grep -o '/.*/libgcc_s\.so\.1$'
		done | sort -u | xargs cp --dereference --parents --target-directory "$1"
		wait $!`, Rootfs, programs)
	return err
}

// Netns returns the path of the network namespace with a name.
func Netns(name string) string { return "/run/netns/" + name }

// Container is a container of containerd, on a network namespace of its name.
type Container struct {
	Node Node
	Name string
}

// AddNetns makes the network namespace of a container to come, as a runtime
// does before it calls CNI.
func (n Node) AddNetns(ctx context.Context, name string) error {
	_, err := n.Script(ctx, "make the netns "+name, `ip netns add "$1" && ip -n "$1" link set lo up`, name)
	return err
}

// DelNetns removes a network namespace.
func (n Node) DelNetns(ctx context.Context, name string) error {
	_, err := n.Run(ctx, "ip", "netns", "delete", name)
	return err
}

// FindNetns returns the name of the network namespace that has an address, as a pod's has.
func (n Node) FindNetns(ctx context.Context, address netip.Addr) (string, error) {
	out, err := n.Script(ctx, "find the netns of "+address.String(), `
		for netns in $(ls /run/netns); do
			if [ -n "$(ip -netns "$netns" -oneline address show to "$1")" ]; then
				echo "$netns"
				exit
			fi
		done
		echo "none of $(ls /run/netns) has it" >&2
		exit 1`, address.String())
	return strings.TrimSpace(string(out)), err
}

// KeepOverlay has the kernel send by eth0 what a network namespace sends to an address of the
// overlay. Where eth0 has a default route and no other to the address, as with Calico, it adds a route
// by the same gateway, and returns it. R0's network puts a default route of its own first; the kernel
// takes it unless it knows that its gateway does not answer (fib_select_default). Pods of report R0
// kept the overlay's: the plugins of that time left out a second one.
func (n Node) KeepOverlay(ctx context.Context, netns string, peer netip.Addr) (added string, err error) {
	out, err := n.Script(ctx, "route "+peer.String()+" over eth0", `
		[ -z "$(ip -netns "$1" route show to match "$2" dev eth0 | grep -v '^default ')" ] || exit 0
		read -r _ _ gateway _ < <(ip -netns "$1" route show default dev eth0)
		ip -netns "$1" route add "$2" via "$gateway" dev eth0
		echo "$2 via $gateway dev eth0"`, netns, peer.String())
	return strings.TrimSpace(string(out)), err
}

// Start starts a container on the network namespace of its name.
func (n Node) Start(ctx context.Context, name string, argv ...string) (Container, error) {
	c := Container{Node: n, Name: name}
	_, err := n.Run(ctx, append([]string{
		"ctr", "run", "--detach", "--rootfs", "--env", "PATH=/usr/sbin:/usr/bin",
		"--with-ns", "network:" + Netns(name), Rootfs, name,
	}, argv...)...)
	if err != nil {
		return c, fmt.Errorf("start the container %s: %w", name, err)
	}
	return c, nil
}

// Exec runs a command in the container and returns what it printed.
func (c Container) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	return c.Node.Script(ctx, c.Name+": "+strings.Join(argv, " "), `
		name=$1
		shift
		exec ctr task exec --exec-id "$$" "$name" "$@"`, append([]string{c.Name}, argv...)...)
}

// Delete ends the container and removes it. Its network namespace stays.
func (c Container) Delete(ctx context.Context) error {
	_, err := c.Node.Script(ctx, "delete the container "+c.Name, `ctr task delete --force "$1" && ctr container delete "$1"`, c.Name)
	return err
}

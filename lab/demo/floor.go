package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/floor"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// buildFloor builds the program test/bench/floor into a folder of its own.
func buildFloor(ctx context.Context, source string) (string, error) {
	dir, err := os.MkdirTemp("", "culvert-demo-")
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "tools/go", "build", "-o", dir, "./test/bench/floor")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build the floor: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return filepath.Join(dir, "floor"), nil
}

// floorProgram is where the nodes have the program test/bench/floor.
const floorProgram = "/usr/local/bin/floor"

// timeFloor times the bare kernel work of an attach on the first node, before Culvert is installed
// and manages the VF.
func (k *kubernetes) timeFloor(ctx context.Context, program string) error {
	k.Step("timing the bare kernel work of an attach, %d times", k.Attachments)
	n := k.nodes[0]
	if err := k.cluster.Lab.Copy(ctx, n.Name, program, floorProgram); err != nil {
		return err
	}
	const pf, netns = "enp2s0", "floor"
	made, err := n.Script(ctx, "make a VF for the floor", `
		ip link set "$1" up
		"${@:2}"
		udevadm settle
		pci=$(basename "$(readlink "/sys/class/net/$1/device/virtfn0")")
		echo "$pci" "$(ls "/sys/bus/pci/devices/$pci/net")"`, append([]string{pf}, runFloor(floor.Make{PF: pf, VFs: 1, Bind: true})...)...)
	if err != nil {
		return err
	}
	var pci, name string
	if _, err := fmt.Sscan(string(made), &pci, &name); err != nil {
		return fmt.Errorf("read which VF was made for the floor: %q: %w", made, err)
	}
	out, err := n.Script(ctx, "time the floor", floorScript(pf, netns, pci, name), strconv.Itoa(k.Attachments))
	if err != nil {
		return err
	}
	k.found.Floor, err = parseFloor(string(out))
	return err
}

// runFloor returns the command that does the work on a node.
func runFloor(w floor.Work) []string { return append([]string{floorProgram}, w.Args()...) }

// floorScript attaches and detaches a VF of pf as often as its argument says, prints how
// many microseconds each attach took, and takes the VF and the program away.
func floorScript(pf, netns, pci, name string) string {
	line := func(w floor.Work) string { return strings.Join(runFloor(w), " ") }
	attach := floor.Attach{Netns: node.Netns(netns), VF: pci, Name: "net1", Address: netip.MustParsePrefix("172.16.91.200/24"),
		Route: vf.Route{Dst: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("172.16.91.1")}}
	return fmt.Sprintf(`
		ip netns add %[1]s
		for ((i = 0; i < $1; i++)); do
			start=${EPOCHREALTIME/./}
			%[2]s
			echo $((${EPOCHREALTIME/./} - start))
			%[3]s
			udevadm settle
		done
		ip netns delete %[1]s
		%[4]s
		ip link set %[5]s down
		rm %[6]s`,
		netns, line(attach), line(floor.Detach{Netns: node.Netns(netns), Name: attach.Name, HostName: name}),
		line(floor.Make{PF: pf, VFs: 0, Bind: true}), pf, floorProgram)
}

// parseFloor reads what floorScript prints.
func parseFloor(out string) (bench.Percentiles, error) {
	var took []time.Duration
	for _, field := range strings.Fields(out) {
		us, err := strconv.Atoi(field)
		if err != nil {
			return bench.Percentiles{}, fmt.Errorf("read the times of the floor: %w", err)
		}
		took = append(took, time.Duration(us)*time.Microsecond)
	}
	return bench.Latency(took)
}

package bench

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench/floor"
	"github.com/culvert-net/culvert/internal/vf"
)

const (
	ifName  = "net1"
	subnet  = "10.56.0.0/16"
	gateway = "10.56.0.1"
	route   = "10.20.0.0/16"
)

const culvertConfig = `{"cniVersion": "1.0.0", "name": "bench", "type": "culvert",
	"ipam": {"type": "host-local", "subnet": "` + subnet + `", "routes": [{"dst": "` + route + `", "gw": "` + gateway + `"}]}}`

// invocation is one exec of a plugin as a runtime does it.
type invocation struct {
	program, command, config string
	pod                      int
}

func (n *node) run(i invocation) error {
	cmd := exec.Command(filepath.Join(programs, i.program))
	cmd.Env = []string{
		"CNI_COMMAND=" + i.command, fmt.Sprintf("CNI_CONTAINERID=bench-%d", i.pod), "CNI_NETNS=" + podNetns(i.pod),
		"CNI_IFNAME=" + ifName, "CNI_PATH=" + programs, "CULVERT_SOCKET=" + n.socket, "PATH=" + os.Getenv("PATH"),
	}
	cmd.Stdin = strings.NewReader(i.config)
	return checked(cmd)
}

func checked(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", cmd.Path, cmd.Args[1:], err, out.Bytes())
	}
	return nil
}

func (n *node) add(pod int) error {
	return n.run(invocation{"culvert-cni", "ADD", culvertConfig, pod})
}

func (n *node) del(pod int) error {
	return n.run(invocation{"culvert-cni", "DEL", culvertConfig, pod})
}

// floor runs the bare kernel work, on the pod's own VF. culvertd must be
// frozen.
func (n *node) floor(w floor.Work) error {
	return checked(exec.Command(filepath.Join(programs, "floor"), w.Args()...))
}

func (n *node) floorAdd(pod int) error {
	return n.floor(floor.Attach{Netns: podNetns(pod), VF: n.vfs[pod].PCI.String(), Name: ifName,
		Address: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 56, 1, byte(100 + pod)}), 16),
		Route:   vf.Route{Dst: netip.MustParsePrefix(route), Gateway: netip.MustParseAddr(gateway)}})
}

func (n *node) floorDel(pod int) error {
	return n.floor(floor.Detach{Netns: podNetns(pod), Name: ifName, HostName: n.vfs[pod].Netdevice})
}

// timed returns the time that fn takes, from the moment when the node is idle.
func (n *node) timed(fn func() error) (time.Duration, error) {
	if err := n.quiet(); err != nil {
		return 0, err
	}
	start := time.Now()
	err := fn()
	return time.Since(start), err
}

// Package torture tests the real programs on a real kernel under rare failures. culvertd is
// killed at any moment, VFs and PFs vanish, other programs change NICs, the disk is full, or
// the clock jumps. culvertd and the plugin are those of build/bin; the kernel is Linux with igb
// and igbvf, in a fast lab node that is started with CULVERT_LAB_NODE=1:
//
//	make build
//	tools/test-lab ./test/torture -run TestKill -v
//
// The tests compare the state that culvertd reports with the state that package kernel reads,
// and never trust culvertd alone. Counts are small unless -kills and -cycles say otherwise;
// `make soak` does.
package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

var (
	seed   = flag.Uint64("seed", 0, "of what is random; 0 takes one from the clock")
	kills  = flag.Int("kills", 4, "how often culvertd is killed")
	cycles = flag.Int("cycles", 60, "how often a VF is attached and detached under a culvertd that lives")
)

// The programs, as tools/test-lab puts them into the node.
const (
	culvertd = "/usr/local/bin/culvertd"
	plugin   = "/opt/cni/bin/culvert"
)

// inNode skips the test outside of a lab node. In one it makes sure that no
// earlier test has left VFs.
func inNode(t *testing.T) *kernel.Kernel {
	t.Helper()
	if os.Getenv("CULVERT_LAB_NODE") != "1" {
		t.Skip("needs a lab node: make test-lab runs it there")
	}
	k := kernel.New(kernel.Options{})
	for _, pf := range pfs(t, k) {
		for _, s := range []step.Step{
			step.SetNumVFs{PF: pf.PCI}, step.SetAutoprobe{PF: pf.PCI, On: true}, step.SetPFUp{PF: pf.PCI}, step.WaitCarrier{PF: pf.PCI},
		} {
			if err := k.Do(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	return k
}

func pfs(t *testing.T, k *kernel.Kernel) (all []vf.PF) {
	t.Helper()
	eventually(t, settleBound, func() (err error) { // a busy kernel may not answer for a PF in time
		if all, err = k.PFs(t.Context()); err != nil {
			return err
		}
		if len(all) != 2 || all[0].Err != "" || all[1].Err != "" {
			return fmt.Errorf("%d PFs, want two: %+v", len(all), all)
		}
		return nil
	})
	return all
}

// settleBound bounds the time in which culvertd finishes its work by itself. On a busy emulated
// node a step may fail, and culvertd tries again at its next tick, or after the waits of a
// quarantine.
const settleBound = 5 * time.Minute

// pod has the arguments with which a runtime calls the plugin.
type pod struct {
	id     string
	netns  string // path
	config string // network configuration
}

// iface is the name of every pod's interface.
const iface = "net1"

// result is the part of a CNI result that the tests look at.
type result struct {
	Interfaces []struct {
		Name string     `json:"name"`
		MAC  vf.MAC     `json:"mac"`
		PCI  vf.PCIAddr `json:"pciID"`
	} `json:"interfaces"`
	IPs []struct {
		Address netip.Prefix `json:"address"`
	} `json:"ips"`
}

// cniError is the error object that a failed invocation of the plugin printed.
type cniError api.CNIError

func (e *cniError) Error() string { return fmt.Sprintf("code %d: %s: %s", e.Code, e.Msg, e.Details) }

// errKilled is the error of a call whose runtime lost patience and killed the plugin.
var errKilled = errors.New("the plugin was killed")

// cni calls the plugin as a runtime does. The error is a *cniError if the plugin printed an
// error object.
func (d *daemon) cni(ctx context.Context, command string, p pod) (r result, err error) {
	cmd := exec.CommandContext(ctx, plugin)
	cmd.Env = []string{
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + p.id, "CNI_IFNAME=" + iface, "CNI_NETNS=" + p.netns,
		"CNI_PATH=/opt/cni/bin", "CULVERT_SOCKET=" + d.socket,
	}
	config := p.config
	if command == "CHECK" { // with the result of the ADD, as a runtime keeps it
		config = strings.TrimSuffix(config, "}") + d.prevResult(p) + "}"
	}
	cmd.Stdin = strings.NewReader(config)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return r, errKilled
	}
	if err != nil {
		var e cniError
		if json.Unmarshal(stdout.Bytes(), &e) != nil {
			return r, fmt.Errorf("%s of %s: %w: %s%s", command, p.id, err, stdout.Bytes(), stderr.Bytes())
		}
		return r, &e
	}
	if command == "ADD" {
		err = json.Unmarshal(stdout.Bytes(), &r)
		d.results.Store(p.id, stdout.String())
	}
	return r, err
}

// prevResult returns the field that a runtime adds to the configuration for CHECK: the result
// of the ADD.
func (d *daemon) prevResult(p pod) string {
	prev, ok := d.results.Load(p.id)
	if !ok {
		return ""
	}
	return `, "prevResult": ` + prev.(string)
}

// mustCNI calls the plugin, which has to succeed.
func (d *daemon) mustCNI(t *testing.T, command string, p pod) {
	t.Helper()
	if _, err := d.cni(t.Context(), command, p); err != nil {
		t.Fatalf("%s of %s: %v", command, p.id, err)
	}
}

// mentions checks that an error contains all words.
func mentions(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("succeeded; want an error that says %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in: %v", w, err)
		}
	}
}

// eventually calls f until it returns nil, and gives up after the bound with
// f's last error. It returns how long it took.
func eventually(t *testing.T, bound time.Duration, f func() error) time.Duration {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(100 * time.Millisecond) // under emulation one call of f takes a third of that
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > bound {
			t.Fatalf("after %s: %v", bound, err)
		}
		<-tick.C
	}
}

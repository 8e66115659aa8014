package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// newPod makes a netns and a network configuration with the settings. The
// configuration requests the VF pci unless that is zero.
func newPod(t *testing.T, id string, pci vf.PCIAddr, settings string) pod {
	t.Helper()
	p := pod{id: id, netns: "/run/netns/" + id}
	if err := netns.New(p.netns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(p.netns); err != nil {
			t.Error(err)
		}
	})
	device := ""
	if !pci.IsZero() {
		device = fmt.Sprintf(`"deviceID": %q, `, pci)
	}
	p.config = `{"cniVersion": "1.1.0", "name": "churn", "type": "culvert", "pool": "net", ` + device + settings + subnet + `}`
	return p
}

// event waits for an event about an object, and returns how long after begin it
// came.
func (d *daemon) event(t *testing.T, begin time.Time, after uint64, reason, object string, words ...string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errFound := errors.New("found")
	var seen []string
	err := rpc.Stream(ctx, d.socket, api.MethodEvents, api.EventsRequest{After: after, Follow: true}, func(raw json.RawMessage) error {
		var e api.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		seen = append(seen, fmt.Sprintf("%s %s: %s", e.Reason, e.Object, e.Text))
		if e.Reason != reason || e.Object != object {
			return nil
		}
		for _, w := range words {
			if !strings.Contains(e.Text, w) {
				return nil
			}
		}
		return errFound
	})
	took := time.Since(begin)
	if !errors.Is(err, errFound) {
		t.Fatalf("no event %s of %s with %q: %v; there were:\n%s", reason, object, words, err, strings.Join(seen, "\n"))
	}
	t.Logf("%8s  %s", took.Round(time.Millisecond), seen[len(seen)-1])
	return took
}

// lastEvent is the number of the newest event.
func (d *daemon) lastEvent(t *testing.T) uint64 {
	t.Helper()
	all := d.events(t)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Seq
}

// run runs a command of the node, which has to succeed.
func run(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
	}
}

// echo writes to a file of the kernel's.
func echo(t *testing.T, text, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func device(pci vf.PCIAddr, file string) string {
	return "/sys/bus/pci/devices/" + pci.String() + "/" + file
}

// wholeAgain waits until every VF exists, is free, and is as it was before
// except for its name: without udev a new VF gets another name. It also checks
// that no address is held.
func wholeAgain(t *testing.T, d *daemon, k *kernel.Kernel, before clean) {
	t.Helper()
	took := eventually(t, settleBound, func() error {
		if err := d.settled(t.Context()); err != nil {
			return err
		}
		all, err := k.PFs(t.Context())
		if err != nil {
			return err
		}
		if d := unlike(before, allClean(all)); d != "" {
			return errors.New(d)
		}
		return nil
	})
	p := proof{kernel: k, before: allClean(pfs(t, k)), ledger: d.leases(t)}
	if err := p.violations(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("%8s  until all is as it was", took.Round(time.Millisecond))
}

//go:build lab

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/prometheus"
	"github.com/culvert-net/culvert/test/soak"
)

// watchHost has a Prometheus on this machine scrape the metrics of a node, as culvert metrics prints
// them.
func watchHost(t *testing.T, n node.Node) prometheus.Server {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := n.Run(r.Context(), "culvert", "metrics")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write(text) // Prometheus may have gone
	}))
	t.Cleanup(target.Close)
	return prometheus.Start(t, "../..", map[string]any{
		"job_name": "culvertd", "honor_labels": true,
		"static_configs": []any{map[string]any{"targets": []string{strings.TrimPrefix(target.URL, "http://")}, "labels": map[string]string{"instance": n.Name}}},
	})
}

// awaitAlert waits until an alert fires, or until it does not.
func awaitAlert(t *testing.T, p prometheus.Server, name string, want bool) {
	t.Helper()
	awaitTrue(t, fmt.Sprintf("alert %s fires: %t", name, want), func() (any, bool) {
		err := p.CheckFires(name, want)
		return err, err == nil
	})
}

// Alerts whose cause only a host without a kubelet can have here: a kubelet evicts pods before the disk is
// full, and its cluster needs the disk and the PF.
func TestAlertsOfAHost(t *testing.T) {
	soak.Only(t, "a node's disk is full and then slow for minutes; test/monitoring has promtool judge each alert")
	n := nodes[1]
	leavesNothing(t, n)
	p := watchHost(t, n)
	awaitTrue(t, "Prometheus has the node", func() (any, bool) {
		all, err := p.RunQuery("culvert_ready == 1")
		return err, len(all) == 1
	})
	var all []node.Attachment
	for _, name := range []string{"slow-0", "slow-1", "slow-2"} {
		a := network(t, n, name, "1.1.0", pool+`, "ipam": {"type": "host-local", "subnet": "10.85.0.0/24"}`)
		netns(t, n, a.Netns)
		all = append(all, a)
	}
	attachAsUsual(t, n, p, all[0]) // at the beginning, since CulvertAttachSlow compares with what was four minutes ago
	t.Run("the disk is nearly full", func(t *testing.T) { fillDisk(t, n, p) })
	t.Run("the PF does not answer a VF", func(t *testing.T) { silencePF(t, n, p) })
	t.Run("the disk is slow", func(t *testing.T) { slowDisk(t, n, p, all) })
	t.Run("a VF reports an error", func(t *testing.T) { // culvertd starts anew at its end, which ends the report
		a, held, _ := withErrors(t, n)
		injectError(t, n, held.PCI, completionTimeout, 0)
		awaitAlert(t, p, "CulvertPFErrors", true)
		awaitRecovery(t, n)
		if out, err := n.CNI(t.Context(), "del", a); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		// A queue of the PF may time out after the recovery. While the driver resets the PF then, it answers
		// no VF: culvertd tries again later.
		awaitTrue(t, "all VFs are free", func() (any, bool) {
			st := status(t, n)
			i := slices.IndexFunc(st.VFs, func(v api.VF) bool { return v.Phase != "free" })
			return st.VFs, i < 0
		})
	})
	awaitAlert(t, p, "CulvertPFErrors", false)
}

// fillDisk leaves 80 MB on the file system of the ledger.
func fillDisk(t *testing.T, n node.Node, p prometheus.Server) {
	const filler = "/var/lib/culvert/filler"
	t.Cleanup(func() {
		if _, err := n.Run(context.Background(), "rm", "-f", filler); err != nil {
			t.Error(err)
		}
	})
	// The room that the file system reserves for root is free for culvertd.
	must(t, n, "sh", "-euc", `set -- $(stat --file-system --format "%f %S" /var/lib/culvert); fallocate -l $(($1 * $2 - 80000000)) `+filler)
	awaitAlert(t, p, "CulvertLedgerDiskFull", true)
	must(t, n, "rm", filler)
	awaitAlert(t, p, "CulvertLedgerDiskFull", false)
}

// silencePF masks the interrupts of a PF, so that its driver answers no message of a VF. The owner of a
// VF then sets its interface down and up, and it has no carrier. It has none either after the PF answers
// again, until the driver of the VF is bound anew, which the alert advises.
func silencePF(t *testing.T, n node.Node, p prometheus.Server) {
	a := network(t, n, "silent", "1.1.0", pool+`, "ipam": {"type": "host-local", "subnet": "10.86.0.0/24"}`)
	netns(t, n, a.Netns)
	add(t, n, a)
	held := holder(t, n, a.Network)
	pf := pfOf(t, status(t, n), held.PF)
	// Bit 14 of Message Control is Function Mask (PCIe 6.0, 7.7.2.2). It stops the interrupts of the PF's
	// own queues, too: the PF sends nothing meanwhile, as its driver would reset it when a queue times out.
	mask := func(script, bits string) {
		if _, err := n.Script(context.Background(), "mask", script, pf.Name, pf.PCI.String(), "CAP_MSIX+2.w="+bits+":4000"); err != nil {
			t.Error(err)
		}
	}
	mask(`tc qdisc add dev $1 clsact; tc filter add dev $1 egress matchall action drop; setpci -s $2 $3`, "4000")
	unmask := sync.OnceFunc(func() { mask(`setpci -s $2 $3; tc qdisc delete dev $1 clsact`, "0") })
	t.Cleanup(unmask)
	must(t, n, "ip", "-n", a.Netns, "link", "set", a.Interface, "down")
	must(t, n, "ip", "-n", a.Netns, "link", "set", a.Interface, "up")
	awaitAlert(t, p, "CulvertVFsWithoutCarrier", true)
	unmask()
	if !holder(t, n, a.Network).NoCarrier {
		t.Error("the VF has carrier again before its driver is bound anew: the advice of the alert is not tried")
	}
	if out, err := n.CNI(t.Context(), "del", a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	awaitAlert(t, p, "CulvertVFsWithoutCarrier", false)
	next := network(t, n, "answered", "1.1.0", `"deviceID": "`+held.PCI.String()+`", "ipam": {"type": "host-local", "subnet": "10.86.0.0/24"}`)
	netns(t, n, next.Netns)
	add(t, n, next)
	awaitTrue(t, "the VF has carrier for its next owner", func() (any, bool) {
		out := string(must(t, n, "ip", "-n", next.Netns, "link", "show", next.Interface))
		return out, strings.Contains(out, "LOWER_UP")
	})
}

// attachAsUsual attaches and detaches until Prometheus has the durations of eleven attaches.
func attachAsUsual(t *testing.T, n node.Node, p prometheus.Server, a node.Attachment) {
	t.Helper()
	awaitTrue(t, "Prometheus has the durations of eleven attaches", func() (any, bool) {
		took := attachOnce(t, n, a)
		all, err := p.RunQuery(`increase(culvert_attach_duration_seconds_count{result="ok"}[10m]) > 10`)
		return []any{took, err}, len(all) == 1
	})
}

// attachOnce makes attachments at the same time, and ends them. It returns how long that took.
func attachOnce(t *testing.T, n node.Node, all ...node.Attachment) time.Duration {
	t.Helper()
	began := time.Now()
	var group errgroup.Group
	for _, a := range all {
		group.Go(func() error {
			for _, command := range []string{"add", "del"} {
				if out, err := n.CNI(t.Context(), command, a); err != nil {
					return fmt.Errorf("%s: %w: %s", command, err, out)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began).Round(time.Millisecond)
}

// slowDisk lets culvertd write to its disk only six times a second, while pods start and end. Three start
// at a time: each of them then waits longer for the disk, and there are still the ten attaches in two
// minutes that CulvertAttachSlow needs.
func slowDisk(t *testing.T, n node.Node, p prometheus.Server, all []node.Attachment) {
	limit := func(value string) {
		if _, err := n.Run(context.Background(), "systemctl", "set-property", "--runtime", "culvertd.service", "IOWriteIOPSMax="+value); err != nil {
			t.Error(err)
		}
	}
	device := strings.TrimSpace(string(must(t, n, "findmnt", "--noheadings", "--output", "SOURCE", "--target", "/var/lib/culvert")))
	limit(device + " 6")
	t.Cleanup(func() { limit("") })
	for _, name := range []string{"CulvertLedgerSlow", "CulvertAttachSlow"} {
		awaitTrue(t, "alert "+name+" fires while the disk is slow", func() (any, bool) {
			took := attachOnce(t, n, all...)
			err := p.CheckFires(name, true)
			return []any{took, err}, err == nil
		})
	}
	limit("")
	awaitAlert(t, p, "CulvertLedgerSlow", false)
	awaitAlert(t, p, "CulvertAttachSlow", false)
}

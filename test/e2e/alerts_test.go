//go:build lab

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

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
// full, and its cluster needs the disk.
func TestAlertsOfAHost(t *testing.T) {
	soak.Only(t, "a node's disk is full and then slow for minutes; test/monitoring has promtool judge each alert")
	n := nodes[1]
	leavesNothing(t, n)
	p := watchHost(t, n)
	awaitTrue(t, "Prometheus has the node", func() (any, bool) {
		all, err := p.RunQuery("culvert_ready == 1")
		return err, len(all) == 1
	})
	t.Run("the disk is nearly full", func(t *testing.T) { fillDisk(t, n, p) })
	t.Run("the disk is slow", func(t *testing.T) { slowDisk(t, n, p) })
	t.Run("a VF reports an error", func(t *testing.T) { // culvertd starts anew at its end, which ends the report
		_, held, _ := withErrors(t, n)
		injectError(t, n, held.PCI, completionTimeout, 0)
		awaitAlert(t, p, "CulvertPFErrors", true)
		awaitRecovery(t, n)
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

// slowDisk lets culvertd write to its disk only four times a second, while it attaches and detaches.
func slowDisk(t *testing.T, n node.Node, p prometheus.Server) {
	a := network(t, n, "slow", "1.1.0", pool+`, "ipam": {"type": "host-local", "subnet": "10.85.0.0/24"}`)
	netns(t, n, a.Netns)
	limit := func(value string) {
		if _, err := n.Run(context.Background(), "systemctl", "set-property", "--runtime", "culvertd.service", "IOWriteIOPSMax="+value); err != nil {
			t.Error(err)
		}
	}
	device := strings.TrimSpace(string(must(t, n, "findmnt", "--noheadings", "--output", "SOURCE", "--target", "/var/lib/culvert")))
	limit(device + " 4")
	t.Cleanup(func() { limit("") })
	for end := time.Now().Add(bound); ; {
		began := time.Now()
		for _, command := range []string{"add", "del"} {
			if out, err := n.CNI(t.Context(), command, a); err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
		}
		t.Logf("an attach and its detach took %s", time.Since(began).Round(time.Millisecond))
		names, err := p.ListFiring()
		if slices.Contains(names, "CulvertLedgerSlow") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("CulvertLedgerSlow does not fire, %q do, %v", names, err)
		}
	}
	limit("")
	awaitAlert(t, p, "CulvertLedgerSlow", false)
}

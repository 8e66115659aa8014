package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// BenchmarkScrape is a whole scrape of a node with 256 VFs, all of them attached to pods: culvertd
// lists the hardware, reads the VFs and the ledger, and writes the text. The kernel is the fake one, so
// Linux's time for 256 netdevices is not in it.
func BenchmarkScrape(b *testing.B) {
	k := fake.New(fake.I40E, 4)
	s := servedOn(b, b.TempDir(), k)
	s.status.Kernel = k
	s.node.SetSpec(desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: desired.AllVFs, Autoprobe: true}}},
		Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
	})
	err := s.node.Reconciler.Pass(b.Context())
	for i := range 256 {
		netns := fmt.Sprintf("/run/netns/p%d", i)
		k.AddNetns(netns)
		_, one := s.node.Engine.Attach(b.Context(), attach.Request{
			Owner:   vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint("c", i), Name: fmt.Sprintf("tenant-%d/deployment-7d4b9c-%d", i/16, i), Interface: "net1"},
			Network: fmt.Sprintf("tenant-%d/network-%d", i/16, i%16), Netns: netns, Pool: "x/a", Spec: vf.Spec{Interface: "net1"},
		})
		err = errors.Join(err, one)
	}
	if err != nil {
		b.Fatal(err)
	}
	s.node.VFs.Wait()
	var text strings.Builder
	b.ReportAllocs()
	for b.Loop() {
		text.Reset()
		if err := s.metrics.WriteText(&text); err != nil {
			b.Fatal(err)
		}
	}
	lines := strings.Count(text.String(), "\nculvert_")
	if !strings.Contains(text.String(), `state="used"} 64`) || lines < 8*256 {
		b.Fatalf("%d lines:\n%.2000s", lines, text.String())
	}
	b.ReportMetric(float64(text.Len()), "bytes")
	b.ReportMetric(float64(lines), "series")
}

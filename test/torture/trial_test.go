package torture

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/rpc"
)

// A host.yaml on trial is taken back on Linux, although the command and culvertd are killed meanwhile. So are
// VFs and the MTU of a PF that the host.yaml before it leaves alone.
func TestTrialIsTakenBackAfterKill(t *testing.T) {
	k := inNode(t)
	const before = "pfs:\n- {name: eth0, vfs: 2}\n"
	d := newDaemon(t, before)
	if err := k.Do(t.Context(), step.SetPFMTU{PF: pfs(t, k)[1].PCI, MTU: 1400}); err != nil {
		t.Fatal(err)
	}
	try := api.HostTryRequest{File: "new.yaml", Seconds: 10, Content: "pfs:\n- {name: eth0, vfs: 3}\n- {name: eth1, vfs: 2, mtu: 1450, addresses: [172.31.7.1/24]}\n"}
	ctx, disconnect := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() { answered <- rpc.Call(ctx, d.socket, api.MethodHostTry, try, nil) }()
	awaitTrial := func(is func(*api.HostTrial) bool) {
		eventually(t, settleBound, func() error {
			st, err := d.status(t.Context())
			if err == nil && !is(st.Trial) {
				err = fmt.Errorf("the trial is %+v", st.Trial)
			}
			return err
		})
	}
	awaitTrial(func(now *api.HostTrial) bool { return now != nil })
	disconnect() // as kill -9 of the command does
	<-answered
	var until time.Time
	awaitTrial(func(now *api.HostTrial) bool {
		if now != nil {
			until = now.Until
		}
		return !until.IsZero()
	})
	d.kill()
	if all := pfs(t, k); all[0].NumVFs != 3 || all[1].NumVFs != 2 || all[1].MTU != 1450 {
		t.Errorf("on trial: %d and %d VFs, MTU %d", all[0].NumVFs, all[1].NumVFs, all[1].MTU)
	}
	time.Sleep(time.Until(until))
	d.start(t)
	d.ready(t)
	took := eventually(t, settleBound, func() error {
		all := pfs(t, k)
		content, err := os.ReadFile(d.host)
		st, statusErr := d.status(t.Context())
		switch {
		case err != nil || statusErr != nil:
			return fmt.Errorf("%w, %w", err, statusErr)
		case string(content) != before || st.Trial != nil:
			return fmt.Errorf("host.yaml %q, trial %+v", content, st.Trial)
		case all[0].NumVFs != 2 || all[1].NumVFs != 0 || all[1].MTU != 1400 || strings.Contains(fmt.Sprint(all[1].Addrs), "172.31.7.1"):
			return fmt.Errorf("%d and %d VFs, MTU %d, addresses %v", all[0].NumVFs, all[1].NumVFs, all[1].MTU, all[1].Addrs)
		}
		return nil
	})
	t.Logf("taken back %s after culvertd was ready again", took.Round(time.Millisecond))
}

package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
)

// P1: culvertd is not ready while a NIC that host.yaml names is missing. It is ready after the
// first pass that left nothing to do.
func TestReadyWhenNothingIsLeftToDo(t *testing.T) {
	const good = "pfs:\n- {name: enp1s0, vfs: 2}\n"
	h := boot(t, good+"- {name: late0, vfs: 2}\n")
	ctx, cancel := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan struct{})
	missing := make(chan string, 2)
	go func() { ended <- h.Reconciler.Run(ctx, func(s string) { missing <- s }, func() { close(ready) }) }()
	select {
	case got := <-missing:
		if got != "host.yaml:3: no PF matches name late0; there are enp1s0, enp2s0" {
			t.Errorf("missing: %q", got)
		}
	case <-time.After(2 * time.Second):
		t.Error("for 2 s it did not say what it waits for")
	}
	select {
	case <-ready:
		t.Error("ready, and late0 is not there")
	case <-time.After(500 * time.Millisecond):
	}
	h.want(t, good) // now the host has every PF that host.yaml names
	pfs, err := h.k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.k.Cable(pfs[0].PCI, true) // an event, to cause a pass
	select {
	case <-ready:
	case <-time.After(5 * time.Minute):
		t.Error("not ready, and nothing is left to do")
	}
	if got := <-missing; got != "" {
		t.Errorf("nothing is missing any more: %q", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// I7: a VF that is used outside Culvert, and a number of VFs that an owner is in the way of, do not
// keep culvertd from serving.
func TestI7ReadyBesideUsersOfVFs(t *testing.T) {
	h, pf := bootBesideOthers(t)
	if err := h.k.Do(t.Context(), step.Move{VF: pf.VFs[1].PCI, To: "/run/netns/other", Name: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, count := range []string{"7", "2"} {
		h.want(t, "pfs:\n- {name: enp1s0, vfs: "+count+"}\n")
		ctx, cancel := context.WithCancel(t.Context())
		ended, ready := make(chan error, 1), make(chan struct{})
		go func() { ended <- h.Reconciler.Run(ctx, func(string) {}, func() { close(ready) }) }()
		select {
		case <-ready:
		case <-time.After(30 * time.Second):
			t.Errorf("%s VFs wanted: not ready: %s", count, problems(h))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if problems(h) == "" {
			t.Errorf("%s VFs wanted, and no problem is shown", count)
		}
	}
}

package conduct

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/place"
)

func TestPulled(t *testing.T) {
	for _, c := range []struct {
		series                 []float64
		before, stopped, after float64
	}{
		{[]float64{9, 9, 9, 4, 0, 0, 1, 9, 8, 7}, 9, 2, 8},
		{[]float64{9, 0, 9, 9, 4, 0, 0, 0, 1, 8}, 6.75, 3, 8}, // the longest counts
		{[]float64{9, 9, 4, 0, 0}, 9, 2, 0},                   // it did not come again
		{[]float64{0, 0, 1, 9}, 0, 2, 9},
		{[]float64{8, 9, 7}, 8, 0, 8}, // it did not stop
		{nil, 0, 0, 0},
	} {
		if before, stopped, after := Pulled(bench.Run{Seconds: float64(len(c.series)), Series: c.series}); before != c.before || stopped != c.stopped || after != c.after {
			t.Errorf("%v: %g, %g, %g", c.series, before, stopped, after)
		}
	}
	if _, stopped, _ := Pulled(bench.Run{Seconds: 1, Series: []float64{9, 9, 0, 0, 0, 0, 9, 9, 9, 9}}); stopped != 0 {
		t.Errorf("a lost segment is a pulled cable of %g s", stopped)
	}
}

// The runs of an arm make one note. Void runs and warm-up runs are not in it.
func TestPulledArms(t *testing.T) {
	pulled := bench.Workload{Pulled: true}
	r := bench.Result{
		Arms: []bench.Arm{{Name: "m9", Workload: pulled}, {Name: "m1"}, {Name: "void", Workload: pulled}, {Name: "near", Workload: pulled}},
		Runs: []bench.Run{
			{Seconds: 10, Series: []float64{9, 9, 9, 4, 0, 1, 9, 9, 7, 5}},
			{Seconds: 10, Series: []float64{8, 8, 8, 4, 0, 0, 5, 5, 5, 5}},
			{Series: []float64{1}, Discard: true},
			{Arm: 2, Void: "no"},
			{Arm: 3, Seconds: 3, Series: []float64{9, 9, 9}},
		},
	}
	want := []string{
		"m9: 8 to 9 Gb/s before the cable was pulled, 0 while it was, 5 to 7.50 after it was plugged in again; nothing arrived for 1 to 2 s",
		"near: the pulled cable did not stop the traffic",
	}
	if diff := cmp.Diff(want, pulledArms(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A run pulls the cable while traffic runs, and plugs it in again in any case. If that fails, no
// more runs are made.
func TestCablePulledInARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitRate(t, 0, "a0", "40mbit")
	w.exchange.Arms[0].Workload.Seconds, w.exchange.Arms[0].Workload.Engine = 14, engine.Own // TCP tries again 3 s or 6 s after the pull
	var did []string
	w.exchange.Arms[0].Workload.Pulled = true
	w.exchange.Cable.Move = func(ctx context.Context, e bench.End, in bool) error {
		state := map[bool]string{true: "up", false: "down"}[in]
		did = append(did, e.Interface+" "+state)
		return exec.CommandContext(ctx, "ip", "-n", e.Name, "link", "set", e.Interface, state).Run()
	}
	run, err := w.runOnce(t, 0)
	for range 7 { // a run that is void before the cable is pulled does not get there
		if err != nil || run.Void == "" || len(did) > 0 {
			break
		}
		run, err = w.runOnce(t, 0)
	}
	if err != nil || fmt.Sprint(did) != "[a0 down a0 up]" {
		t.Errorf("%v, %q, %v", err, run.Void, did)
	}
	if before, stopped, after := Pulled(run); run.Void == "" && (before <= 0 || stopped < 1.9 || stopped > 7 || after <= 0) {
		t.Errorf("pulled for 2 s: %g Gb/s, nothing for %g s, %g Gb/s", before, stopped, after)
	}
	stuck := errors.New("it is stuck")
	w.exchange.Arms[0].Workload.Seconds = 2
	w.exchange.Cable.Move = func(_ context.Context, _ bench.End, in bool) error {
		if in {
			return stuck
		}
		return nil
	}
	for range 8 { // a run that is void before the cable is pulled does not get there
		if run, err = w.runOnce(t, 0); err != nil {
			break
		}
	}
	if !errors.Is(err, errPulled) || !errors.Is(err, stuck) {
		t.Errorf("%v, %q", err, run.Void)
	}
}

func TestSiteName(t *testing.T) {
	for text, want := range map[string]string{"host": "host", "ssh:root@n1": "host", "netns:a": "a", "ssh:n1,netns=b": "b", "pid:17": "pid 17"} {
		s, err := place.Parse(text)
		if got := siteName(s); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// An error while stations are opened names the place, and leaves no station open.
func TestCrewSaysWhatIsWrong(t *testing.T) {
	c := &Session{}
	_, err := c.Open(t.Context(), []place.Spec{{Kind: place.Host}}, place.Program{Path: "/bin/true"})
	if err == nil || !strings.Contains(err.Error(), "open host") {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

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
	"github.com/culvert-net/culvert/bench/place"
)

func TestPulled(t *testing.T) {
	before, while, after := Pulled(bench.Run{Series: []float64{9, 9, 9, 4, 0, 1, 9, 8, 7, 6}})
	if before != 9 || while != 0 || after != 7.5 {
		t.Errorf("%g, %g, %g", before, while, after)
	}
	if before, while, after = Pulled(bench.Run{}); before+while+after != 0 {
		t.Errorf("of nothing: %g, %g, %g", before, while, after)
	}
}

// The runs of an arm make one note. Void runs and warm-up runs are not in it.
func TestPulledArms(t *testing.T) {
	pulled := bench.Workload{Pulled: true}
	r := bench.Result{
		Arms: []bench.Arm{{Name: "m9", Workload: pulled}, {Name: "m1"}, {Name: "void", Workload: pulled}},
		Runs: []bench.Run{
			{Series: []float64{9, 9, 9, 4, 0, 1, 9, 8, 7, 6}},
			{Series: []float64{8, 8, 8, 4, 0, 1, 5, 5, 5, 5}},
			{Series: []float64{1}, Discard: true},
			{Arm: 2, Void: "no"},
		},
	}
	want := []string{"m9: 8 to 9 Gb/s before the cable was pulled, 0 while it was, 5 to 7.50 after it was plugged in again"}
	if diff := cmp.Diff(want, pulledArms(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A run pulls the cable while traffic runs, and plugs it in again in any case. If that fails, no
// more runs are made.
func TestCablePulledInARun(t *testing.T) {
	w := newWorld(t)
	w.exchange.Arms[0].Workload.Seconds = 2
	var did []string
	w.exchange.Arms[0].Workload.Pulled = true
	w.exchange.Cable = func(ctx context.Context, e bench.End, in bool) error {
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
	stuck := errors.New("it is stuck")
	w.exchange.Cable = func(_ context.Context, _ bench.End, in bool) error {
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
	c := &Crew{}
	_, err := c.Open(t.Context(), []place.Spec{{Kind: place.Host}}, place.Program{Path: "/bin/true"})
	if err == nil || !strings.Contains(err.Error(), "open host") {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

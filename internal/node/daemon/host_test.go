package daemon

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/vf"
)

func asParams(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The methods of a trial: its window is bounded, no other host.yaml is applied meanwhile, and the
// status has it until it is confirmed or taken back.
func TestTrialMethods(t *testing.T) {
	dir := t.TempDir()
	s := served(t, dir)
	const before, after = "pfs: [{name: '*', vfs: 1}]\n", "pfs: [{name: '*', vfs: 2}]\n"
	apply := asParams(t, api.HostRequest{File: "host.yaml", Content: before})
	if _, err := s.hostApply(t.Context(), apply); err != nil {
		t.Fatal(err)
	}
	for _, seconds := range []int{0, -1, 24*3600 + 1} {
		if _, err := s.hostTry(t.Context(), asParams(t, api.HostTryRequest{Content: after, Seconds: seconds})); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%d s: %v", seconds, err)
		}
	}
	try := asParams(t, api.HostTryRequest{File: "new.yaml", Content: after, Seconds: 60})
	for _, end := range []string{"confirm", "revert"} {
		answer, err := s.hostTry(t.Context(), try)
		if err != nil {
			t.Fatal(err)
		}
		if r := answer.(api.ApplyResult); !r.Applied || r.Trial == nil || r.Trial.Until.IsZero() {
			t.Errorf("%+v", r)
		}
		if st, err := s.status.Status(t.Context()); err != nil || st.Trial == nil {
			t.Errorf("status: %+v, %v", st.Trial, err)
		}
		for name, call := range map[string]func() (any, error){
			"apply": func() (any, error) { return s.hostApply(t.Context(), apply) },
			"try":   func() (any, error) { return s.hostTry(t.Context(), try) },
		} {
			if _, err := call(); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "first culvert host confirm") {
				t.Errorf("%s during a trial: %v", name, err)
			}
		}
		want := after
		if end == "confirm" {
			_, err = s.hostConfirm(t.Context(), nil)
		} else {
			want = before
			_, err = s.hostRevert(t.Context(), nil)
		}
		content, readErr := os.ReadFile(filepath.Join(dir, "host.yaml"))
		if err != nil || readErr != nil || string(content) != want || s.trials.Status() != nil {
			t.Errorf("%s: %v, %v: host.yaml %q, trial %+v", end, err, readErr, content, s.trials.Status())
		}
		if _, err := s.hostApply(t.Context(), apply); err != nil {
			t.Fatal(err)
		}
	}
}

// A newer culvert may send a field that this culvertd does not know. culvertd does nothing then.
func TestParametersOfANewerProgram(t *testing.T) {
	s := served(t, t.TempDir())
	_, err := s.hostApply(t.Context(), json.RawMessage(`{"file": "host.yaml", "content": "pfs: []\n", "frob": true}`))
	if !errors.Is(err, vf.ErrInvalid) || !errors.Is(err, exactjson.Unknown{Field: "frob"}) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(s.HostFile); err == nil {
		t.Error("host.yaml was written")
	}
}

// A plan for a trial names what going back leaves.
func TestPlanForTrial(t *testing.T) {
	s := served(t, t.TempDir())
	request := api.HostRequest{File: "host.yaml", Content: "pfs: [{name: '*', vfs: 2}]\n"}
	for _, forTrial := range []bool{false, true} {
		request.ForTrial = forTrial
		answer, err := s.hostPlan(t.Context(), asParams(t, request))
		if err != nil {
			t.Fatal(err)
		}
		stays := strings.Join(answer.(api.Plan).Stays, "\n")
		if strings.Contains(stays, "are made anew both ways. A pod or guest that gets one meanwhile keeps it") != forTrial {
			t.Errorf("for a trial %t: %s", forTrial, stays)
		}
	}
}

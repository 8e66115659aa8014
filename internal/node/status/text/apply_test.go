package text

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// The output of an application, and the reason why a file is not applied, end with the next step.
func TestApplied(t *testing.T) {
	held := api.Plan{PFs: []api.PFPlan{{PF: "enp1s0", Hurts: []api.Holder{{Owner: vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}, VF: "enp1s0#0"}}}}}
	refused := api.Plan{PFs: []api.PFPlan{{PF: "enp1s0", Refused: "it has no SR-IOV"}}}
	for name, tc := range map[string]struct {
		result api.ApplyResult
		shown  string
		why    string // of NotApplied; empty: it is applied
		is     error
	}{
		"done":     {result: api.ApplyResult{Applied: true}, shown: "Applied."},
		"problems": {result: api.ApplyResult{Applied: true, Problems: []api.Problem{{Object: "PF enp1s0", Reason: "down"}}}, shown: "PF enp1s0: down", why: "culvert status follows them"},
		"held":     {result: api.ApplyResult{Plan: held}, shown: "pod default/a, who has enp1s0#0", why: "--force", is: vf.ErrHeld},
		"refused":  {result: api.ApplyResult{Plan: refused}, shown: "cannot be done: it has no SR-IOV", why: "PF enp1s0: it has no SR-IOV", is: vf.ErrInvalid},
		"silent":   {shown: "Nothing changes.", why: "journalctl -u culvertd"},
	} {
		if shown := Applied(tc.result, plainText); !strings.Contains(shown, tc.shown) {
			t.Errorf("%s: no %q in %s", name, tc.shown, shown)
		}
		err := NotApplied("host.yaml", tc.result)
		if (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v, want %q", name, err, tc.why)
		}
	}
}

// A device is attached to a guest that runs, to its definition, or to both.
func TestGuestAttached(t *testing.T) {
	shown := GuestAttached(api.GuestAttached{Guest: "db1", Devices: []api.GuestDevice{{Device: "vf0", Live: true, Config: true}, {Device: "vf1", Config: true}}})
	for _, want := range []string{"as vf0, in the guest that runs and in its definition\n", "as vf1, in its definition\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in %s", want, shown)
		}
	}
}

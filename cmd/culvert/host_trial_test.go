package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
)

// apply --confirm shows what going back leaves before it applies, and asks for a trial. Without a
// terminal it returns and says how to keep the file.
func TestApplyOnTrial(t *testing.T) {
	d := &culvertd{plan: api.Plan{PFs: []api.PFPlan{}, Stays: []string{"PF enp1s0f0 stays up."}}}
	d.result = api.ApplyResult{Applied: true, Trial: &api.HostTrial{Began: time.Now(), Until: time.Now().Add(60 * time.Second)}}
	socket := d.serve(t)
	out, err := run(t.Context(), t, socket, "host", "apply", "--confirm", "60s", "-")
	before, after, ok := strings.Cut(out, "Applied.\n")
	if err != nil || !ok || !strings.Contains(before, "Going back will not undo all of it:\n! PF enp1s0f0 stays up.\n") ||
		!strings.Contains(after, "is on trial: 60 s left; culvert host confirm keeps it,") || strings.Contains(out, "Enter") {
		t.Errorf("%s%v", out, err)
	}
	if len(d.tried) != 1 || d.tried[0].Seconds != 60 || !strings.Contains(d.tried[0].Content, "vfs: 4") || len(d.applied) != 0 {
		t.Errorf("asked for %+v, %+v", d.tried, d.applied)
	}
	if out, err := run(t.Context(), t, socket, "host", "confirm"); err != nil || out != "host.yaml of 12:00:03 stays.\n" {
		t.Errorf("%s%v", out, err)
	}
	if _, err := run(t.Context(), t, socket, "host", "revert"); err == nil || !strings.Contains(err.Error(), "culvert status shows what is left") {
		t.Errorf("it waits: %v", err)
	}
	d.result.Trial = nil
	if out, err := run(t.Context(), t, socket, "host", "revert"); err != nil || out != "The host.yaml before the trial is in force again.\n" {
		t.Errorf("%s%v", out, err)
	}
	if !slices.Equal(d.ended, []string{api.MethodHostConfirm, api.MethodHostRevert, api.MethodHostRevert}) {
		t.Errorf("asked for %v", d.ended)
	}
}

// A trial that would take a VF from its owner is not begun.
func TestTrialRefused(t *testing.T) {
	d := &culvertd{plan: hurting, result: api.ApplyResult{Plan: hurting}}
	out, err := run(t.Context(), t, d.serve(t), "host", "apply", "--confirm", "60s", "-")
	if err == nil || !strings.Contains(err.Error(), "nothing was changed: VFs are held by pod default/a") || strings.Contains(out, "on trial") {
		t.Errorf("%s%v", out, err)
	}
}

package main

import (
	"cmp"
	"os"
	"path/filepath"
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

// At a terminal the command asks, and waits for the answer: Enter and yes keep the file, another word
// is asked again, Ctrl-C goes back at once. Without an answer culvertd goes back by itself, also if the
// terminal is closed meanwhile.
func TestTrialAtATerminal(t *testing.T) {
	const question, stays = "Press Enter to keep it, or Ctrl-C to go back now: ", "host.yaml of 12:00:03 stays."
	confirmed, reverted := []string{api.MethodHostConfirm}, []string{api.MethodHostRevert}
	for name, c := range map[string]struct {
		keys, then string // typed at the first and at the second question
		closes     bool
		window     time.Duration
		shows      string
		status     string // of culvert; any but success if closes
		ended      []string
	}{
		"Enter":     {keys: "\n", shows: stays, status: "exit status 0", ended: confirmed},
		"yes":       {keys: "Yes\n", shows: stays, status: "exit status 0", ended: confirmed},
		"no":        {keys: "no\n", then: "y\n", shows: `"no" is no answer. ` + question, status: "exit status 0", ended: confirmed},
		"Ctrl-C":    {keys: "\x03", shows: "The host.yaml before the trial is in force again.", status: "exit status 0", ended: reverted},
		"no answer": {window: time.Second, shows: "host.yaml was not confirmed in time: culvertd goes back", status: "exit status 1"},
		"Ctrl-D":    {keys: "\x04", shows: "the terminal takes no answer any more: culvertd goes back at ", status: "exit status 1"},
		"closed":    {closes: true, shows: question}, // by a signal, unless the test ignores SIGHUP (nohup)
	} {
		t.Run(name, func(t *testing.T) {
			d := &culvertd{plan: api.Plan{PFs: []api.PFPlan{}}, back: &api.ApplyResult{Applied: true}}
			d.result = api.ApplyResult{Applied: true, Trial: &api.HostTrial{Began: time.Now(), Until: time.Now().Add(cmp.Or(c.window, time.Minute))}}
			term := openTerminal(t)
			file := filepath.Join(t.TempDir(), "new.yaml")
			if err := os.WriteFile(file, []byte("pfs: [{name: enp1s0f0, vfs: 4}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			culvert := term.start(t, "--socket", d.serve(t), "host", "apply", "--confirm", "60s", file)
			term.await(t, question)
			if c.closes {
				_ = term.keys.Close()
			} else {
				term.typeKeys(t, c.keys)
			}
			if c.then != "" {
				term.await(t, "is no answer")
				term.typeKeys(t, c.then)
			}
			shown, _ := term.wait(culvert)
			if status := culvert.ProcessState.String(); status != c.status && (!c.closes || culvert.ProcessState.Success()) || !strings.Contains(shown, c.shows) || !slices.Equal(d.ended, c.ended) {
				t.Errorf("%s, want %s; culvertd was asked for %q, want %q: %s", status, c.status, d.ended, c.ended, shown)
			}
		})
	}
}

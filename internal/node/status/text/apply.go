package text

import (
	"fmt"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// Applied returns the output of `culvert host apply`: the plan and its outcome.
func Applied(r api.ApplyResult, o Options) string {
	var b strings.Builder
	b.WriteString(Plan(r.Plan, o))
	if !r.Applied {
		return b.String()
	}
	if len(r.Problems) == 0 {
		b.WriteString(o.Paint("Applied.", screen.Green) + "\n")
		return b.String()
	}
	b.WriteString("Written and followed, but not everything is as it should be:\n")
	for _, p := range r.Problems {
		writeProblem(&b, o, p, "")
	}
	return b.String()
}

// Tried returns the outcome of `culvert host apply --confirm`, below its plan.
func Tried(r api.ApplyResult, now time.Time, o Options) string {
	if !r.Applied {
		return ""
	}
	r.Plan = api.Plan{}
	out := strings.TrimPrefix(Applied(r, o), "Nothing changes.\n")
	if r.Trial != nil {
		out += o.describeTrial(*r.Trial, now) + "\n"
	}
	return out
}

// describeTrial says what becomes of the host.yaml on trial.
func (o Options) describeTrial(t api.HostTrial, now time.Time) string {
	of := "host.yaml of " + o.formatTime(t.Began)[len("2006-01-02 "):]
	switch {
	case t.GoingBack:
		return of + " was not confirmed: culvertd goes back to the one before it"
	case t.Until.IsZero():
		return of + " is on trial, and is being applied"
	}
	left := max(0, t.Until.Sub(now)).Round(time.Second) / time.Second
	return fmt.Sprintf("%s is on trial: %d s left; culvert host confirm keeps it, culvert host revert goes back", of, left)
}

// NotApplied returns the reason why file is not in force, or nil if it is: vf.ErrHeld with the
// owners who would lose a VF, vf.ErrInvalid with the parts that are impossible, or an error that
// problems are left.
func NotApplied(file string, r api.ApplyResult) error {
	switch {
	case r.Applied && len(r.Problems) == 0:
		return nil
	case r.Applied:
		return fmt.Errorf("%s is written, but problems are left: culvertd tries again; culvert status follows them", file)
	case Refused(r.Plan) != "":
		return fmt.Errorf("%s is not applied, and nothing was changed: %s: %w", file, Refused(r.Plan), vf.ErrInvalid)
	case Hurt(r.Plan) != "":
		return fmt.Errorf("%s is not applied, and nothing was changed: VFs are %w by %s: end them first, or take the VFs from them with --force",
			file, vf.ErrHeld, Hurt(r.Plan))
	}
	return fmt.Errorf("%s is not applied, and culvertd did not say why: journalctl -u culvertd", file)
}

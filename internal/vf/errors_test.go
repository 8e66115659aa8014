package vf

import (
	"errors"
	"fmt"
	"testing"
)

func TestObjectError(t *testing.T) {
	pf := ObjectError{"PF p0", fmt.Errorf("its cable: %w", ErrTimeout)}
	for _, tt := range []struct {
		err                  error
		named                string
		object, reason, told string
	}{
		{errors.New("broken"), "PF p0", "PF p0", "broken", "PF p0: broken"},
		{pf, "PF p0", "PF p0", "its cable: timed out", "PF p0: its cable: timed out"},
		{pf, "pod d/a", "pod d/a", "PF p0: its cable: timed out", "pod d/a: PF p0: its cable: timed out"},
		{fmt.Errorf("wait: %w", pf), "PF p0", "PF p0", "wait: PF p0: its cable: timed out", "PF p0: wait: PF p0: its cable: timed out"},
	} {
		err := NameObject(tt.named, tt.err)
		if object, reason := SplitObject(err); err.Error() != tt.told || object != tt.object || reason != tt.reason {
			t.Errorf("%q, about %q: %q", err, object, reason)
		}
	}
	if !errors.Is(NameObject("host", pf), ErrTimeout) || NameObject("host", nil) != nil {
		t.Error("the cause is lost")
	}
	if object, reason := SplitObject(ErrHeld); object != "" || reason != "held" {
		t.Error(object, reason)
	}
}

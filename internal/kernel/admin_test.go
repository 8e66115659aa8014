package kernel

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// retryBusy repeats a call after the errors that i40e and ice return while a VF is in reset. It
// passes every other result on at once.
func TestAgain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []error
		calls   int
		fails   bool
	}{
		{"at once", []error{nil}, 1, false},
		{"i40e", []error{unix.EAGAIN, unix.EAGAIN, nil}, 3, false},
		{"ice", []error{fmt.Errorf("set vf 1: %w", unix.EBUSY), nil}, 2, false},
		{"refused", []error{unix.EINVAL}, 1, true},
		{"in reset, then refused", []error{unix.EAGAIN, unix.EOPNOTSUPP}, 2, true},
	} {
		calls := 0
		err := retryBusy(t.Context(), func() error {
			calls++
			return tt.answers[calls-1]
		})
		if calls != tt.calls || (err != nil) != tt.fails {
			t.Errorf("%s: %d calls, %v", tt.name, calls, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := retryBusy(ctx, func() error { return unix.EAGAIN }); !errors.Is(err, unix.EAGAIN) {
		t.Error(err)
	}
}

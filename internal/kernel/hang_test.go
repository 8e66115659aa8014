package kernel

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// I7: readBounded gives up a read that hangs, and does not repeat it until it came back;
// it reads other objects meanwhile.
func TestI7HangingReadIsNotRepeated(t *testing.T) {
	var h hangs
	const broken, well = "PF 0000:01:00.0", "PF 0000:02:00.0"
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	release, begun, ended := make(chan struct{}), 0, make(chan struct{})
	hang := func() (vf.PF, error) {
		begun++
		<-release
		defer close(ended)
		return vf.PF{Name: "late"}, nil
	}
	for range 2 {
		if _, err := readBounded(ctx, &h, broken, hang); !errors.Is(err, vf.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	}
	if pf, err := readBounded(t.Context(), &h, well, func() (vf.PF, error) { return vf.PF{Name: "well"}, nil }); err != nil || pf.Name != "well" {
		t.Errorf("the other PF: %v %v", pf.Name, err)
	}
	close(release)
	<-ended
	for h.hasHung(broken) {
		time.Sleep(time.Millisecond) // the last lines of the read
	}
	if begun != 1 {
		t.Errorf("%d reads were sent after one that hung", begun)
	}
	if pf, err := readBounded(t.Context(), &h, broken, func() (vf.PF, error) { return vf.PF{Name: "again"}, nil }); err != nil || pf.Name != "again" {
		t.Errorf("after it came back: %v %v", pf.Name, err)
	}
}

// I7: a caller that leaves while a read hangs costs one thread, and not one each time.
func TestI7ReadOfACallerThatLeaves(t *testing.T) {
	var h hangs
	release := make(chan struct{})
	defer close(release)
	for i := range 3 {
		ctx, leave := context.WithCancel(t.Context())
		begun := false
		_, err := readBounded(ctx, &h, "VF 0000:01:10.0", func() (int, error) {
			begun = true
			leave()
			<-release
			return 0, nil
		})
		leave()
		if err == nil || begun != (i == 0) {
			t.Errorf("read %d: began %t, %v", i, begun, err)
		}
	}
}

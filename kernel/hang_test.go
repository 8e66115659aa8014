package kernel

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/culvert-net/culvert/vf"
)

// I7: a PF whose reading hangs is given up, and not read again until that came
// back; another one is read meanwhile.
func TestI7HangingReadIsNotRepeated(t *testing.T) {
	var h hangs
	broken, well := vf.PCIAddr{Bus: 1}, vf.PCIAddr{Bus: 2}
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
		if _, err := h.read(ctx, broken, hang); !errors.Is(err, vf.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	}
	if pf, err := h.read(t.Context(), well, func() (vf.PF, error) { return vf.PF{Name: "well"}, nil }); err != nil || pf.Name != "well" {
		t.Errorf("the other PF: %v %v", pf.Name, err)
	}
	close(release)
	<-ended
	for h.any(broken) {
		time.Sleep(time.Millisecond) // the last lines of the read
	}
	if begun != 1 {
		t.Errorf("%d reads were sent after one that hung", begun)
	}
	if pf, err := h.read(t.Context(), broken, func() (vf.PF, error) { return vf.PF{Name: "again"}, nil }); err != nil || pf.Name != "again" {
		t.Errorf("after it came back: %v %v", pf.Name, err)
	}
}

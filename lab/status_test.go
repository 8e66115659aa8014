package lab

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStatusWrite(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	st := Status{
		Name: "culvert", Image: "0123456789ab", Supervisor: 4242, Since: now.Add(-75 * time.Minute),
		Acceleration: Acceleration{"tcg", "a guest under KVM dies: qemu: kvm_buf_set_msrs: Assertion `ret == cpu->kvm_msr_buf->nmsrs' failed."},
		Nodes: []Node{
			{Name: "worker01", State: Ready, PID: 4243, Since: now.Add(-74 * time.Minute), Address: "192.168.77.11", PFs: []PF{newPF(1, 1, 1), newPF(1, 2, 1)}},
			{Name: "worker02", State: Off, Reason: "its power was cut", Address: "192.168.77.12", PFs: []PF{newPF(2, 1, 1), newPF(2, 2, 1)}},
		},
	}
	st.Nodes[1].PFs[1].Cable = false
	var b strings.Builder
	if err := st.Write(&b, now); err != nil {
		t.Fatal(err)
	}
	want := `lab    culvert, up 1h15m, supervisor 4242
image  0123456789ab
accel  tcg, not kvm: a guest under KVM dies: qemu: kvm_buf_set_msrs: Assertion ` + "`" + `ret ==
       cpu->kvm_msr_buf->nmsrs' failed.

NODE      STATE  PID   UPTIME  ADDRESS        PF1             PF2
worker01  ready  4243  1h14m   192.168.77.11  enp1s0 plugged  enp2s0 plugged
worker02  off    -     -       192.168.77.12  enp1s0 plugged  enp2s0 PULLED

worker02 is off: its power was cut
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 101 {
			t.Errorf("wider than 100 columns: %s", line)
		}
	}
}

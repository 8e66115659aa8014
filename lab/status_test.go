package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/screen"
)

func TestDrawStatus(t *testing.T) {
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
	got := st.Draw(now, screen.Look{Width: 100})
	want := `lab    culvert, up 1h15m, supervisor 4242
image  0123456789ab
accel  tcg, not kvm: a guest under KVM dies: qemu: kvm_buf_set_msrs: Assertion ` + "`" + `ret ==
       cpu->kvm_msr_buf->nmsrs' failed.

NODE      STATE  PID   UPTIME  ADDRESS        PF1             PF2
worker01  ready  4243  1h14m   192.168.77.11  enp1s0 plugged  enp2s0 plugged
worker02  off    -     -       192.168.77.12  enp1s0 plugged  enp2s0 PULLED

worker02 is off: its power was cut
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// No line exceeds the terminal, however long the names are, and no name of a node is cut.
func TestWorstStatusFits(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	st := Status{
		Name: strings.Repeat("l", 32), Image: strings.Repeat("0", 64), Supervisor: 4194304, Since: now.Add(-1000 * time.Hour),
		Acceleration: Acceleration{"tcg", "qemu: " + strings.Repeat("x", 200) + " Assertion failed: " + strings.Repeat("word ", 40)},
	}
	for i := range 4 {
		n := Node{
			Name: fmt.Sprintf("%s%d", strings.Repeat("n", 62), i), State: Booting, PID: 4194304, Since: now.Add(-999 * time.Hour), Address: "192.168.77.114",
			Reason: "its QEMU ended: " + strings.Repeat("word ", 40) + strings.Repeat("y", 150), PFs: []PF{newPF(i, 1, 1), newPF(i, 2, 1)},
		}
		st.Nodes = append(st.Nodes, n)
		st.Programs = append(st.Programs, Program{Name: strings.Repeat("p", 31) + fmt.Sprint(i), Ended: "exit status 255, " + strings.Repeat("z", 80)})
	}
	for _, width := range []int{100, 60, 40} {
		text := st.Draw(now, screen.Look{Width: width})
		for line := range strings.Lines(text) {
			if n := screen.Columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("in %d columns: %d columns: %s", width, n, line)
			}
		}
		if joined := strings.Join(strings.Fields(text), ""); strings.Count(joined, st.Nodes[3].Name) != 2 {
			t.Errorf("in %d columns, the name in the table, or below it, is cut:\n%s", width, text)
		}
		if want := "\n  STATE    booting\n  PID      4194304\n"; !strings.Contains(text, want) {
			t.Errorf("in %d columns, the table is not one of blocks:\n%s", width, text)
		}
	}
}

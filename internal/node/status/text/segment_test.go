package text

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// The PFs have a column SEGMENT where one of them has a name.
func TestSegmentColumn(t *testing.T) {
	st := api.NodeStatus{PFs: []api.PF{{PF: vf.PF{Name: "enp1s0"}}, {PF: vf.PF{Name: "enp2s0"}, Segment: "storage"}}}
	got := Node(st, plainText)
	if !strings.Contains(got, "SEGMENT") || !strings.Contains(got, "storage") {
		t.Errorf("no segment in\n%s", got)
	}
	st.PFs[1].Segment = ""
	if got := Node(st, plainText); strings.Contains(got, "SEGMENT") {
		t.Errorf("without names:\n%s", got)
	}
}

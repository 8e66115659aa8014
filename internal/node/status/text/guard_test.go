package text

import (
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// The list says how far a guard holds, and the page of the VF why not whole.
func TestGuard(t *testing.T) {
	v := api.VF{Name: "enp1s0#0", Phase: "attached", Guard: &api.Guard{Mode: vf.GuardIP, Degree: vf.GuardEnforced}}
	if list := VFs([]api.VF{v}, time.Time{}, plainText); !strings.Contains(list, "guard ip (enforced)") {
		t.Errorf("the list is\n%s", list)
	}
	if page := VF(v, api.NodeStatus{}, plainText); !strings.Contains(page, "ip, enforced\n") {
		t.Errorf("the page is\n%s", page)
	}
	v.Guard.Degree, v.Guard.Reason = vf.GuardPartly, "a container has NET_RAW"
	if list := VFs([]api.VF{v}, time.Time{}, plainText); !strings.Contains(list, "guard ip (partly)") {
		t.Errorf("the list is\n%s", list)
	}
	if page := VF(v, api.NodeStatus{}, plainText); !strings.Contains(page, "ip, partly: a container has NET_RAW") {
		t.Errorf("the page is\n%s", page)
	}
}

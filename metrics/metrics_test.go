package metrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/attach"
)

func scrape(t *testing.T, n *Node) (code int, text string) {
	t.Helper()
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Code, string(body)
}

// A scrape has the counts of the status and the durations that were observed.
func TestScrape(t *testing.T) {
	status := api.NodeStatus{
		Ready: true, Problems: []api.Problem{{}, {}},
		PFs:   []api.PF{{Name: "enp1s0", VFs: api.Counts{Total: 7, Free: 4, Used: 2, Quarantined: 1}}},
		Pools: []api.Pool{{Name: "x/a", VFs: api.Counts{Total: 3, Used: 3}}},
	}
	var failure error
	n := NewNode(func(context.Context) (api.NodeStatus, error) { return status, failure })
	n.Observe(attach.OperationAttach, 20*time.Millisecond, nil)
	n.Observe(attach.OperationAttach, 20*time.Millisecond, errors.New("nothing free"))
	n.Observe(attach.OperationDetach, 300*time.Millisecond, nil)
	code, text := scrape(t, n)
	for _, line := range []string{
		"culvert_ready 1",
		"culvert_problems 2",
		`culvert_vfs{pf="enp1s0",state="free"} 4`,
		`culvert_vfs{pf="enp1s0",state="used"} 2`,
		`culvert_vfs{pf="enp1s0",state="quarantined"} 1`,
		`culvert_pool_vfs{pool="x/a",state="used"} 3`,
		`culvert_attach_duration_seconds_bucket{result="ok",le="0.01"} 0`,
		`culvert_attach_duration_seconds_bucket{result="ok",le="0.025"} 1`,
		`culvert_attach_duration_seconds_count{result="error"} 1`,
		`culvert_detach_duration_seconds_bucket{result="ok",le="0.25"} 0`,
		`culvert_detach_duration_seconds_bucket{result="ok",le="0.5"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	if code != 200 {
		t.Errorf("status %d", code)
	}
	failure = errors.New("the NICs cannot be listed")
	if code, text := scrape(t, n); code != 500 || !strings.Contains(text, failure.Error()) {
		t.Errorf("status %d: %s", code, text)
	}
}

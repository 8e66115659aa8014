package demo

import (
	"io"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo/requests"
)

// TestJudgeLoad: requests that have failed before a backend is deleted, or later than the tolerance after
// its endpoint was not ready, are wrong; those between are counted.
func TestJudgeLoad(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	// There are 100 requests, one each 10 ms. web-b answers every second one until some ms after it
	// left, at 300 ms. At 610 ms it is deleted.
	following := func(ms int, failed ...int) (l requests.Log) {
		for i := range 100 {
			r := requests.Request{Begun: at(10 * i).UnixNano(), Server: "web-a"}
			if i%2 == 0 && i <= 30+ms/10 {
				r.Server = "web-b"
			}
			l = append(l, r)
		}
		for _, i := range failed {
			l[i].Server, l[i].Err = "", "refused"
		}
		return l
	}
	made := func(failed ...int) requests.Log { return following(40, failed...) }
	inFlight := made(58) // its answer is lost when web-b ends
	inFlight[58].Took = int64(25 * time.Millisecond)
	for name, c := range map[string]struct {
		log                      requests.Log
		errors, late, complaints int
	}{
		"nothing fails":                  {made(), 0, 0, 0},
		"as it is deleted":               {made(61, 79), 2, 0, 0},
		"before it, and unanswered then": {inFlight, 1, 0, 0},
		"later than the tolerance":       {made(61, 81), 2, 1, 1},
		"as late as a busy machine is":   {following(160, 61, 92), 2, 1, 0},
		"later than a busy machine is":   {following(160, 61, 94), 2, 1, 1},
		"before anything is deleted too": {made(20, 90), 2, 1, 2},
	} {
		d := &demo{Steps: lab.NewSteps(io.Discard, false)}
		t.Cleanup(d.Steps.Close)
		k := &kubernetes{demo: d}
		k.found.Service.DeletedAfter = 10
		services{k}.judgeLoad(c.log, []time.Time{at(300)}, at(610))
		r := k.found.Service
		if r.Errors != c.errors || r.ErrorsOnDelete != c.late || len(d.problems) != c.complaints || r.Requests != 100 {
			t.Errorf("%s: %+v, %q", name, r, d.problems)
		}
		if name == "nothing fails" && r.EndpointChange != 40 {
			t.Errorf("%s: connections follow after %v ms", name, r.EndpointChange)
		}
	}
}

package conduct

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/evidence"
)

// laggingSide is a side that sends or receives 1e9 bytes. Its counter rises only so many readings after
// the run, as iavf's do.
func laggingSide(t *testing.T, sends bool, readings int64) *side {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	var read atomic.Int64
	go func() {
		fmt.Fprintf(there, `{"culvertBenchAgent":%d,"version":"test"}`+"\n", agent.Protocol)
		for lines := bufio.NewScanner(there); lines.Scan(); {
			var asked struct{ ID int }
			if json.Unmarshal(lines.Bytes(), &asked) != nil {
				return
			}
			counter, bytes := "rxBytes", 0
			if sends {
				counter = "txBytes"
			}
			if read.Add(1) > readings+1 { // the first is from before the run
				bytes = 1e9
			}
			fmt.Fprintf(there, `{"id":%d,"value":[{"interface":"net1","role":"path","%s":%d}]}`+"\n", asked.ID, counter, bytes)
		}
	}()
	client, err := agent.NewClient(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	return &side{Station: &Station{Site: Site{Name: "s"}, Agent: client}}
}

// TestCountersThatLag: a run waits for counters that lag, so that the proof need not excuse them. A
// run whose counters never rise is void.
func TestCountersThatLag(t *testing.T) {
	arm := bench.Arm{Workload: bench.Workload{Kind: bench.Stream}, Path: bench.Path{From: bench.End{Name: "a", Interface: "net1"}, To: bench.End{Name: "b", Interface: "net1"}}}
	for name, c := range map[string]struct {
		readings int64
		void     bool
	}{"at once": {0, false}, "some readings later": {7, false}, "never": {1 << 40, true}} {
		ctx := t.Context()
		var before [2]tallied
		for i, s := range []*side{laggingSide(t, true, c.readings), laggingSide(t, false, 0)} {
			var err error
			if before[i], err = tallyEnd(ctx, s, []evidence.Watched{{Interface: "net1", Role: "path"}}); err != nil {
				t.Fatal(err)
			}
		}
		each := []bench.Run{{Seconds: 2, Bytes: 9e8, Totals: bench.Totals{Sent: 1e9, Arrived: 1e9}}}
		began := time.Now()
		if err := settle(ctx, arm, each, [][]tallied{before[:]}); err != nil {
			t.Fatal(err)
		}
		if why := Proof(arm, bench.Sum(each)); (why != "") != c.void {
			t.Errorf("%s: %q after %s", name, why, time.Since(began))
		}
		if took := time.Since(began); took > settleTime+30*time.Second {
			t.Errorf("%s: it waited %s", name, took)
		}
	}
}

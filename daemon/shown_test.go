package daemon

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api"
)

var update = flag.Bool("update", false, "write the golden file")

// The NodeState of the node of package status's tests is the one that status
// reads in its own: what is written here is what is shown there.
func TestStateIsWhatIsShown(t *testing.T) {
	raw, err := os.ReadFile("../status/testdata/node.json")
	var n api.NodeStatus
	if err == nil {
		err = json.Unmarshal(raw, &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(stateOf(n), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const file = "../status/testdata/nodestate.json"
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

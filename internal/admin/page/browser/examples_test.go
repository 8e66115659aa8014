package browser

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/culvert-net/culvert/internal/api"
)

// read decodes an example of package status.
func read[T any](t *testing.T, name string) (value T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../node/status/testdata", name))
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestShowsTheExamplesOfStatuses opens each VF of the examples that package status draws as text: the
// page complains of nothing, names each owner and shows no empty value of JavaScript.
func TestShowsTheExamplesOfStatuses(t *testing.T) {
	host := read[api.NodeStatus](t, "node.json")
	status := read[api.ClusterStatus](t, "cluster.json")
	source := newSimulated("host", false)
	source.addNode(&host)
	cluster := newSimulated(status.Cluster, true)
	for i := range status.Nodes {
		cluster.addNode(&status.Nodes[i])
	}
	cluster.overview.Policies = status.Policies
	cluster.setNetworks(status.Networks)
	for _, s := range []*simulated{source, cluster} {
		b := openTab(t, s, 1280, 900)
		for _, n := range s.nodes {
			for _, v := range n.VFs {
				place := "#node=" + n.Node + "&vf=" + strings.ReplaceAll(v.Name, "#", "%23")
				b.run(chromedp.Evaluate("location.hash = "+quote(place), nil))
				b.waitFor(`document.querySelector("#panel-title")?.textContent.trim() === ` + quote("VF "+v.Name) + ` && document.querySelector("#panel .state") !== null`)
				text := ask[string](b, `document.body.innerText`)
				for _, wrong := range []string{"undefined", "NaN", "[object", "null", "Invalid Date", ": ·"} {
					if strings.Contains(text, wrong) {
						t.Errorf("%s: the page shows %q", place, wrong)
					}
				}
				if s.overview.Cluster && strings.Contains(text, "Driver\nnone") {
					t.Errorf("%s: a cluster does not say that no driver is bound", place)
				}
				if v.Owner != nil && !strings.Contains(text, v.Owner.Name) {
					t.Errorf("%s: the owner %s is missing", place, v.Owner.Name)
				}
				if out := ask[[]string](b, beyond); len(out) > 0 {
					t.Errorf("%s: over the edge: %q", place, out)
				}
			}
		}
	}
}

package pod_test

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// A tenant's network of any plugin names the program that gives the addresses. A program that is not
// on the list is not executed, also for a plugin of another project, and nothing of the pod is done.
func TestTenantsNetworkNamesAListedIPAMPlugin(t *testing.T) {
	const runs = ""
	for name, tc := range map[string]struct{ config, want string }{
		"ptp in ptp":            {`{"type":"ptp","ipam":{"type":"ptp"}}`, "network d/n (net1): ipam.type ptp: invalid: that plugin gives no addresses"},
		"keys in another case":  {`{"type":"ptp","IPAM":{"Type":"ptp"}}`, "ipam.type ptp: invalid"},
		"two spellings":         {`{"type":"ptp","ipam":{"type":"dhcp","TYPE":"ptp"}}`, "ipam.type ptp: invalid"},
		"behind another plugin": {`{"plugins":[{"type":"tuning"},{"type":"bridge","ipam":{"type":"mine"}}]}`, "network d/n (net1): ipam.type mine: invalid: this node executes host-local, static, dhcp, whereabouts, added for addresses"},
		"in Culvert's":          {`{"plugins":[{"type":"bridge"},{"type":"sriov","ipam":{"type":"mine"}}]}`, "network d/n (net1): ipam.type mine: invalid"},
		"host-local":            {`{"type":"bridge","ipam":{"type":"host-local"}}`, runs},
		"one that was added":    {`{"type":"bridge","ipam":{"type":"added"}}`, runs},
		"none":                  {`{"type":"bridge"}`, runs},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var err error
			if w.pods.IPAMTypes, err = ipam.ParseTypes([]string{"added"}); err != nil {
				t.Fatal(err)
			}
			w.network("d/n", strings.Replace(tc.config, "{", `{"cniVersion":"1.0.0",`, 1))
			w.asks("n")
			if tc.want == runs {
				w.add()
				return
			}
			if got := w.refused(); !strings.Contains(got, tc.want) {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
			if calls := w.host.called(); len(calls) > 0 {
				t.Errorf("executed: %q", calls)
			}
		})
	}
}

// The administrator wrote the files on the nodes: their plugins execute any IPAM plugin, such as that
// of the cluster's default network.
func TestFilesOnTheNodeNameAnyIPAMPlugin(t *testing.T) {
	w := newWorld(t)
	w.file("50-mine.conf", `{"cniVersion":"1.0.0","name":"n","type":"bridge","ipam":{"type":"calico-ipam"}}`)
	w.network("d/n", "")
	w.asks("n")
	w.add()
}

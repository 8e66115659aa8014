package verdict

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each file after the manifests and reports of people ends with these verdicts.
func TestCases(t *testing.T) {
	for file, want := range map[string]string{
		// The network of the pod is a SriovNetwork in the same file.
		"c05-oran-planes": `Pod oran/du-0: works
`,
		"c24-static-gateway-key": `NetworkAttachmentDefinition default/conf-static: works
StatefulSet default/my-app: refused
  refused: network default/conf-static: 3 pods at a time ask for 192.0.2.119: one of them has it, and the other 2 never start: leave the choice to ipam, write an object for each pod, or let them share it (ipam of type static with "shared": true)
  warning: network default/conf-static: key "gateway" of the annotation is unknown and ignored
  warning: network default/conf-static: 3 pods at a time ask for MAC address 02:01:02:03:04:05: on one node only one of them starts, and on several nodes the segment has that MAC address several times
`,
		"c29-dup-in-chain": `NetworkAttachmentDefinition default/rail0: refused
  refused: spec.config: invalid: plugins[1].type is given twice: two plugins are two objects of plugins, with a comma between them
`,
		"c31-list-of-32": `NetworkAttachmentDefinition default/pub: refused
  refused: spec.config: whereabouts gives pods no address: ipam.range: "192.168.1.10/32" is too small to hand out from: want /30 or shorter
NetworkAttachmentDefinition default/pub2: works
AddressPool pub: works
`,
		"c32-whereabouts-nonsense": `NetworkAttachmentDefinition default/pub: refused
  refused: spec.config: whereabouts gives pods no address: ipam.range: "192.168.1.10/32" is too small to hand out from: want /30 or shorter
NetworkAttachmentDefinition default/pub3: refused
  refused: spec.config: whereabouts gives pods no address: ipam.range: "nonsense": want an IP address, e.g. 172.16.91.1
  warning: spec.config: ipam.rangestart 10.0.0.1: unknown key, ignored: did you mean range_start?
`,
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(Of(Read("file", text))); !strings.HasSuffix(got, want) {
			t.Errorf("%s: -want +got\n%s", file, cmp.Diff(want, got))
		}
	}
}

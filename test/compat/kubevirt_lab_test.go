//go:build lab

package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/intake/claim/metadata"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestKubeVirtFindsItsVF gives the metadata files that culvertd writes to KubeVirt's own reader. It finds
// the PCI address of the VF, for a claim by its name and for one of a template, and refuses a request with
// two VFs.
func TestKubeVirtFindsItsVF(t *testing.T) {
	built, err := exec.Command("../../tools/part", "kubevirt-dra").Output()
	if err != nil {
		t.Fatalf("tools/part kubevirt-dra: %v", err)
	}
	base := t.TempDir()
	files := metadata.Files{Dir: t.TempDir(), Node: "n1"}
	var records []journal.Record
	for i, c := range []journal.Claim{
		{UID: "u1", Namespace: "d", Name: "own", Request: "vf"},
		{UID: "u2", Namespace: "d", Name: "vm-vf-x7k", PodClaim: "net", Request: "vf"},
		{UID: "u3", Namespace: "d", Name: "two", Request: "vf"},
		{UID: "u3", Namespace: "d", Name: "two", Request: "vf"},
	} {
		records = append(records, journal.Record{
			ID:  vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Index: i},
			PCI: vf.PCIAddr{Bus: 1, Device: 16, Function: uint8(i)}, Phase: vf.PhasePrepared, Claim: &c,
		})
	}
	if err := files.Keep(records); err != nil {
		t.Fatal(err)
	}
	for _, r := range records[:3] { // as CDI mounts them
		inPod := strings.TrimPrefix(metadata.ContainerPath(*r.Claim), "/var/run/kubernetes.io/dra-device-attributes")
		text, err := os.ReadFile(files.HostPath(*r.Claim))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(base+inPod), 0o755)
		}
		if err == nil {
			err = os.WriteFile(base+inPod, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const claims = `[{"name": "a", "resourceClaimName": "own"}, {"name": "net", "resourceClaimTemplateName": "vm-vf"}, {"name": "b", "resourceClaimName": "two"}]`
	for claim, want := range map[string]string{"a": "0000:01:10.0", "net": "0000:01:10.1", "b": "KubeVirt only supports exactly one device per request"} {
		out, err := exec.Command(filepath.Join(strings.TrimSpace(string(built)), "pciaddress"), base, claims, claim, "vf").CombinedOutput()
		if refused := claim == "b"; refused != (err != nil) || !strings.Contains(string(out), want) {
			t.Errorf("claim %s: %s, %v, want %s", claim, out, err, want)
		}
	}
}

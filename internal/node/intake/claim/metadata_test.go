package claim_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
)

// mountOf returns the mount of the only request of a claim.
func (h *host) mountOf(uid string) (m struct{ HostPath, ContainerPath string }) {
	h.t.Helper()
	var spec struct {
		Devices []struct {
			ContainerEdits struct {
				Mounts []struct{ HostPath, ContainerPath string }
			}
		}
	}
	text := h.cdiFiles()["culvert.dev-claim_"+uid+".json"]
	if err := json.Unmarshal([]byte(text), &spec); err != nil || len(spec.Devices) != 1 || len(spec.Devices[0].ContainerEdits.Mounts) != 1 {
		h.t.Fatalf("the CDI file is %s, %v", text, err)
	}
	return spec.Devices[0].ContainerEdits.Mounts[0]
}

// The metadata file of a request is there and mounted from Prepare on, has what the pod got after the ADD, and
// is gone after Unprepare. A claim that a template made has the place of its name in the pod.
func TestMetadataOfAClaim(t *testing.T) {
	h := newHost(t)
	c := h.allocate("c", 0)
	h.cluster.change("c", func(o *api.ResourceClaim) { o.PodClaim = "net" })
	if _, errs := h.prepare(c); errs["c"] != "" {
		t.Fatal(errs)
	}
	m := h.mountOf("uid-c")
	if want := "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/net/vf0/culvert.dev-metadata.json"; m.ContainerPath != want {
		t.Errorf("it is mounted at %s, want %s", m.ContainerPath, want)
	}
	text, err := os.ReadFile(m.HostPath)
	if err != nil || !strings.Contains(string(text), h.record(0).PCI.String()) || strings.Count(string(text), `"culvert.dev/vf":{"int":0}`) != 2 || strings.Contains(string(text), "networkData") {
		t.Errorf("from Prepare: %s, %v", text, err)
	}
	if err := errors.Join(h.add(0), h.driver.KeepMetadata([]journal.Record{h.record(0)})); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(m.HostPath); err != nil || strings.Count(string(text), `"networkData":{"interfaceName":"net1"`) != 2 {
		t.Errorf("after ADD: %s, %v", text, err)
	}
	h.prepare(c) // the kubelet calls it again after a restart
	if again, err := os.ReadFile(m.HostPath); err != nil || string(again) != string(text) {
		t.Errorf("after a second Prepare: %s, %v", again, err)
	}
	h.unprepare(c)
	if _, err := os.Stat(m.HostPath); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Unprepare: %v", err)
	}
}

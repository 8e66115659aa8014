package metadata

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/vf"
)

// record is VF INDEX of a PF, prepared for a request of claim d/c.
func record(index int, request string) journal.Record {
	return journal.Record{
		ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Index: index}, PCI: vf.PCIAddr{Bus: 1, Device: 16, Function: uint8(index)}, Phase: vf.PhasePrepared,
		Claim: &journal.Claim{UID: "u1", Namespace: "d", Name: "c", Request: request, Pool: "intel.com/fast"},
	}
}

// attach gives a VF to the pod of its claim.
func attach(r journal.Record) journal.Record {
	r.Phase, r.Lease.Owner, r.Lease.LinkMAC = vf.PhaseAttached, vf.Owner{Kind: vf.OwnerPod, Interface: "net1"}, vf.MAC{2, 0, 0, 0, 0, 9}
	r.Lease.Wanted.Addresses = []vf.Address{{Prefix: netip.MustParsePrefix("10.9.0.2/24")}}
	return r
}

// decode returns the objects of a file.
func decode(t *testing.T, path string) (out []object) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(raw)); d.More(); {
		var o object
		if err := d.Decode(&o); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// A file has its request's devices in both versions, the newer one first, without network data before the
// ADD and with it afterwards. Each change of the content is a new generation in another file, so that a
// container keeps the one that it has.
func TestFileOfARequest(t *testing.T) {
	f := Files{Dir: t.TempDir(), Node: "n1", Attributes: func(journal.Record) map[string]offer.Value {
		return map[string]offer.Value{"segment": offer.Text("storage"), "pool": offer.Text("x/other")}
	}}
	two := []journal.Record{record(3, "vf/fast"), record(1, "vf/fast")}
	path := filepath.Join(f.Dir, "u1", "vf.json")
	if err := f.Keep(two); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	dev := func(name, pci string) device {
		return device{Driver: "culvert.dev", Pool: "n1/02-00-00-00-00-01", Name: name, Attributes: map[string]json.RawMessage{
			"resource.kubernetes.io/pciBusID": json.RawMessage(`{"string":"` + pci + `"}`), "culvert.dev/pool": json.RawMessage(`{"string":"intel.com/fast"}`),
			"culvert.dev/segment": json.RawMessage(`{"string":"storage"}`),
		}}
	}
	devices := []device{dev("vf-1", "0000:01:10.1"), dev("vf-3", "0000:01:10.3")}
	want := func(generation int64) []object {
		o := object{APIVersion: "metadata.resource.k8s.io/v1beta1", Kind: "DeviceMetadata", Metadata: meta{"c", "d", "u1", generation}, Requests: []request{{"vf/fast", devices}}}
		older := o
		older.APIVersion = "metadata.resource.k8s.io/v1alpha1"
		return []object{o, older}
	}
	if diff := cmp.Diff(want(1), decode(t, path)); diff != "" {
		t.Errorf("from Prepare:\n%s", diff)
	}
	if err := f.Keep(two); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(before, now) {
		t.Errorf("a file whose content is right was replaced: %v", err)
	}
	if err := f.Keep([]journal.Record{attach(two[0]), two[1]}); err != nil {
		t.Fatal(err)
	}
	devices[1].NetworkData = &networkData{"net1", []string{"10.9.0.2/24"}, "02:00:00:00:00:09"}
	if diff := cmp.Diff(want(2), decode(t, path)); diff != "" {
		t.Errorf("from ADD:\n%s", diff)
	}
	if now, err := os.Stat(path); err != nil || os.SameFile(before, now) {
		t.Errorf("the file was not replaced by a rename: %v", err)
	}
}

// A file that was cut short is written anew, and one that is no file is an error.
func TestDamagedFile(t *testing.T) {
	f := Files{Dir: t.TempDir(), Node: "n1"}
	r := record(1, "vf")
	path := f.HostPath(*r.Claim)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(`{"metadata":`), 0o644), f.Keep([]journal.Record{r})); err != nil {
		t.Fatal(err)
	}
	if got := decode(t, path); len(got) != 2 || got[0].Metadata.Generation != 1 {
		t.Errorf("the file has %+v", got)
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := f.Keep([]journal.Record{r}); err == nil {
		t.Error("a folder in place of the file is no error")
	}
}

// Each request has a file of its own. The end of the claim removes them, and no other claim's.
func TestRemove(t *testing.T) {
	f := Files{Dir: t.TempDir(), Node: "n1"}
	other := record(3, "one")
	other.Claim.UID = "u2"
	if err := f.Keep([]journal.Record{record(1, "one"), record(2, "two"), other, {}}); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(f.Dir, "*", "*")); len(found) != 3 {
		t.Errorf("there are %v", found)
	}
	for range 2 {
		if err := f.Remove("u1"); err != nil {
			t.Error(err)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(f.Dir, "*", "*")); len(found) != 1 {
		t.Errorf("there are still %v", found)
	}
	for _, wrong := range []string{"", ".", "..", "../u2", "/"} {
		if err := f.Remove(wrong); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("claim %q: %v", wrong, err)
		}
	}
	if _, err := os.Stat(f.Dir); errors.Is(err, fs.ErrNotExist) {
		t.Error("the folder is gone")
	}
}

func TestContainerPath(t *testing.T) {
	const dir = "/var/run/kubernetes.io/dra-device-attributes/"
	for want, c := range map[string]journal.Claim{
		dir + "resourceclaims/c/vf/culvert.dev-metadata.json":           {Name: "c", Request: "vf"},
		dir + "resourceclaims/c/vf/culvert.dev-metadata.json#":          {Name: "c", Request: "vf/fast"},
		dir + "resourceclaimtemplates/net/vf/culvert.dev-metadata.json": {Name: "pod-net-x7", PodClaim: "net", Request: "vf"},
	} {
		if got := ContainerPath(c); got != string(bytes.TrimSuffix([]byte(want), []byte("#"))) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

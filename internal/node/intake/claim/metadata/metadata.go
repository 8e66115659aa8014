// Package metadata writes the files by which containers learn about the devices of their ResourceClaims
// (KEP-5304): one for each request of a claim. The records of the ledger go in. A file is there from the
// claim's Prepare on, and its CDI device mounts it; the ADD of the pod's networks replaces it, before the
// containers start. A container that runs keeps the file of its start, since the mount is of that file.
//
// A file has the object in both versions of its API. Programs that read the newer one take the first
// (k8s.io/dynamic-resource-allocation v0.37, devicemetadata); KubeVirt 1.9 looks for v1alpha1.
package metadata

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/vf"
)

// DefaultDir is the usual Dir of Files. culvertd in a container has it under the host's path. It is empty
// after a boot, as the folder of CDI files is: the kubelet prepares the claims again then.
const DefaultDir = "/run/culvert/claims"

// containerDir is where programs in containers look (k8s.io/dynamic-resource-allocation v0.37,
// api/metadata, ContainerDir).
const containerDir = "/var/run/kubernetes.io/dra-device-attributes"

// versions are those of the API, in the order in which a file has them.
var versions = []string{"metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1"}

// Files are the files of a node's claims. Its methods may be called concurrently, but not for one claim.
type Files struct {
	Dir  string // on the host
	Node string // the node's name in the cluster
	// Attributes returns the attributes of a VF, as its ResourceSlice has them; none for a VF that is not
	// listed now. nil: none for every VF.
	Attributes func(journal.Record) map[string]offer.Value
}

// object is one version of the content (api/metadata/v1beta1, DeviceMetadata).
type object struct {
	APIVersion   string    `json:"apiVersion"`
	Kind         string    `json:"kind"`
	Metadata     meta      `json:"metadata"`
	PodClaimName string    `json:"podClaimName,omitempty"`
	Requests     []request `json:"requests"`
}

type meta struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

type request struct {
	Name    string   `json:"name"`
	Devices []device `json:"devices"`
}

type device struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Name   string `json:"name"`
	// Attributes are DeviceAttributes as in a ResourceSlice. Their names have a domain.
	Attributes  map[string]json.RawMessage `json:"attributes,omitempty"`
	NetworkData *networkData               `json:"networkData,omitempty"`
}

type networkData struct {
	InterfaceName   string   `json:"interfaceName,omitempty"`
	IPs             []string `json:"ips,omitempty"`
	HardwareAddress string   `json:"hardwareAddress,omitempty"`
}

// baseOf returns the request of a subrequest: files and mounts have its name.
func baseOf(request string) string {
	base, _, _ := strings.Cut(request, "/")
	return base
}

// HostPath returns the path of the file of a claim's request.
func (f Files) HostPath(c journal.Claim) string {
	return filepath.Join(f.Dir, c.UID, baseOf(c.Request)+".json")
}

// ContainerPath returns the path at which containers have the file. That of a claim that was made of a
// template has the claim's name in the pod.
func ContainerPath(c journal.Claim) string {
	kind := "resourceclaims"
	if c.PodClaim != "" {
		kind = "resourceclaimtemplates"
	}
	return path.Join(containerDir, kind, cmp.Or(c.PodClaim, c.Name), baseOf(c.Request), claim.Driver+"-metadata.json")
}

// Keep writes the files of all requests of claims that have one of the records. records are all that the
// ledger has of these claims. A file whose content is right stays.
func (f Files) Keep(records []journal.Record) error {
	files := map[string][]journal.Record{}
	for _, r := range records {
		if r.Claim != nil {
			p := f.HostPath(*r.Claim)
			files[p] = append(files[p], r)
		}
	}
	var errs []error
	for p, of := range files {
		errs = append(errs, f.keepFile(p, of))
	}
	return errors.Join(errs...)
}

// keepFile writes one file, with the next generation if its content changes.
func (f Files) keepFile(p string, records []journal.Record) error {
	old, err := os.ReadFile(p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("metadata of %s: %w", records[0].Claim, err)
	}
	generation := generationOf(old)
	content, err := f.encode(records, generation)
	if err != nil || bytes.Equal(content, old) {
		return err
	}
	if content, err = f.encode(records, generation+1); err != nil {
		return err
	}
	if err := durable.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return fmt.Errorf("metadata of %s: %w", records[0].Claim, err)
	}
	return durable.WriteFile(p, content, 0o644)
}

// generationOf returns the generation of a file; 0 for one that cannot be read.
func generationOf(content []byte) int64 {
	var o object
	if json.NewDecoder(bytes.NewReader(content)).Decode(&o) != nil {
		return 0
	}
	return o.Metadata.Generation
}

// Remove removes the files of a claim.
func (f Files) Remove(uid string) error {
	if uid != filepath.Base(uid) || !filepath.IsLocal(uid) || uid == "." {
		return fmt.Errorf("metadata of claim %q: %w: want its UID", uid, vf.ErrInvalid)
	}
	return os.RemoveAll(filepath.Join(f.Dir, uid))
}

// encode returns the content of the file of one request.
func (f Files) encode(records []journal.Record, generation int64) ([]byte, error) {
	slices.SortFunc(records, func(a, b journal.Record) int { return a.ID.Compare(b.ID) })
	c := records[0].Claim
	o := object{
		Kind: "DeviceMetadata", PodClaimName: c.PodClaim, Requests: []request{{Name: c.Request}},
		Metadata: meta{Name: c.Name, Namespace: c.Namespace, UID: c.UID, Generation: generation},
	}
	for _, r := range records {
		pool, err := claim.PoolName(f.Node, r.ID.PF)
		if err != nil {
			return nil, err
		}
		d := device{Driver: claim.Driver, Pool: pool, Name: claim.DeviceName(r.ID.Index), NetworkData: networkOf(r)}
		if d.Attributes, err = f.attributesOf(r); err != nil {
			return nil, fmt.Errorf("metadata of %s: %w", c, err)
		}
		o.Requests[0].Devices = append(o.Requests[0].Devices, d)
	}
	var out bytes.Buffer
	for _, v := range versions {
		o.APIVersion = v
		if err := json.NewEncoder(&out).Encode(o); err != nil {
			return nil, fmt.Errorf("metadata of %s: %w", c, err)
		}
	}
	return out.Bytes(), nil
}

// attributesOf returns the attributes of a VF: those that the ledger knows, and those of its slice. KubeVirt
// finds the device by pciBusID.
func (f Files) attributesOf(r journal.Record) (map[string]json.RawMessage, error) {
	all := map[string]offer.Value{}
	if f.Attributes != nil {
		maps.Copy(all, f.Attributes(r))
	}
	all["resource.kubernetes.io/pciBusID"] = offer.Text(r.PCI.String())
	if r.Claim.Pool != "" {
		all["pool"] = offer.Text(r.Claim.Pool)
	}
	out := make(map[string]json.RawMessage, len(all))
	for name, v := range all {
		if !strings.Contains(name, "/") {
			name = claim.Driver + "/" + name
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}

// networkOf returns what the pod has of an attached VF; nil as long as no network has it.
func networkOf(r journal.Record) *networkData {
	if r.Phase != vf.PhaseAttached {
		return nil
	}
	l := r.Lease
	out := &networkData{InterfaceName: l.Owner.Interface, HardwareAddress: cmp.Or(l.LinkMAC, l.Effective.MAC).String()}
	for _, a := range l.Wanted.Addresses {
		out.IPs = append(out.IPs, a.Prefix.String())
	}
	return out
}

package claim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cdi "tags.cncf.io/container-device-interface/specs-go"

	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/claim/metadata"
	"github.com/culvert-net/culvert/internal/node/intake/deviceplugin"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

const (
	cdiKind = "culvert.dev/claim"
	// cdiVersion is the first with device names that begin with a digit.
	cdiVersion = "0.5.0"
)

// cdiName returns the name of the CDI device of a request of a claim.
func cdiName(c journal.Claim) string { return c.UID + "_" + strings.ReplaceAll(c.Request, "/", ".") }

// cdiFile returns the name of the CDI file of a claim.
func cdiFile(uid string) string { return "culvert.dev-claim_" + uid + ".json" }

// keepFiles writes the CDI files of all claims that the ledger has, and removes those of claims that have
// ended. A file stays as it is while a VF of the claim cannot be read.
func (d *Driver) keepFiles() error {
	d.files.Lock()
	defer d.files.Unlock()
	if d.wrote == nil {
		d.wrote = deviceplugin.TakeOver(listFile, d.CDIDir)
	}
	records, err := d.Records()
	if err != nil {
		return err
	}
	claims := map[string][]journal.Record{}
	for _, r := range records {
		if r.Claim != nil {
			claims[r.Claim.UID] = append(claims[r.Claim.UID], r)
		}
	}
	var errs []error
	want := map[string]string{}
	for uid, of := range claims {
		path := filepath.Join(d.CDIDir, cdiFile(uid))
		text, err := d.cdiSpec(of)
		if errors.Is(err, vf.ErrNotFound) {
			if text, err = os.ReadFile(path); errors.Is(err, os.ErrNotExist) {
				continue // the claim is prepared again when its VF is there
			}
		}
		errs = append(errs, err)
		want[path] = string(text)
	}
	return errors.Join(append(errs, d.wrote.Keep(want))...)
}

// cdiSpec returns the CDI file of a claim, with one device for each of its requests. The error is
// vf.ErrNotFound if a VF is not listed.
func (d *Driver) cdiSpec(records []journal.Record) ([]byte, error) {
	spec := cdi.Spec{Version: cdiVersion, Kind: cdiKind}
	requests := map[string][]journal.Record{}
	for _, r := range records {
		requests[r.Claim.Request] = append(requests[r.Claim.Request], r)
	}
	for _, request := range slices.Sorted(maps.Keys(requests)) {
		edits, err := d.editsOf(requests[request])
		if err != nil {
			return nil, err
		}
		c := *requests[request][0].Claim
		edits.Mounts = append(edits.Mounts, &cdi.Mount{HostPath: d.metadata.HostPath(c), ContainerPath: metadata.ContainerPath(c), Options: []string{"ro", "bind"}})
		spec.Devices = append(spec.Devices, cdi.Device{Name: cdiName(c), ContainerEdits: edits})
	}
	return json.Marshal(spec)
}

// editsOf returns what a container gets with the VFs of one request: the variables and device nodes that
// the device plugin gives.
func (d *Driver) editsOf(records []journal.Record) (edits cdi.ContainerEdits, err error) {
	byPool := map[string]*group{}
	for _, r := range records {
		pf, st, listed := hold.FindListed(r, d.PFs())
		if !listed {
			return edits, fmt.Errorf("VF %s of %s: %w now", r.PCI, r.Claim, vf.ErrNotFound)
		}
		g := byPool[r.Claim.Pool]
		if g == nil {
			g = &group{}
			byPool[r.Claim.Pool] = g
		}
		g.pfs, g.vfs = append(g.pfs, pf), append(g.vfs, st)
	}
	spec := d.Spec()
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		share, err := byPool[name].shareOf(spec, name)
		if err != nil {
			return edits, err
		}
		for _, key := range slices.Sorted(maps.Keys(share.Env)) {
			edits.Env = append(edits.Env, key+"="+share.Env[key])
		}
		for _, n := range share.Nodes {
			node := &cdi.DeviceNode{Path: n, Permissions: "rw"}
			if !slices.ContainsFunc(edits.DeviceNodes, func(o *cdi.DeviceNode) bool { return o.Path == n }) {
				edits.DeviceNodes = append(edits.DeviceNodes, node)
			}
		}
	}
	return edits, nil
}

// group has VFs of one pool, with their PFs.
type group struct {
	pfs []vf.PF
	vfs []vf.State
}

// shareOf returns what a container gets with the VFs. A pool that has gone since is known by its name.
func (g group) shareOf(spec desired.Spec, name string) (deviceplugin.Share, error) {
	pool, err := spec.Pool(name)
	if err != nil {
		prefix, short, _ := strings.Cut(name, "/")
		pool = desired.Pool{Prefix: prefix, Name: cmp.Or(short, prefix)}
	}
	return deviceplugin.ShareOf(pool, g.pfs, g.vfs)
}

// Package claim knows what ResourceClaims and ResourceSlices say about VFs: the names of the driver, its
// pools and its devices, and the configuration of a VF in a claim. It reads and changes nothing.
package claim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// Driver is the name of Culvert's driver in ResourceSlices, ResourceClaims and DeviceClasses, and the domain
// of its attributes.
const Driver = "culvert.dev"

// maxPoolName is the greatest length of a pool's name in bytes (k8s.io/api/resource/v1,
// PoolNameMaxLength).
const maxPoolName = 253

// PoolName returns the name of the pool with the VFs of one PF of a node: NODE/PF, such as
// node1/0c-42-a1-00-00-01, with ".pf2" for a PF of that Port. A name that would be too long has a hash in
// place of the PF. The node's name has at most 236 bytes, or the error is vf.ErrInvalid.
func PoolName(node string, pf vf.PFID) (string, error) {
	last := strings.ReplaceAll(pf.MAC.String(), ":", "-")
	if pf.Port != "" {
		last += "." + strings.ToLower(pf.Port)
	}
	if len(node)+1+len(last) > maxPoolName {
		sum := sha256.Sum256([]byte(pf.String()))
		last = hex.EncodeToString(sum[:8])
	}
	name := node + "/" + last
	if len(name) > maxPoolName {
		return "", fmt.Errorf("node %s: %w: its name has %d bytes, and the name of a pool has room for %d: claims get no VF of it",
			excerpt.Quote(node), vf.ErrInvalid, len(node), maxPoolName-1-len(last))
	}
	return name, nil
}

// IsPoolOf reports whether a pool of devices is of a node.
func IsPoolOf(node, pool string) bool { return strings.HasPrefix(pool, node+"/") }

// DeviceName returns the name of a VF in its pool: vf-0 for VF 0.
func DeviceName(index int) string { return "vf-" + strconv.Itoa(index) }

// ParseDeviceName returns the index of the VF that DeviceName named; vf.ErrInvalid for another text.
func ParseDeviceName(name string) (int, error) {
	text, is := strings.CutPrefix(name, "vf-")
	index, err := strconv.Atoi(text)
	if !is || err != nil || DeviceName(index) != name || index < 0 {
		return 0, fmt.Errorf("device %s: %w: want the name of a VF, such as vf-0", excerpt.Quote(name), vf.ErrInvalid)
	}
	return index, nil
}

package journal

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/culvert-net/culvert/internal/vf"
)

// Bounds, in bytes, of the records that pods cause in the ledger. Each network of a sandbox has
// at most netconf.MaxText, and a pod may name 64 of them.
const (
	// MaxSandbox bounds the record of one sandbox. It has room for 64 networks of
	// 4 KiB, or for a few of the largest.
	MaxSandbox = 256 << 10
	// maxSandboxes bounds the total of a node's records that are larger than smallSandbox, so
	// that a tenant's pods cannot make culvertd exceed its 40 MiB. Smaller records are always
	// accepted: large records of one tenant never deny an ordinary pod of another its networks.
	maxSandboxes = 8 << 20
	smallSandbox = 16 << 10
)

// checkSandboxSize refuses a record that is larger than MaxSandbox. It also refuses a large record
// while the other large records of the node use up maxSandboxes. A record that is Deleting is never
// refused (I8).
func (t *Tx) checkSandboxSize(s Sandbox, body []byte) error {
	if s.Phase == SandboxDeleting || len(body) <= smallSandbox {
		return nil
	}
	if len(body) > MaxSandbox {
		return fmt.Errorf("its networks: %w: their record has %d bytes; want at most %d; %s", vf.ErrInvalid, len(body), MaxSandbox, s.largestNetwork())
	}
	sum := len(body)
	for key, stored := range t.entriesFrom(bucketSandboxes, nil) {
		if len(stored) > smallSandbox && !bytes.Equal(key, []byte(s.ID)) {
			sum += len(stored)
		}
	}
	if sum > maxSandboxes {
		return fmt.Errorf("its networks: %w: their record has %d bytes, and the large records of this node's pods would have %d; want at most %d: "+
			"make it smaller than %d bytes, or delete other pods with large networks; %s", vf.ErrNotReady, len(body), sum, maxSandboxes, smallSandbox, s.largestNetwork())
	}
	return nil
}

// largestNetwork names the network that takes most of the record.
func (s Sandbox) largestNetwork() string {
	var name string
	largest := -1
	for _, n := range s.Networks {
		if body, err := json.Marshal(n); err == nil && len(body) > largest {
			largest, name = len(body), fmt.Sprintf("%s (%s)", n.Name, n.Interface)
		}
	}
	return fmt.Sprintf("network %s is the largest of %d, with %d bytes", name, len(s.Networks), largest)
}

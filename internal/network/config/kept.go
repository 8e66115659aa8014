package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// mostKept is how many bytes of its network's configuration a lease keeps: the whole of it, or else what
// the DEL of an IPAM plugin needs. Tenants write configurations, and the ledger has one for each VF,
// in memory too. A usual configuration has some hundred bytes.
const mostKept = 4 << 10

// Kept returns the text of a configuration that a lease keeps. The error wraps vf.ErrInvalid: the DEL
// of another project's IPAM plugin would need more.
func (c Config) Kept(raw []byte) ([]byte, error) {
	if len(raw) <= mostKept {
		return raw, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	keys := []string{"cniVersion", "name", "type"}
	if c.IPAM.IsDelegated() {
		keys = append(keys, "ipam", "args", "runtimeConfig", "dns")
	}
	kept := map[string]json.RawMessage{}
	for key, value := range all {
		for _, k := range keys {
			if strings.EqualFold(key, k) { // as encoding/json reads them
				kept[key] = value
			}
		}
	}
	out, err := json.Marshal(kept)
	if err == nil && len(out) > mostKept {
		err = fmt.Errorf("ipam: %w: with args and runtimeConfig it has %d bytes, and culvertd keeps at most %d for the DEL of the plugin %s: shorten it", vf.ErrInvalid, len(out), mostKept, c.IPAM.Type)
	}
	return out, err
}

package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/culvert-net/culvert/internal/network/netconf"
)

// ForgetResults removes the results that a runtime keeps in dir (netconf.ResultsDir) of pods whose
// networks Culvert set up. CRI-O takes the configuration for a DEL from there: without the plugin it
// could take down no pod that Culvert attached. Without the result it takes the default network's own
// configuration (ocicni, forEachNetwork). It is idempotent.
func ForgetResults(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unlessAbsent(err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		body, err := os.ReadFile(path)
		if err != nil {
			continue // deleted meanwhile, or a folder
		}
		var result struct {
			Config []byte `json:"config"`
		}
		if json.Unmarshal(body, &result) == nil && netconf.HasPodNetworks(result.Config) {
			errs = append(errs, removeFile(path))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what the runtime keeps of Culvert's networks: %w", err)
	}
	return nil
}

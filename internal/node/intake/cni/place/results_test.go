package place

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The configurations are those of a pod's networks by Culvert, of a pod by Flannel, and of a
// container whose network of Culvert a runtime attaches by itself.
func TestForgetResults(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{
		"cbr0-1-eth0":    `{"kind":"cniCacheV1","config":"eyJuYW1lIjoiY2JyMCIsInBsdWdpbnMiOlt7InR5cGUiOiJjdWx2ZXJ0IiwicG9kTmV0d29ya3MiOnRydWV9XX0="}`,
		"cbr0-2-eth0":    `{"kind":"cniCacheV1","config":"eyJuYW1lIjoiY2JyMCIsInBsdWdpbnMiOlt7InR5cGUiOiJmbGFubmVsIn1dfQ=="}`,
		"storage-3-eth0": `{"kind":"cniCacheV1","config":"eyJuYW1lIjoic3RvcmFnZSIsInBsdWdpbnMiOlt7InR5cGUiOiJjdWx2ZXJ0In1dfQ=="}`,
		"broken-4-eth0":  `{"kind":`,
		"empty-5-eth0":   ``,
	} {
		write(t, dir, name, body)
	}
	for range 2 {
		if err := ForgetResults(dir); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"broken-4-eth0", "cbr0-2-eth0", "empty-5-eth0", "storage-3-eth0"}, slices.Sorted(maps.Keys(folder(t, dir)))); diff != "" {
			t.Error(diff)
		}
	}
	if err := ForgetResults(filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
}

package gather

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseDirs(t *testing.T) {
	for _, tc := range []struct {
		text        string
		bins, confs []string
	}{
		{"", nil, nil},
		{"[cni]\n  bin_dir = \"/usr/lib/cni/\"\n  conf_dir = '/etc/cni/net.d'\n", []string{"/usr/lib/cni"}, []string{"/etc/cni/net.d"}},
		{"bin_dirs = ['/a', \"/b\"]", []string{"/a", "/b"}, nil},
		{"plugin_dirs = [\n\t\"/opt/cni/bin\", # ours\n\t\"/usr/libexec/cni/\",\n]\nnetwork_dir = \"/etc/cni/net.d/\"", []string{"/opt/cni/bin", "/usr/libexec/cni"}, []string{"/etc/cni/net.d"}},
		{"# bin_dir = \"/a\"\nmy_bin_dir = \"/b\"\nbin_dir = \"relative\"\nbin_dir = \"/x/../../etc\"", []string{"/etc"}, nil},
	} {
		bins, confs := parseDirs([]byte(tc.text))
		if diff := cmp.Diff([][]string{tc.bins, tc.confs}, [][]string{bins, confs}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.text, diff)
		}
	}
}

func FuzzParseDirs(f *testing.F) {
	f.Add([]byte("plugin_dirs = [\n\t\"/opt/cni/bin\",\n]\n"))
	f.Add([]byte("  conf_dir = '/etc/cni/net.d'\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		bins, confs := parseDirs(text)
		for _, d := range append(bins, confs...) {
			if !filepath.IsAbs(d) || filepath.Clean(d) != d || strings.Contains(d, "\x00") {
				t.Errorf("%q", d)
			}
		}
	})
}

package gather

import (
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/kernel/survey"
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

// TestReadCNI: the folders are those that the runtimes' configurations name. Plugins are programs,
// each counted once, and configurations are the files that libcni reads.
func TestReadCNI(t *testing.T) {
	root := layOut(t, `
-- etc/containerd/config.toml --
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "/etc/cni/own.d"
-- etc/crio/crio.conf.d/10-crio.conf --
[crio.network]
plugin_dirs = ["/usr/lib/cni", "/usr/libexec/cni", "/missing"]
-- usr/lib/cni/README --
no program
-- usr/lib/cni/bridge --
#!
-- usr/lib/cni/culvert --
#!
-- usr/lib/cni/sriov --
-> culvert
-- usr/libexec/cni/bridge --
#!
-- usr/libexec/cni/host-local --
#!
-- usr/libexec/cni/folder/x --
-- usr/libexec/cni/sriov --
-> another
-- opt/cni/bin/culvert --
#!
-- etc/cni/own.d/10-a.conflist --
{"plugins": [{"type": "bridge"}, {"type": "culvert"}]}
-- etc/cni/own.d/20-b.conf --
{"type": "culvert"}
-- etc/cni/own.d/30-c.json --
{"type":
-- etc/cni/own.d/40-d.conf/x --
-- etc/cni/own.d/README --
{"type": "ptp"}
-- etc/cni/net.d/10-unused.conf --
{"type": "ptp"}
-- etc/pcidp/config.json --
{}
-- var/lib/cni/results/a --
{"kind": "cniCacheV1"}
-- var/lib/cni/results/b --
-- var/lib/cni/results/c --
{"kind":
-- var/lib/cni/results/d --
[]
-- var/lib/cni/results/folder/x --
`)
	got := readCNI(root, "abc", nil)
	want := doctor.CNI{
		BinDirs: []string{"/usr/lib/cni", "/usr/libexec/cni"}, ConfDirs: []string{"/etc/cni/own.d"},
		Plugins: []string{"bridge", "culvert", "sriov", "host-local"}, Elsewhere: "/opt/cni/bin/culvert", OwnBuild: "abc", SRIOV: "culvert",
		Configs: []doctor.CNIConfig{
			{File: "/etc/cni/own.d/10-a.conflist", Types: []string{"bridge", "culvert"}}, {File: "/etc/cni/own.d/20-b.conf", Types: []string{"culvert"}},
			{File: "/etc/cni/own.d/30-c.json", Err: "not JSON: unexpected end of JSON input"}, {File: "/etc/cni/own.d/40-d.conf", Err: "/etc/cni/own.d/40-d.conf: no file"},
		},
		DevicePlugin: "/etc/pcidp/config.json", Results: 4, EmptyResults: []string{"b"}, BrokenResults: []string{"c", "d"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestReadCNIWithoutRuntime: a host without configurations of a runtime uses libcni's usual
// folders. They are named also if they are not there, so that a finding can say where to install.
func TestReadCNIWithoutRuntime(t *testing.T) {
	if diff := cmp.Diff(doctor.CNI{BinDirs: []string{defaultBin}}, readCNI(layOut(t, ""), "", nil)); diff != "" {
		t.Errorf("nothing: -want +got:\n%s", diff)
	}
	root := layOut(t, "-- opt/cni/bin/culvert --\n#!\n-- etc/cni/net.d/10-a.conf --\n{\"type\": \"ptp\"}\n")
	want := doctor.CNI{
		BinDirs: []string{defaultBin}, ConfDirs: []string{defaultConf}, Plugins: []string{"culvert"}, Configs: []doctor.CNIConfig{{File: "/etc/cni/net.d/10-a.conf", Types: []string{"ptp"}}},
	}
	if diff := cmp.Diff(want, readCNI(root, "", nil)); diff != "" {
		t.Errorf("the usual folders: -want +got:\n%s", diff)
	}
}

// TestRuntimeDirs: the configuration of a runtime that does not run, such as Debian's of containerd on
// a node with CRI-O, counts only if no other one runs.
func TestRuntimeDirs(t *testing.T) {
	root := layOut(t, "-- etc/containerd/config.toml --\nbin_dir = \"/usr/lib/cni\"\nconf_dir = \"/etc/cni/own.d\"\n-- etc/crio/crio.conf.d/10-crio.conf --\nplugin_dirs = [\"/usr/libexec/cni\"]\n")
	bare := layOut(t, "-- etc/containerd/config.toml --\nbin_dir = \"/usr/lib/cni\"\n")
	for _, tc := range []struct {
		name, root  string
		running     []string
		bins, confs []string
	}{
		{"none runs", root, nil, []string{"/usr/lib/cni", "/usr/libexec/cni"}, []string{"/etc/cni/own.d"}},
		{"none of the two runs", root, []string{"kubelet"}, []string{"/usr/lib/cni", "/usr/libexec/cni"}, []string{"/etc/cni/own.d"}},
		{"CRI-O runs", root, []string{"kubelet", "crio"}, []string{"/usr/libexec/cni"}, []string{defaultConf}},
		{"CRI-O runs without a setting", bare, []string{"crio"}, []string{defaultBin}, []string{defaultConf}},
		{"containerd runs", root, []string{"containerd"}, []string{"/usr/lib/cni"}, []string{"/etc/cni/own.d"}},
		{"both run", root, []string{"crio", "containerd"}, []string{"/usr/lib/cni", "/usr/libexec/cni"}, []string{"/etc/cni/own.d", defaultConf}},
	} {
		var running []survey.Process
		for _, name := range tc.running {
			running = append(running, survey.Process{Name: name})
		}
		bins, confs := runtimeDirs(tc.root, running)
		if diff := cmp.Diff([][]string{tc.bins, tc.confs}, [][]string{bins, confs}); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.name, diff)
		}
	}
}

// TestRevision: Revision marks a build of a changed tree. It returns an empty text for a build that
// has no revision (debug.BuildSetting).
func TestRevision(t *testing.T) {
	revision, changed, same := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}, debug.BuildSetting{Key: "vcs.modified", Value: "false"}
	for want, all := range map[string][][]debug.BuildSetting{
		"":            {nil, {changed}, {{Key: "GOARCH", Value: "amd64"}}},
		"abc":         {{revision}, {revision, same}, {same, {Key: "vcs", Value: "git"}, revision}},
		"abc+changed": {{revision, changed}, {changed, revision}},
	} {
		for _, settings := range all {
			if got := Revision(&debug.BuildInfo{Settings: settings}); got != want {
				t.Errorf("%v: %q, want %q", settings, got, want)
			}
		}
	}
}

package gather

import (
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/kernel/survey"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// The folders of a runtime whose configuration names none.
const (
	defaultBin  = "/opt/cni/bin"
	defaultConf = "/etc/cni/net.d"
)

// readCNI reads the folders of container runtimes.
func readCNI(root, build string, running []survey.Process) doctor.CNI {
	c := doctor.CNI{OwnBuild: build}
	bins, confs := runtimeDirs(root, running)
	for _, dir := range bins {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			continue
		}
		c.BinDirs = append(c.BinDirs, dir)
		for _, e := range entries {
			info, err := os.Stat(filepath.Join(root, dir, e.Name()))
			if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !slices.Contains(c.Plugins, e.Name()) {
				c.Plugins = append(c.Plugins, e.Name())
			}
		}
		if info, err := buildinfo.ReadFile(filepath.Join(root, dir, netconf.TypeCulvert)); err == nil && c.Build == "" {
			c.Build = Revision(info)
		}
		if to, err := os.Readlink(filepath.Join(root, dir, netconf.TypeSRIOV)); err == nil && c.SRIOV == "" {
			c.SRIOV = filepath.Base(to)
		}
	}
	if len(c.BinDirs) == 0 {
		c.BinDirs = bins
	}
	if _, err := os.Stat(filepath.Join(root, defaultBin, netconf.TypeCulvert)); err == nil && !slices.Contains(bins, defaultBin) {
		c.Elsewhere = defaultBin + "/" + netconf.TypeCulvert
	}
	for _, dir := range confs {
		if entries, err := os.ReadDir(filepath.Join(root, dir)); err == nil {
			c.ConfDirs = append(c.ConfDirs, dir)
			for _, e := range entries {
				if slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
					c.Configs = append(c.Configs, readConfig(root, filepath.Join(dir, e.Name())))
				}
			}
		}
	}
	if _, err := os.Stat(filepath.Join(root, "etc/pcidp/config.json")); err == nil {
		c.DevicePlugin = "/etc/pcidp/config.json"
	}
	readResults(root, &c)
	return c
}

// readResults reads the results that libcni keeps, as libcni itself does: each is a JSON object
// (libcni/api.go, getCachedConfig).
func readResults(root string, c *doctor.CNI) {
	entries, err := os.ReadDir(filepath.Join(root, netconf.ResultsDir))
	if err != nil {
		return // there are none, or only root may read them
	}
	for _, e := range entries {
		text, err := readFile(root, filepath.Join(netconf.ResultsDir, e.Name()))
		if err != nil {
			continue // deleted meanwhile, or a folder: libcni ignores both
		}
		c.Results++
		switch {
		case len(text) == 0:
			c.EmptyResults = append(c.EmptyResults, e.Name())
		case json.Unmarshal(text, &struct{}{}) != nil:
			c.BrokenResults = append(c.BrokenResults, e.Name())
		}
	}
}

// Revision returns the revision that a program was built from; empty if the file does not have it.
func Revision(info *debug.BuildInfo) string {
	var revision, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changed"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}

// readConfig reads a network configuration as libcni does: one plugin, or a
// list of them.
func readConfig(root, name string) doctor.CNIConfig {
	c := doctor.CNIConfig{File: name}
	text, err := readFile(root, name)
	if err == nil {
		c.Types, err = netconf.Types(text)
	}
	if err != nil {
		c.Err = excerpt.Error(err)
	}
	return c
}

// runtimeFiles are the configurations that name folders, by the name of the runtime's process.
var runtimeFiles = map[string][]string{
	"containerd": {"etc/containerd/config.toml", "etc/containerd/conf.d/*.toml"},
	"crio":       {"etc/crio/crio.conf", "etc/crio/crio.conf.d/*.conf"},
}

// runtimeDirs returns the folders of plugins and of configurations that the runtimes of this host
// use: those that run, or all if none runs. The files of another one may be there without a meaning.
// A running runtime whose files name no folder uses the usual one.
func runtimeDirs(root string, running []survey.Process) (bins, confs []string) {
	all := slices.Sorted(maps.Keys(runtimeFiles))
	count := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return !slices.ContainsFunc(running, func(p survey.Process) bool { return p.Name == name })
	})
	usualBin, usualConf := []string{defaultBin}, []string{defaultConf}
	if len(count) == 0 {
		count, usualBin, usualConf = all, nil, nil
	}
	for _, name := range count {
		b, c := configuredDirs(root, runtimeFiles[name])
		bins, confs = append(bins, either(b, usualBin)...), append(confs, either(c, usualConf)...)
	}
	return unique(either(bins, []string{defaultBin})), unique(either(confs, []string{defaultConf}))
}

// either returns dirs, or the others if there are none.
func either(dirs, others []string) []string {
	if len(dirs) == 0 {
		return others
	}
	return dirs
}

// unique returns each folder once, in the order of their first mention.
func unique(dirs []string) (out []string) {
	for _, d := range dirs {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// configuredDirs returns the folders that the files of a runtime name.
func configuredDirs(root string, patterns []string) (bins, confs []string) {
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			continue
		}
		for _, f := range files {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				continue
			}
			if text, err := readFile(root, rel); err == nil {
				b, c := parseDirs(text)
				bins, confs = append(bins, b...), append(confs, c...)
			}
		}
	}
	return bins, confs
}

// dirSetting matches the settings of containerd (plugins."io.containerd.grpc.v1.cri".cni) and
// CRI-O (crio.network) that name folders: a string or a list of them, at the start of a line. The
// check does not need the rest of the TOML.
var dirSetting = regexp.MustCompile(`(?m)^[ \t]*(bin_dirs?|plugin_dirs|conf_dir|network_dir)[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*'|\[[^\]]*\])`)

var quotedText = regexp.MustCompile(`"[^"\n]*"|'[^'\n]*'`)

func parseDirs(text []byte) (bins, confs []string) {
	for _, m := range dirSetting.FindAllSubmatch(text, -1) {
		for _, q := range quotedText.FindAllString(string(m[2]), -1) {
			dir := q[1 : len(q)-1]
			if !filepath.IsAbs(dir) || strings.ContainsAny(dir, "\x00") {
				continue
			}
			dir = filepath.Clean(dir)
			if key := string(m[1]); key == "conf_dir" || key == "network_dir" {
				confs = append(confs, dir)
			} else {
				bins = append(bins, dir)
			}
		}
	}
	return bins, confs
}

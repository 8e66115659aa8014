package install

import (
	_ "embed" // the texts below
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/culvert-net/culvert/internal/program"
)

//go:embed files/culvertd.service
var unitText string

// The units that write the metrics for node_exporter. An administrator enables the timer.
//
//go:embed files/culvert-metrics.service
var metricsText string

//go:embed files/culvert-metrics.timer
var metricsTimerText string

//go:embed files/host.yaml
var hostYAML []byte

// The places of Culvert's files on a host.
const (
	unit     = "culvertd.service"
	metrics  = "culvert-metrics.service"
	timer    = "culvert-metrics.timer"
	config   = "/etc/culvert/host.yaml"
	stateDir = "/var/lib/culvert"
	cniBin   = "/opt/cni/bin"
	hooks    = "/etc/libvirt/hooks"
	// culvertd writes conflist, on a node of a cluster.
	conflist = "/etc/cni/net.d/00-culvert.conflist"
)

// signsOf has the folders that show that the host has software which runs a part, and
// whatOf describes the part. Every host gets the parts Programs and Bench.
var (
	signsOf = map[Part][]string{CNI: {"/opt/cni", "/etc/cni"}, Libvirt: {"/etc/libvirt"}}
	whatOf  = map[Part]string{CNI: "CNI plugin", Libvirt: "hook of libvirt"}
)

// file is a file that Install installs and Uninstall removes.
type file struct {
	place  string // on the host
	mode   fs.FileMode
	source string // the file to copy
	body   []byte // or its content
	link   string // or the target of a link
	// keep: a person edits the file, so an existing one stays, and only an unedited one is
	// removed.
	keep bool
}

// wantedFiles returns the files to install on the host, in that order. It returns an error
// if a program is missing.
func (h Host) wantedFiles(from string, completions map[string][]byte) ([]file, error) {
	var out []file
	for _, f := range h.listPlaces() {
		if strings.HasPrefix(f.place, hooks) && !h.wantsPart(Libvirt) {
			continue
		}
		if f.source != "" {
			var err error
			if f.source, err = findProgram(from, f.source); err != nil {
				return nil, err
			}
		}
		for _, s := range h.listShells() {
			if s.place == f.place {
				f.body = completions[s.shell]
			}
		}
		out = append(out, f)
	}
	if h.wantsPart(CNI) {
		if _, err := findProgram(from, "culvert-cni"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// listPlaces returns the files of all parts but the CNI plugin, which package place
// installs. A source is the program's name.
func (h Host) listPlaces() []file {
	var out []file
	if h.hasPart(Programs) {
		bin, libexec := h.Prefix+"/bin/", h.Prefix+"/libexec/culvert/"
		out = append(out,
			file{place: bin + "culvert", mode: 0o755, source: "culvert"},
			// kubectl finds its plugin culvert, and the program that completes its words, by name.
			file{place: bin + "kubectl-culvert", link: "culvert"},
			file{place: bin + "kubectl_complete-culvert", link: "culvert"},
			file{place: bin + "culvertd", mode: 0o755, source: "culvertd"},
			// For a later install, once there is a container runtime or libvirt.
			file{place: libexec + "culvert-cni", mode: 0o755, source: "culvert-cni"},
			file{place: libexec + "culvert-hook", mode: 0o755, source: "culvert-hook"},
			h.unitFile(unit, unitText), h.unitFile(metrics, metricsText), h.unitFile(timer, metricsTimerText),
			file{place: config, mode: 0o644, body: hostYAML, keep: true},
		)
		for _, s := range h.listShells() {
			out = append(out, file{place: s.place, mode: 0o644})
		}
	}
	if h.hasPart(Bench) {
		out = append(out, file{place: h.Prefix + "/bin/" + program.Bench, mode: 0o755, source: program.Bench})
	}
	if h.hasPart(Libvirt) { // one program for both hooks: libvirt's arguments name the operation
		for _, dir := range []string{"/qemu.d/", "/network.d/"} {
			out = append(out, file{place: hooks + dir + "culvert", mode: 0o755, source: "culvert-hook"})
		}
	}
	return out
}

// unitFile returns a unit whose programs are below the prefix.
func (h Host) unitFile(name, text string) file {
	return file{place: h.unitPlace(name), mode: 0o644, body: []byte(strings.ReplaceAll(text, "/usr/local/bin/", h.Prefix+"/bin/"))}
}

func (h Host) unitPlace(name string) string { return h.Prefix + "/lib/systemd/system/" + name }

// completion is the file in which a shell looks for the completion of culvert's arguments.
type completion struct{ shell, place string }

func (h Host) listShells() []completion {
	share := h.Prefix + "/share/"
	return []completion{
		{"bash", share + "bash-completion/completions/culvert"},
		{"zsh", share + "zsh/site-functions/_culvert"},
		{"fish", share + "fish/vendor_completions.d/culvert.fish"},
	}
}

// isKeptFolder reports whether Uninstall keeps a folder of the host although it is empty: the
// folder was there before, or other software expects it.
func (h Host) isKeptFolder(dir string) bool {
	switch dir {
	case "/", "/etc", "/etc/libvirt", hooks, "/etc/cni", "/etc/cni/net.d", h.Prefix, h.Prefix + "/bin", h.Prefix + "/lib", h.Prefix + "/share":
		return true
	}
	return false
}

// findProgram returns the path of a program in the folder of `make build`, or in that of an
// installation.
func findProgram(from, name string) (string, error) {
	for _, place := range []string{filepath.Join(from, name), filepath.Join(from, "../libexec/culvert", name)} {
		if info, err := os.Stat(place); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return place, nil
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("there is no program %s in %s: `make build` makes it in build/bin; or name the folder that has it (--from)", name, from)
}

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/durable"
)

// DefaultName is the lab that is meant when none is named.
const DefaultName = "culvert"

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// paths are where a lab keeps what it has on the host.
type paths struct {
	run   string // sockets, consoles, initramfs: gone after down
	disks string // in the cache: gone after down
	lock  string // in the cache: held by whoever brings the lab up or down
}

// labPaths returns the places of the lab name, for the calling user.
func labPaths(name string) (paths, error) { return labPathsIn(runDir(), name) }

// labPathsIn returns the places of the lab name whose sockets are below run. Errors: errForeign.
func labPathsIn(run, name string) (paths, error) {
	if !validName.MatchString(name) {
		return paths{}, fmt.Errorf("lab name %q: want lower-case letters, digits and dashes, at most 32", name)
	}
	if err := checkRunDir(run); err != nil {
		return paths{}, err
	}
	cache, err := cacheDir()
	if err != nil {
		return paths{}, err
	}
	labs := filepath.Join(cache, "labs")
	return paths{
		run:   filepath.Join(run, name),
		disks: filepath.Join(labs, name),
		lock:  filepath.Join(labs, name+".lock"),
	}, nil
}

// runDir is the folder of all labs of the calling user.
func runDir() string {
	if os.Geteuid() == 0 {
		return "/run/culvert-lab"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "culvert-lab")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("culvert-lab-%d", os.Geteuid()))
}

// errForeign says that another user made the folder of the caller's labs, or may write to it.
var errForeign = errors.New("not a folder of yours alone")

// checkRunDir refuses a folder of labs that another user made, or can enter: in a folder like
// /tmp everybody can make the name first, serve its sockets, and redirect what is written. It
// accepts a folder that does not exist yet; makeRun checks it again after it made it.
func checkRunDir(dir string) error {
	var st unix.Stat_t
	switch err := unix.Lstat(dir, &st); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("check the labs' folder %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("the labs' folder %s (user %d, mode %#o): %w: remove it, or set XDG_RUNTIME_DIR to a folder that only you can write to",
			dir, st.Uid, st.Mode, errForeign)
	}
	return nil
}

// makeRun makes the folder of the lab's sockets. Errors: errForeign.
func (p paths) makeRun() error {
	if err := os.MkdirAll(p.run, 0o700); err != nil {
		return err
	}
	return checkRunDir(filepath.Dir(p.run))
}

func (p paths) socket() string             { return filepath.Join(p.run, "control") }
func (p paths) config() string             { return filepath.Join(p.run, "config.json") }
func (p paths) owner() string              { return filepath.Join(p.run, "supervisor.json") }
func (p paths) log() string                { return filepath.Join(p.run, "supervisor.log") }
func (p paths) hostKey() string            { return filepath.Join(p.run, "supervisor.pub") }
func (p paths) console(node string) string { return filepath.Join(p.run, node+".console") }
func (p paths) initrd(node string) string  { return filepath.Join(p.run, node+".initrd") }
func (p paths) program(name string) string { return filepath.Join(p.run, name+".log") }
func (p paths) share() string              { return filepath.Join(p.disks, "share") }
func (p paths) disk(node string) string    { return filepath.Join(p.disks, node+".qcow2") }

// remove takes away all that the lab has on the host, but for the lock. The
// parents go with it when they are empty.
func (p paths) remove() error {
	err := errors.Join(os.RemoveAll(p.run), os.RemoveAll(p.disks))
	_ = os.Remove(filepath.Dir(p.run)) // fails while other labs are there
	return err
}

// A config is what a supervisor is told. It holds every path, since inside a
// user namespace the supervisor takes itself for root.
type config struct {
	Name     string   `json:"name"`
	Nodes    []string `json:"nodes"` // their names
	CPUs     int      `json:"cpus"`
	Guests   bool     `json:"guests,omitempty"`
	AppArmor bool     `json:"apparmor,omitempty"`
	Image    string   `json:"image"`    // the hash
	Dir      string   `json:"imageDir"` // its place in the cache
	Base     string   `json:"base"`     // the file that the nodes' disks are layered on
	Run      string   `json:"run"`
	Disks    string   `json:"disks"`
	// PCIRoots is how many PCIe roots the PFs of a node hang on: 1 or 2.
	PCIRoots int `json:"pciRoots,omitempty"`
	// Joined links the switches of the wires, which makes them one L2 segment.
	Joined bool `json:"joined,omitempty"`
	// Snapshot is the folder of the snapshot that the nodes start from; "" boots them.
	Snapshot string `json:"snapshot,omitempty"`
	// KeepMemory holds the memory of the nodes in files, which a snapshot needs.
	KeepMemory bool `json:"keepMemory,omitempty"`
	Acceleration
}

func (c config) paths() paths { return paths{run: c.Run, disks: c.Disks} }
func (c config) image() image { return image{hash: c.Image, dir: c.Dir} }

// snapshot is the one that the nodes start from.
func (c config) snapshot() snapshot { return snapshot{c.Snapshot} }

// writeJSON writes a state file.
func writeJSON(name string, v any) error {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(name, append(body, '\n'), 0o600)
}

func readJSON(name string, v any) error {
	body, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

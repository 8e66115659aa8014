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

	"github.com/culvert-net/culvert/internal/durable"
)

// DefaultName is the name of the lab if the caller names none.
const DefaultName = "culvert"

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// paths has the paths of a lab's files on the host.
type paths struct {
	run   string // sockets, consoles, initramfs: gone after down
	disks string // in the cache: gone after down
	lock  string // in the cache: held by the process that brings the lab up or down
}

// labPaths returns the paths of the lab called name, for the calling user.
func labPaths(name string) (paths, error) { return labPathsIn(runDir(), name) }

// labPathsIn returns the paths of the lab called name, with its sockets below run. Errors:
// errForeign.
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

// runDir returns the folder of all labs of the calling user.
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

// checkRunDir refuses a folder of labs that another user made or can enter. In a folder like /tmp
// any user can make a folder of that name first, serve its sockets, and redirect the files that
// are written. It accepts a folder that does not exist yet; makeRun checks it again after it made
// it.
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

func (p paths) socketPath() string                { return filepath.Join(p.run, "control") }
func (p paths) configPath() string                { return filepath.Join(p.run, "config.json") }
func (p paths) ownerPath() string                 { return filepath.Join(p.run, "supervisor.json") }
func (p paths) logPath() string                   { return filepath.Join(p.run, "supervisor.log") }
func (p paths) hostKey() string                   { return filepath.Join(p.run, "supervisor.pub") }
func (p paths) consolePath(node string) string    { return filepath.Join(p.run, node+".console") }
func (p paths) initrdPath(node string) string     { return filepath.Join(p.run, node+".initrd") }
func (p paths) programLogPath(name string) string { return filepath.Join(p.run, name+".log") }
func (p paths) sharePath() string                 { return filepath.Join(p.disks, "share") }
func (p paths) diskPath(node string) string       { return filepath.Join(p.disks, node+".qcow2") }

// removeFiles removes the lab's files on the host, except the lock, and the parent folders if
// they are empty.
func (p paths) removeFiles() error {
	err := errors.Join(os.RemoveAll(p.run), os.RemoveAll(p.disks))
	_ = os.Remove(filepath.Dir(p.run)) // fails while there are other labs
	return err
}

// A config holds the settings of a supervisor. It has every path, since inside a user namespace
// the supervisor would compute those of root.
type config struct {
	Name     string   `json:"name"`
	Nodes    []string `json:"nodes"` // their names
	CPUs     int      `json:"cpus"`
	Addition Addition `json:"addition,omitempty"`
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
	// Snapshot is the folder of the snapshot that the nodes start from; if it is empty, they
	// boot.
	Snapshot string `json:"snapshot,omitempty"`
	// KeepMemory makes the nodes keep their memory in files, as a snapshot needs it.
	KeepMemory bool `json:"keepMemory,omitempty"`
	Acceleration
}

func (c config) labPaths() paths { return paths{run: c.Run, disks: c.Disks} }
func (c config) labImage() image { return image{hash: c.Image, dir: c.Dir} }

// startSnapshot returns the snapshot that the nodes start from.
func (c config) startSnapshot() snapshot { return snapshot{c.Snapshot} }

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

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

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
func labPaths(name string) (paths, error) {
	if !validName.MatchString(name) {
		return paths{}, fmt.Errorf("lab name %q: want lower-case letters, digits and dashes, at most 32", name)
	}
	cache, err := cacheDir()
	if err != nil {
		return paths{}, err
	}
	labs := filepath.Join(cache, "labs")
	return paths{
		run:   filepath.Join(runDir(), name),
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

func (p paths) socket() string             { return filepath.Join(p.run, "control") }
func (p paths) config() string             { return filepath.Join(p.run, "config.json") }
func (p paths) owner() string              { return filepath.Join(p.run, "supervisor.json") }
func (p paths) log() string                { return filepath.Join(p.run, "supervisor.log") }
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

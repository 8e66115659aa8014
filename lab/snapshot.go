package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/durable"
)

// A snapshot is the state of one or more machines at one moment: memory, devices and disks. It
// lies in the cache, and machines start from it in place of a boot. They map its memory
// privately and layer their disks on its own, so it never changes. docs/design/0013-snapshots.md
// says why it is made this way.
type snapshot struct{ dir string }

func (s snapshot) memoryPath(node string) string { return filepath.Join(s.dir, node+".memory") }
func (s snapshot) statePath(node string) string  { return filepath.Join(s.dir, node+".state") }
func (s snapshot) diskPath(node string) string   { return filepath.Join(s.dir, node+".qcow2") }
func (s snapshot) keysPath() string              { return filepath.Join(s.dir, "keys.json") }
func (s snapshot) folderPath() string            { return filepath.Join(s.dir, "folder") }

// errRestore marks the failure of a machine that was to start from a snapshot.
var errRestore = errors.New("the snapshot does not load")

// hashKey names a snapshot by all that its content depends on.
func hashKey(parts ...any) (string, error) {
	body, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("name the snapshot: %w", err)
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:6]), nil
}

// identifyHypervisor identifies the QEMU and the processor that a machine's state belongs to.
func identifyHypervisor() (string, error) {
	path, err := exec.LookPath(qemu)
	if err != nil {
		return "", fmt.Errorf("find QEMU: %w", err)
	}
	program, err := identifyFile(path)
	if err != nil {
		return "", fmt.Errorf("find QEMU: %w", err)
	}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("find the processor's model: %w", err)
	}
	return program + " " + cpuModel(string(cpu)), nil
}

// identifyFile identifies the content of a file that was written once. A file that was made anew
// under its old name has another identity.
func identifyFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %s", path, info.Size(), info.ModTime().UTC()), nil
}

// cpuModel returns the first "model name" and "flags" of /proc/cpuinfo.
func cpuModel(cpuinfo string) string {
	first, _, _ := strings.Cut(cpuinfo, "\n\n")
	var model []string
	for line := range strings.Lines(first) {
		if strings.HasPrefix(line, "model name") || strings.HasPrefix(line, "flags") {
			model = append(model, strings.TrimSpace(line))
		}
	}
	return strings.Join(model, " ")
}

// findSnapshot returns the snapshot of a key. If the cache has none, findSnapshot calls take to
// make it in a new folder. When two callers come at once, one makes it and the other waits for
// it.
func findSnapshot(ctx context.Context, p *Steps, key string, take func(ctx context.Context, s snapshot) error) (snapshot, error) {
	cache, err := cacheDir()
	if err != nil {
		return snapshot{}, err
	}
	all := filepath.Join(cache, "snapshots")
	s := snapshot{filepath.Join(all, key)}
	if s.touchIfPresent() {
		return s, nil
	}
	if err := os.MkdirAll(all, 0o700); err != nil {
		return s, fmt.Errorf("make the cache of snapshots: %w", err)
	}
	unlock, err := lockFile(ctx, s.dir+".lock", func() { p.Step("another command takes that snapshot: waiting for it") })
	if err != nil {
		return s, err
	}
	defer unlock()
	if s.touchIfPresent() {
		return s, nil
	}
	fresh := snapshot{s.dir + ".new"}
	if err := errors.Join(os.RemoveAll(fresh.dir), os.Mkdir(fresh.dir, 0o700)); err != nil {
		return s, fmt.Errorf("take a snapshot: %w", err)
	}
	if err := take(ctx, fresh); err != nil {
		return s, errors.Join(fmt.Errorf("take a snapshot: %w", err), os.RemoveAll(fresh.dir))
	}
	err = syncTree(fresh.dir)
	if err == nil {
		err = durable.Rename(fresh.dir, s.dir)
	}
	if err != nil {
		return s, fmt.Errorf("keep a snapshot: %w", err)
	}
	s.removeOldSnapshots(time.Now())
	return s, nil
}

// touchIfPresent reports whether the snapshot is there, and notes that it is in use. At worst it is taken
// again.
func (s snapshot) touchIfPresent() bool {
	now := time.Now()
	_ = os.Chtimes(s.dir, now, now)
	return fileExists(s.dir)
}

// removeFiles removes a snapshot that does not load. Machines that run from it have its files open; a
// reboot of theirs fails, since it opens the disk by its name.
func (s snapshot) removeFiles() error { return os.RemoveAll(s.dir) }

// removeOldSnapshots removes the snapshots that no lab used for imageAge. At worst they stay.
func (s snapshot) removeOldSnapshots(now time.Time) {
	all, _ := filepath.Glob(filepath.Join(filepath.Dir(s.dir), "*"))
	for _, dir := range all {
		if info, err := os.Stat(dir); err == nil && now.Sub(info.ModTime()) > imageAge {
			_ = os.RemoveAll(dir)
		}
	}
}

// keepMemory copies the memory of a stopped machine into the snapshot. Only pages that the
// machine has touched take room.
func (s snapshot) keepMemory(node string, memory *os.File) (err error) {
	to, err := os.OpenFile(s.memoryPath(node), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := copySparse(to, memory); err != nil {
		return fmt.Errorf("keep the memory of %s: %w", node, err)
	}
	return nil
}

// copySparse copies a file and its holes: lseek(2), SEEK_DATA.
func copySparse(to, from *os.File) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if err := to.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		start, err := from.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // only a hole follows
			return nil
		}
		if err != nil {
			return err
		}
		end, err := from.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := to.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(to, io.NewSectionReader(from, start, end-start)); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// syncTree makes the files of a folder durable, so that a power cut leaves no half snapshot
// under a name that is believed.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Software is the software of a lab's nodes besides that of their image.
type Software struct {
	Layer *Layer // on their disks; nil for nothing
	Setup *Setup // done and running; nil for nothing
}

// Setup is work on a lab whose nodes accept commands. It runs once for many labs, which start
// from a snapshot taken after it. A lab that boots its nodes runs it each time.
type Setup struct {
	// Key identifies the work of Run: another key leads to another snapshot.
	Key string
	// Folder, within [Lab.Folder], has the files that Run leaves on the host. The snapshot keeps
	// them.
	Folder string
	// Run does the work. The programs that it starts beside the nodes end when the
	// snapshot is taken.
	Run func(ctx context.Context, l *Lab, step func(format string, args ...any)) error
}

// HashFiles identifies a tree of files by the names and bodies of all its files, for [Setup.Key].
func HashFiles(files fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(files, name)
		fmt.Fprintf(sum, "%s %d\n%s\n", name, len(body), body)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// snapshotKey returns a name for the work of the setup. A nil setup does nothing.
func (s *Setup) snapshotKey() string {
	if s == nil {
		return ""
	}
	return s.Key
}

func (s *Setup) runSetup(ctx context.Context, l *Lab, step func(format string, args ...any)) error {
	if s == nil {
		return nil
	}
	return s.Run(ctx, l, step)
}

// snapshotKey names the snapshot that a lab of this configuration starts from. Labs that differ
// only in their names, folders and wires have the same.
func (c config) snapshotKey(setup *Setup) (string, error) {
	code, err := initramfsCode("node-init")
	if err != nil {
		return "", err
	}
	on, err := identifyHypervisor()
	if err != nil {
		return "", err
	}
	base, err := identifyFile(c.Base) // the nodes have the base's file system in their memory
	if err != nil {
		return "", fmt.Errorf("find the disk that the nodes start from: %w", err)
	}
	parts := []any{"lab", c.Nodes, base, setup.snapshotKey(), code, on}
	c.Run, c.Disks = "", ""
	for i := range c.Nodes {
		parts = append(parts, c.nodeMachine(i+1).commandLine())
	}
	return hashKey(parts...)
}

// findSnapshot returns the snapshot that a lab of this configuration starts from, and takes it if
// the cache has none.
func (c config) findSnapshot(ctx context.Context, p *Steps, setup *Setup) (snapshot, error) {
	key, err := c.snapshotKey(setup)
	if err != nil {
		return snapshot{}, err
	}
	name := "lab-" + key
	return findSnapshot(ctx, p, name, func(ctx context.Context, s snapshot) error {
		return c.takeSnapshot(ctx, p, "snapshot-"+name, s, setup)
	})
}

// takeSnapshot boots the nodes in a lab of their own, sets them up, and saves them in that state.
func (c config) takeSnapshot(ctx context.Context, p *Steps, name string, s snapshot, setup *Setup) error {
	p.Step("booting %s for a snapshot (%s; once, kept in %s)", strings.Join(c.Nodes, ", "), c.Accel, filepath.Dir(s.dir))
	_, err := Up(ctx, Options{
		Name: name, Names: c.Nodes, CPUs: c.CPUs, Addition: c.Addition, AppArmor: c.AppArmor, PCIRoots: c.PCIRoots, NoSnapshot: true, keepMemory: true, base: c.Base,
		Finish: func(ctx context.Context, l *Lab, _ func(string, ...any)) error {
			if err := setup.runSetup(ctx, l, p.Step); err != nil {
				return err
			}
			if err := l.saveSnapshot(ctx, s, c.Nodes); err != nil {
				return err
			}
			if setup != nil && setup.Folder != "" {
				if err := os.CopyFS(s.folderPath(), os.DirFS(filepath.Join(l.Folder(), setup.Folder))); err != nil {
					return err
				}
			}
			return errKept
		},
	})
	if errors.Is(err, errKept) {
		return nil
	}
	return errors.Join(err, ctx.Err())
}

// saveSnapshot waits until the nodes have completed their boot, and makes the supervisor save
// them and end the programs beside them.
func (l *Lab) saveSnapshot(ctx context.Context, s snapshot, nodes []string) error {
	for _, node := range nodes {
		// If a unit failed, the status is "degraded". That ends the boot, too.
		if _, err := l.Exec(ctx, node, Cmd{Argv: []string{"sh", "-c", "systemctl is-system-running --wait; sync"}}); err != nil {
			return err
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	return l.sendRequest(ctx, request{Op: "save", Target: s.dir})
}

// restoreFolder gives a lab that starts from a snapshot the files that its setup left.
func (s snapshot) restoreFolder(to string) error {
	if !fileExists(s.folderPath()) {
		return nil
	}
	return os.CopyFS(to, os.DirFS(s.folderPath()))
}

// labKeys are the SSH keys of a lab: its own, and one for each node. Nodes that start from a
// snapshot have their keys in their memory, so the snapshot keeps the keys, readable only by its
// owner.
type labKeys struct {
	Login keyPair            `json:"login"`
	Hosts map[string]keyPair `json:"hosts"`
}

func newLabKeys(nodes []string) (k labKeys, err error) {
	if k.Login, err = newKeyPair("culvert-lab"); err != nil {
		return k, err
	}
	k.Hosts = make(map[string]keyPair)
	for _, name := range nodes {
		if k.Hosts[name], err = newKeyPair(name); err != nil {
			return k, err
		}
	}
	return k, nil
}

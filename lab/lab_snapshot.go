package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Software is what a lab's nodes have besides their image's.
type Software struct {
	Layer *Layer // on their disks; nil for nothing
	Setup *Setup // done and running; nil for nothing
}

// Setup is work on a lab whose nodes take commands. It runs once for many labs: they start from
// a snapshot that has it behind it. A lab that boots its nodes runs it each time.
type Setup struct {
	// Key decides what Run does: another one is another snapshot.
	Key string
	// Folder, within [Lab.Folder], is what Run leaves on the host. The snapshot keeps it.
	Folder string
	// Run does the work. The programs that it starts beside the nodes end before the
	// snapshot is taken.
	Run func(ctx context.Context, l *Lab, step func(format string, args ...any)) error
}

// key names what the setup does. The nil setup does nothing.
func (s *Setup) key() string {
	if s == nil {
		return ""
	}
	return s.Key
}

func (s *Setup) run(ctx context.Context, l *Lab, step func(format string, args ...any)) error {
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
	on, err := hypervisor()
	if err != nil {
		return "", err
	}
	parts := []any{"lab", c.Nodes, c.Base, setup.key(), code, on}
	c.Run, c.Disks = "", ""
	for i := range c.Nodes {
		parts = append(parts, c.machine(i+1).args())
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

// takeSnapshot boots the nodes in a lab of their own, sets them up, and keeps them like that.
func (c config) takeSnapshot(ctx context.Context, p *Steps, name string, s snapshot, setup *Setup) error {
	p.Step("booting %s for a snapshot (%s; once, kept in %s)", strings.Join(c.Nodes, ", "), c.Accel, filepath.Dir(s.dir))
	_, err := Up(ctx, Options{
		Name: name, Names: c.Nodes, CPUs: c.CPUs, Guests: c.Guests, AppArmor: c.AppArmor, PCIRoots: c.PCIRoots, NoSnapshot: true, keepMemory: true, base: c.Base,
		Finish: func(ctx context.Context, l *Lab, _ func(string, ...any)) error {
			if err := setup.run(ctx, l, p.Step); err != nil {
				return err
			}
			if err := l.save(ctx, s, c.Nodes); err != nil {
				return err
			}
			if setup != nil && setup.Folder != "" {
				if err := os.CopyFS(s.folder(), os.DirFS(filepath.Join(l.Folder(), setup.Folder))); err != nil {
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

// save waits until the nodes have nothing left to start, and lets the supervisor save them. It ends
// the programs beside them first.
func (l *Lab) save(ctx context.Context, s snapshot, nodes []string) error {
	for _, node := range nodes {
		// A unit that failed makes the status "degraded", which is an end of the boot as well.
		if _, err := l.Exec(ctx, node, Cmd{Argv: []string{"sh", "-c", "systemctl is-system-running --wait; sync"}}); err != nil {
			return err
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	return l.do(ctx, request{Op: "save", Target: s.dir})
}

// restoreFolder gives a lab that starts from a snapshot the files that its setup left.
func (s snapshot) restoreFolder(to string) error {
	if !there(s.folder()) {
		return nil
	}
	return os.CopyFS(to, os.DirFS(s.folder()))
}

// labKeys are the SSH keys of a lab: its own, and one for each node. Nodes that start from a
// snapshot have them in their memory, so a snapshot keeps them, for its owner's eyes.
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

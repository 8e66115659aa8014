// Package mend carries out the repairs of `culvert doctor --fix`: modules that are loaded and
// sysctls that are set, now and at every boot. For a host with a role it also turns swap off,
// installs packages and opens ports. Each repair is read back, and can be undone with the command
// that it returns. A file is written as a whole or not at all. Modules and sysctls have a file for
// each repair, so that an undo is one rm.
package mend

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/kernel/survey"
)

// Host is the host on which repairs are made.
type Host struct {
	Root string // "/" outside of tests
	// Load loads a module: survey.LoadModule outside of tests.
	Load func(ctx context.Context, name string) error
	// Run runs a program of the host: survey.RunProgram outside of tests.
	Run func(ctx context.Context, argv ...string) error
}

// Changes returns the repairs of the findings, each once.
func Changes(found []doctor.Finding) []doctor.Change {
	seen := map[doctor.Change]bool{}
	var out []doctor.Change
	for _, f := range found {
		if f.Change != nil && !seen[*f.Change] {
			seen[*f.Change] = true
			out = append(out, *f.Change)
		}
	}
	return out
}

// Apply carries the repairs out, one after the other. A failed repair does not stop the others.
func (h Host) Apply(ctx context.Context, changes []doctor.Change) []api.Repair {
	out := []api.Repair{}
	for _, c := range changes {
		r := api.Repair{What: c.String()}
		err := h.applyOne(ctx, c, &r)
		if r.Done = err == nil; err != nil {
			r.Error = err.Error()
		}
		out = append(out, r)
	}
	return out
}

func (h Host) applyOne(ctx context.Context, c doctor.Change, r *api.Repair) error {
	switch {
	case c.Module != "":
		return h.loadModule(ctx, c.Module, r)
	case c.Swap:
		return h.turnSwapOff(ctx, r)
	case c.Packages != "":
		return h.installPackages(ctx, strings.Fields(c.Packages), r)
	case c.Ports != "":
		return h.openPorts(ctx, strings.Fields(c.Ports), r)
	}
	return h.setSysctl(c.Key, c.Value, r)
}

func (h Host) loadModule(ctx context.Context, name string, r *api.Repair) error {
	if err := h.Load(ctx, name); err != nil {
		return err
	}
	if !survey.Read(survey.Root(h.Root)).Modules.Has(name) {
		return fmt.Errorf("modprobe %s succeeded, and the kernel does not list it", name)
	}
	file := "/etc/modules-load.d/90-culvert-" + name + ".conf"
	if err := h.writeFile(file, "# culvert doctor --fix\n"+name+"\n"); err != nil {
		return fmt.Errorf("it is loaded until the next boot: %w", err)
	}
	r.Found = "loaded, and " + file + " loads it at boot"
	r.Undo = "rm " + file + " && modprobe -r " + name
	return nil
}

func (h Host) setSysctl(key, value string, r *api.Repair) error {
	before, err := survey.SetSysctl(survey.Root(h.Root), key, value)
	if err != nil {
		return err
	}
	file := "/etc/sysctl.d/90-culvert-" + key + ".conf"
	if err := h.writeFile(file, fmt.Sprintf("# culvert doctor --fix; it was %s\n%s = %s\n", before, key, value)); err != nil {
		return fmt.Errorf("it is set until the next boot: %w", err)
	}
	r.Found = fmt.Sprintf("it reads %s (it was %s), and %s sets it at boot", value, before, file)
	r.Undo = fmt.Sprintf("rm %s && sysctl -w %s=%s", file, key, before)
	return nil
}

// writeFile replaces a file.
func (h Host) writeFile(name, content string) error {
	path := filepath.Join(h.Root, name)
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, []byte(content), 0o644)
}

package gather

import (
	"bytes"
	"debug/buildinfo"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/doctor"
)

// readLibvirt looks for Culvert's hooks where libvirt looks for hooks: a program
// of an event's name, then those in the folder of that name, in order
// (https://libvirt.org/hooks.html).
func readLibvirt(root string) (l doctor.Libvirt) {
	if info, err := os.Stat(filepath.Join(root, "etc/libvirt")); err != nil || !info.IsDir() {
		return l
	}
	l.There = true
	for _, event := range doctor.HookEvents() {
		names := []string{event}
		entries, err := os.ReadDir(filepath.Join(root, doctor.HooksDir, event+".d"))
		if err != nil {
			entries = nil // the folder is not there, or only root may read it
		}
		for _, e := range entries {
			names = append(names, event+".d/"+e.Name())
		}
		for _, name := range names {
			file := doctor.HooksDir + "/" + name
			info, err := os.Stat(filepath.Join(root, file))
			if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
				continue
			}
			h := doctor.Hook{Event: event, File: file}
			ours := slices.Contains([]string{"culvert", "culvert-hook"}, path.Base(name))
			if info, err := buildinfo.ReadFile(filepath.Join(root, file)); err == nil {
				h.Build = Revision(info)
				ours = ours || strings.HasSuffix(info.Path, "/cmd/culvert-hook")
			} else if !ours && runsHook(filepath.Join(root, file)) {
				ours, h.Script = true, true
			}
			if ours {
				l.Hooks = append(l.Hooks, h)
			}
		}
	}
	return l
}

// runsHook reports whether a script runs Culvert's hook, as far as its text shows.
func runsHook(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestScript))
	return err == nil && bytes.HasPrefix(text, []byte("#!")) && (bytes.Contains(text, []byte("culvert-hook")) || bytes.Contains(text, []byte(".d/culvert")))
}

// longestScript is how much of a hook is read, in bytes.
const longestScript = 64 << 10

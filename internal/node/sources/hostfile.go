package sources

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/node/desired"
)

// HostFile is the node's host.yaml.
type HostFile struct {
	Path     string
	Optional bool // the node is in a cluster and needs none
	Sources  *Set
	Log      *slog.Logger

	problem atomic.Pointer[api.Problem] // why the file is not followed, until the next Read
}

// Read merges the file's Spec into the wanted one. A file that cannot be read leaves the
// host as it is: culvertd makes no VF and removes none.
func (f *HostFile) Read() {
	content, err := os.ReadFile(f.Path)
	if errors.Is(err, os.ErrNotExist) {
		f.problem.Store(nil)
		if !f.Optional {
			f.problem.Store(&api.Problem{Object: "host", Reason: f.Path + " is not there, so nothing is wanted of this host",
				Next: "write one (culvert host --help shows how) and run culvert host apply"})
		}
		f.Sources.SetHostUnread(nil)
		f.Sources.Merge()
		return
	}
	var spec desired.Spec
	if err == nil {
		spec, err = desired.Parse(f.Path, content)
	}
	if err != nil {
		f.Log.Error("read host.yaml", "file", f.Path, "err", err)
		f.problem.Store(&api.Problem{Object: "host", Reason: err.Error(), Since: time.Now(),
			Next: "correct it and run culvert host apply; until then the host stays as it is"})
		f.Sources.SetHostUnread(err)
		f.Sources.Merge()
		return
	}
	f.problem.Store(nil)
	f.Sources.SetHost(spec)
	f.Sources.Merge()
}

// Write replaces the file durably, and reads it.
func (f *HostFile) Write(content []byte) error {
	if err := durable.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	if err := durable.WriteFile(f.Path, content, 0o644); err != nil {
		return err
	}
	f.Read()
	return nil
}

// Problems returns the reason why the file is not followed, if there is one.
func (f *HostFile) Problems() []api.Problem {
	if p := f.problem.Load(); p != nil {
		return []api.Problem{*p}
	}
	return nil
}

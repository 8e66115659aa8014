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
	content, err := f.Content()
	if content == nil && err == nil {
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
	f.Follow(spec)
}

// Follow merges spec in place of the file's Spec into the wanted one. The file stays as it is.
func (f *HostFile) Follow(spec desired.Spec) {
	f.Sources.SetHost(spec)
	f.Sources.Merge()
}

// Content returns the content of the file, nil if there is no file.
func (f *HostFile) Content() ([]byte, error) {
	content, err := os.ReadFile(f.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if content == nil {
		content = []byte{}
	}
	return content, err
}

// Put replaces the file durably. It removes the file if content is nil. Read follows the file.
func (f *HostFile) Put(content []byte) error {
	if content == nil {
		return durable.Remove(f.Path)
	}
	if err := durable.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	return durable.WriteFile(f.Path, content, 0o644)
}

// Write replaces the file durably, and reads it.
func (f *HostFile) Write(content []byte) error {
	if err := f.Put(content); err != nil {
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

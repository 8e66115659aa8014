package dirwatch_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/dirwatch"
)

// next waits for a wake and returns whether there will be more.
func next(t *testing.T, wake <-chan struct{}) bool {
	t.Helper()
	select {
	case _, more := <-wake:
		return more
	case <-time.After(5 * time.Minute):
		t.Fatal("nothing was told")
		return false
	}
}

func TestWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	if _, err := dirwatch.Watch(t.Context(), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ending, err := dirwatch.Watch(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	wake, err := dirwatch.Watch(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "kubelet.sock")
	for _, do := range []func() error{
		func() error { return os.WriteFile(socket, nil, 0o600) },
		func() error { return os.Rename(socket, socket+"2") },
		func() error { return os.Remove(socket + "2") },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if !next(t, wake) {
			t.Fatal("ended")
		}
	}
	cancel()
	for next(t, ending) {
		continue // a wake from before the end
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for next(t, wake) {
		continue
	}
}

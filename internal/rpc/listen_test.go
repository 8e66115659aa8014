package rpc

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListen(t *testing.T) {
	t.Run("a stale socket is replaced", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "run", "d.sock")
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false)
		dead.Close()
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Dir(path) + "/*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("a missing folder is not made", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "mistyped")
		if _, err := Listen(filepath.Join(dir, "d.sock")); err == nil || !strings.Contains(err.Error(), "folder "+dir+" is not there: make it") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the folder is there: %v", err)
		}
	})
	t.Run("a live one is not", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "d.sock")
		first, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another culvertd answers there") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file is not", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "d.sock")
		if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("got %v", err)
		}
		if b, _ := os.ReadFile(path); string(b) != "precious" {
			t.Errorf("the file now has %q", b)
		}
	})
	t.Run("the successor's socket stays", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "d.sock")
		first, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		second, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the successor's socket is gone: %v", err)
		}
	})
}

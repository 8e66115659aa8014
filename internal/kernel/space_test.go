package kernel

import (
	"os"
	"path/filepath"
	"testing"
)

// The size of a file is that of its content, and the free space that of its file system.
func TestFileSpace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, make([]byte, 4321), 0o600); err != nil {
		t.Fatal(err)
	}
	size, free, err := FileSpace(file)
	if size != 4321 || free == 0 || err != nil {
		t.Errorf("%d bytes, %d free, %v", size, free, err)
	}
	if _, _, err := FileSpace(file + "-missing"); err == nil {
		t.Error("a missing file has no size")
	}
}

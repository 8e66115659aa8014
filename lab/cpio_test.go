package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readArchive reads a cpio archive. It returns one line for each entry: the mode
// in octal, and the body after a colon.
func readArchive(t *testing.T, r io.Reader) []string {
	t.Helper()
	var out []string
	for {
		head := make([]byte, 110)
		if _, err := io.ReadFull(r, head); err != nil {
			t.Fatalf("read a header after %q: %v", out, err)
		}
		var f [13]uint32
		for i := range f {
			if _, err := fmt.Sscanf(string(head[6+8*i:14+8*i]), "%08x", &f[i]); err != nil {
				t.Fatal(err)
			}
		}
		if string(head[:6]) != "070701" {
			t.Fatalf("magic %q after %q", head[:6], out)
		}
		name := readPadded(t, r, 110, int(f[11]))
		body := readPadded(t, r, 0, int(f[6]))
		name = strings.TrimSuffix(name, "\x00")
		if name == "TRAILER!!!" {
			return out
		}
		line := fmt.Sprintf("%o %s", f[1], name)
		if f[1]&0o170000 == cpioChar {
			line += fmt.Sprintf(" %d:%d", f[9], f[10])
		}
		out = append(out, line+": "+body)
	}
}

// readPadded reads n bytes that begin at offset, and the padding that aligns
// their end to 4.
func readPadded(t *testing.T, r io.Reader, offset, n int) string {
	t.Helper()
	b := make([]byte, n+(4-(offset+n)%4)%4)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run"), []byte("#!\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	a := newArchive(&b)
	a.addCharDevice("dev/console", 0o600, 5, 1)
	a.addText("/etc/hosts", "localhost", 0o644)
	a.addText("etc/hosts", "the first one wins", 0o644)
	a.addLink("bin/sh", "busybox")
	if err := a.addTree("opt/x", dir); err != nil {
		t.Fatal(err)
	}
	if err := a.addTree("one", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := a.writeTrailer(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"40755 dev: ", "20600 dev/console 5:1: ", "40755 etc: ", "100644 etc/hosts: localhost",
		"40755 bin: ", "120777 bin/sh: busybox", "40755 opt: ", "40755 opt/x: ",
		"120777 opt/x/link: run", "100755 opt/x/run: #!\n", "100755 one: #!\n",
	}
	if diff := cmp.Diff(want, readArchive(t, &b)); diff != "" {
		t.Error(diff)
	}
}

func TestArchiveReportsMissingFile(t *testing.T) {
	a := newArchive(io.Discard)
	if err := a.addTree("x", filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("add of an absent file: %v", err)
	}
}

func TestArchiveReportsShortBody(t *testing.T) {
	a := newArchive(io.Discard)
	a.addEntry("x", cpioFile|0o644, 0, 0, 10, strings.NewReader("short"))
	if err := a.writeTrailer(); err == nil {
		t.Error("a file that shrank went unnoticed")
	}
}

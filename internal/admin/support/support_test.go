package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// unpackArchive returns the files of an archive.
func unpackArchive(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil || h.Mode != 0o600 {
			t.Fatalf("%s: mode %o, %v", h.Name, h.Mode, err)
		}
		files[h.Name] = string(content)
	}
}

func readText(s string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(s), nil }
}

// The archive has the parts without secrets, and its first file says what is in it and what is not.
func TestPack(t *testing.T) {
	secret := "Authorization: Bearer eyJhbGciOiJSUzI1NiIs.x.y\ntoken: abc123\n\"password\": \"hunter2\"\n-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----\nhttps://user:pass@example.org/x\nattached vf 3\n"
	var raw bytes.Buffer
	var said []string
	err := Pack(t.Context(), &raw, "support-host1", time.Unix(0, 0), []Part{
		{"status.json", "culvertd's status", readText(`{"node": "host1"}`)},
		{"journal.txt", "culvertd's log", readText(secret)},
		{"doctor.json", "the doctor's findings", func(context.Context) ([]byte, error) { return nil, errors.New("no culvertd") }},
	}, func(p Packed) { said = append(said, p.Name) })
	if err != nil {
		t.Fatal(err)
	}
	files := unpackArchive(t, raw.Bytes())
	readme := files["support-host1/README.txt"]
	for _, want := range []string{"status.json", "culvertd's status", "doctor.json    not here: no culvertd", "5 texts removed"} {
		if !strings.Contains(readme, want) {
			t.Errorf("%q is not in\n%s", want, readme)
		}
	}
	if _, has := files["support-host1/doctor.json"]; has || files["support-host1/status.json"] != `{"node": "host1"}` || len(said) != 3 {
		t.Errorf("%q, said %q", files, said)
	}
	log := files["support-host1/journal.txt"]
	for _, word := range []string{"eyJ", "abc123", "hunter2", "MHcC", "pass@"} {
		if strings.Contains(log, word) {
			t.Errorf("%q is in\n%s", word, log)
		}
	}
	if !strings.Contains(log, "attached vf 3") {
		t.Errorf("the rest is gone:\n%s", log)
	}
}

// Pack keeps the last whole lines of a part that is too long. It returns the error of a full disk, and
// that of Ctrl-C.
func TestPackIsBounded(t *testing.T) {
	var raw bytes.Buffer
	long := strings.Repeat("a line\n", mostBytes/7+1) + "the end"
	var packed Packed
	if err := Pack(t.Context(), &raw, "s", time.Unix(0, 0), []Part{{"log.txt", "", readText(long)}}, func(p Packed) { packed = p }); err != nil {
		t.Fatal(err)
	}
	if got := unpackArchive(t, raw.Bytes())["s/log.txt"]; len(got) > mostBytes || !strings.HasPrefix(got, "a line\n") || !strings.HasSuffix(got, "the end") || packed.Cut+len(got) != len(long) {
		t.Errorf("%d bytes, %+v", len(got), packed)
	}
	if err := Pack(t.Context(), full{}, "s", time.Unix(0, 0), nil, func(Packed) {}); err == nil {
		t.Error("a full disk is no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Pack(ctx, io.Discard, "s", time.Unix(0, 0), []Part{{"a", "", readText("")}}, func(Packed) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Only the lines about the host's PFs, PCIe and vfio are taken.
func TestPickMessages(t *testing.T) {
	got := string(PickMessages("igb 0000:01:00.0 enp1s0: up\nusb 1-1: new device\nAER: corrected error\n", []string{"0000:01:00.0", ""}))
	if got != "igb 0000:01:00.0 enp1s0: up\nAER: corrected error\n" {
		t.Errorf("%q", got)
	}
}

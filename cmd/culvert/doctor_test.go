package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
)

// TestDoctor examines the machine that the test runs on, with a culvertd that
// answers.
func TestDoctor(t *testing.T) {
	socket := new(culvertd).serve(t)
	out, err := run(t.Context(), t, socket, "doctor", "-o", "json")
	var r api.DoctorReport
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	var counted api.Summary
	able, pointer := false, false
	for _, f := range r.Findings {
		switch f.Severity {
		case api.SeverityOK:
			counted.OK++
		case api.SeverityNote:
			counted.Notes++
		case api.SeverityWarning:
			counted.Warnings++
		case api.SeverityError:
			counted.Errors++
		}
		able = able || f.Check == "sriov" && strings.HasPrefix(f.What, "it can have")
		pointer = pointer || f.Check == "sriov" && strings.HasPrefix(strings.Join(f.Mend, ""), "culvert lab up")
	}
	if counted != r.Summary || r.Repairs != nil || r.Node == "" {
		t.Errorf("%+v, counted %+v, repairs %v", r.Summary, counted, r.Repairs)
	}
	if able == pointer {
		t.Errorf("NICs with SR-IOV: %v; pointer to the lab: %v", able, pointer)
	}
	var exit cli.ExitStatus
	if bad := counted.Warnings+counted.Errors > 0; errors.As(err, &exit) != bad || !bad && err != nil {
		t.Errorf("%d warnings, %d errors, and the command ends with %v", counted.Warnings, counted.Errors, err)
	}
	table, _ := run(t.Context(), t, socket, "doctor")
	for _, want := range []string{"\nNICS\n", "\nHOST\n", "\nCULVERT\n", "\nKUBERNETES\n"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	for line := range strings.Lines(table) {
		if len([]rune(line)) > 101 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
}

func TestDoctorPeer(t *testing.T) {
	_, err := run(t.Context(), t, "/nonexistent", "doctor", "--peer", "worker02")
	if err == nil || !strings.Contains(err.Error(), "want an IP address") {
		t.Errorf("a name as peer: %v", err)
	}
}

// TestDoctorGuest examines a guest on the machine that the test runs on.
func TestDoctorGuest(t *testing.T) {
	socket := new(culvertd).serve(t)
	file := filepath.Join(t.TempDir(), "db1.xml")
	definition := `<domain><name>db1</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid><vcpu>4</vcpu><memory>1048576</memory>
	  <devices><interface type='bridge'><model type='virtio'/><alias name='net0'/></interface></devices></domain>`
	if err := os.WriteFile(file, []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"doctor --guest " + file:            "guest db1, interface net0: it has 1 queue, and the guest 4 vCPUs",
		"doctor --guest -":                  "the guest's definition: ",
		"doctor --guest none.xml":           "none.xml",
		"doctor --fix --guest " + file:      "exclude each other",
		"doctor --peer ::1 --guest " + file: "exclude each other",
		"doctor --by sh":                    "--by looks into the guest of --guest",
		"doctor --by sh --guest " + file:    "guest db1: Linux ",
		"doctor --by false --guest " + file: "false gives no shell",
		"doctor --by sh --fix":              "exclude each other",
	} {
		out, err := run(t.Context(), t, socket, strings.Fields(line)...)
		if err == nil {
			t.Errorf("%s ends well", line)
			continue
		}
		var exit cli.ExitStatus
		if !errors.As(err, &exit) {
			out = err.Error()
		}
		if !strings.Contains(out, want) || strings.Contains(out, "NICS") {
			t.Errorf("%s: %s, want %s", line, out, want)
		}
	}
}

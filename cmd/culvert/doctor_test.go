package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api"
)

// TestDoctor examines the machine that the test runs on, whatever it is, with
// a culvertd that answers.
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
	var exit exitError
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

package vf

import "testing"

// A count that has fallen is of a device that was made anew, and has risen from 0. So no error is
// lost, and none is counted twice.
func TestErrorsSince(t *testing.T) {
	before := ErrorCounts{Correctable: 5, Nonfatal: 5, Fatal: 5, TxTimeouts: 5}
	for _, tt := range []struct {
		name      string
		now, want ErrorCounts
	}{
		{"nothing new", before, ErrorCounts{}},
		{"each has risen by another number", ErrorCounts{6, 7, 8, 9}, ErrorCounts{1, 2, 3, 4}},
		{"each was made anew", ErrorCounts{1, 2, 3, 4}, ErrorCounts{1, 2, 3, 4}},
		{"the netdevice alone was made anew", ErrorCounts{5, 5, 6, 0}, ErrorCounts{0, 0, 1, 0}},
	} {
		if got := tt.now.Since(before); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	sum := ErrorCounts{1, 2, 3, 4}.Plus(ErrorCounts{10, 20, 30, 40})
	if want := (ErrorCounts{11, 22, 33, 44}); sum != want {
		t.Errorf("sum %+v, want %+v", sum, want)
	}
}

// Each kind of fault has a text of its own. A fault of a later version has its name in the text.
func TestFaultsAreDescribed(t *testing.T) {
	unknown := Fault("Overheated").Describe()
	if unknown != "had errors (Overheated)" {
		t.Errorf("an unknown fault: %q", unknown)
	}
	seen := map[string]Fault{}
	for _, f := range Faults() {
		text := f.Describe()
		if other, twice := seen[text]; twice || text == "had errors ("+string(f)+")" {
			t.Errorf("%s: %q, as %s", f, text, other)
		}
		seen[text] = f
	}
}

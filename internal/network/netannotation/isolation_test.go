package netannotation

import "testing"

// I9: culvertd enforces this rule of namespace isolation, and culvert doctor lists the pods that it refuses.
func TestI9MayUse(t *testing.T) {
	for _, tc := range []struct {
		network, admits string
		want            bool
	}{
		{"d", "", true},
		{"shared", "", true},
		{"other", "", false},
		{"other", "x, d", true},
		{"other", "*", true},
		{"other", "dd,x", false},
		{"other", "d*", false},
		{"other", ",", false},
	} {
		if got := MayUse("d", tc.network, map[string]string{Namespaces: tc.admits}, []string{"shared"}); got != tc.want {
			t.Errorf("network of %s that admits %q: %v, want %v", tc.network, tc.admits, got, tc.want)
		}
	}
	if MayUse("d", "default", nil, nil) {
		t.Error("a namespace is global that the administrator did not name")
	}
	if !MayUse("d", "default", nil, DefaultGlobal()) {
		t.Error("namespace default is not global where the administrator names none, as by Multus' namespaceIsolation")
	}
}

// The annotation of a network is its author's text, and Admit's result goes into a shell.
func TestAdmit(t *testing.T) {
	for before, want := range map[string]string{
		"":                        "a,d",
		"x, d":                    "a,d,x",
		"x;reboot,$(reboot),-o,*": "a,d",
		"x\nreboot,X":             "a,d",
	} {
		if got := Admit(map[string]string{Namespaces: before}, []string{"d", "a", "d"}); got != want {
			t.Errorf("%q: %q, want %q", before, got, want)
		}
	}
}

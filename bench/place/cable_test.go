package place

import "testing"

func TestCable(t *testing.T) {
	node := func(m string) Spec { return Spec{Kind: Lab, Machine: m} }
	for _, c := range []struct {
		specs []Spec
		want  bool
	}{
		{nil, false},
		{[]Spec{node("a/worker01"), node("a/worker02")}, true},
		{[]Spec{node("a/worker01"), node("b/worker01")}, false},
		{[]Spec{node("a/worker01"), {Kind: Host}}, false},
	} {
		if got := Cable(c.specs) != nil; got != c.want {
			t.Errorf("%v: %v", c.specs, got)
		}
	}
	if err := Cable([]Spec{node("no-such-lab/worker01")})(t.Context(), "worker01", "", true); err == nil {
		t.Error("the cable of nothing was pulled")
	}
}

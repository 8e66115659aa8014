package netannotation

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// The networks of every pod come first. A pod of a system namespace has only its own.
func TestEveryPod(t *testing.T) {
	e, err := ParseEveryPod([]string{"a", " infra/b@lan "}, []string{"kube-system"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ namespace, annotation, want string }{
		{"d", "", "kube-system/a infra/b@lan"},
		{"d", "c,x/c", "kube-system/a infra/b@lan d/c x/c"},
		{"kube-system", "c", "kube-system/c"},
		{"culvert-system", "", "kube-system/a infra/b@lan"}, // not named as one
	} {
		got, err := e.Parse(tc.annotation, tc.namespace)
		var names []string
		for _, element := range got {
			names = append(names, element.String())
			if isOurs := element.Name != "c"; element.ForEveryPod != isOurs {
				t.Errorf("%s: ForEveryPod is %t", element, element.ForEveryPod)
			}
		}
		if strings.Join(names, " ") != tc.want || err != nil {
			t.Errorf("%s %q: %q, %v", tc.namespace, tc.annotation, names, err)
		}
	}
	if _, err := e.Parse("a@b@c", "d"); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("a wrong annotation: %v", err)
	}
	for _, names := range [][]string{{"/etc/cni/net.d/a.conf"}, {"A"}, {"a", ""}, {"a@x", "b@x"}, strings.Split(strings.Repeat("a,", MaxElements)+"a", ",")} {
		if _, err := ParseEveryPod(names, nil); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%q: %v", names, err)
		}
	}
	for _, namespace := range DefaultSystemNamespaces() {
		e, err := ParseEveryPod([]string{"a"}, DefaultSystemNamespaces())
		if got, perr := e.Parse("", namespace); err != nil || perr != nil || len(got) > 0 {
			t.Errorf("%s: %v, %v, %v", namespace, got, err, perr)
		}
	}
	if e, err := ParseEveryPod(nil, nil); err != nil || len(e.Networks) > 0 {
		t.Errorf("none: %v, %v", e, err)
	}
}

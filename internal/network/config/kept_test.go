package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

func TestKept(t *testing.T) {
	text := func(ipam string, size int) string {
		return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"n","type":"sriov","vlan":5,"ipam":%s,"note":%q}`, ipam, strings.Repeat("x", size))
	}
	delegated := func(size int) string {
		return fmt.Sprintf(`{"type":"other","more":%q}`, strings.Repeat("y", size))
	}
	for _, tt := range []struct{ name, raw, want string }{
		{"small", text(`{"type":"static"}`, 100), text(`{"type":"static"}`, 100)},
		{"large", text(`{"type":"static"}`, mostKept), `{"cniVersion":"1.0.0","name":"n","type":"sriov"}`},
		{"large, of another plugin", text(delegated(3900), mostKept), `{"cniVersion":"1.0.0","ipam":` + delegated(3900) + `,"name":"n","type":"sriov"}`},
		{"too large", text(delegated(mostKept), 10), ""},
	} {
		c, err := Parse([]byte(tt.raw))
		if err != nil {
			t.Fatal(tt.name, err)
		}
		got, err := c.Kept([]byte(tt.raw))
		if tt.want == "" {
			if !errors.Is(err, vf.ErrInvalid) || !strings.HasPrefix(err.Error(), "ipam: invalid: with args and runtimeConfig it has 4") {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %.200s, %v", tt.name, got, err)
		}
		if again, err := Parse(got); err != nil || again.Name != "n" || again.IPAM.IsDelegated() && again.IPAM.Type != c.IPAM.Type {
			t.Errorf("%s: read again: %v", tt.name, err)
		}
	}
}

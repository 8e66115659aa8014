package floor

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

func TestParseReadsWhatArgsWrites(t *testing.T) {
	for _, w := range []Work{
		Attach{"/run/netns/a", "0000:01:10.0", "net1", netip.MustParsePrefix("172.16.91.200/24"),
			vf.Route{Dst: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("172.16.91.1")}},
		Detach{"/run/netns/a", "net1", "enp2s0v0"},
		Make{"enp2s0", 7, true},
		Make{"enp2s0", 0, false},
		Nothing{},
	} {
		if got, err := Parse(w.Args()); err != nil || got != w {
			t.Errorf("%v is read as %+v, %v; want %+v", w.Args(), got, err, w)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for args, says := range map[string]string{
		"":                         "attach NETNS",
		"make enp2s0 1":            "2 arguments",
		"make enp2s0 many on":      "many",
		"make enp2s0 1 yes":        `"yes"`,
		"nothing more":             "1 arguments",
		"attach /n 1 net1 a b c":   "parse",
		"attach /n 1 net1 1.2.3.4": "4 arguments",
		"detach /n net1":           "detach NETNS",
	} {
		if got, err := Parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("floor %s: %+v, %v; want an error that says %q", args, got, err, says)
		}
	}
}

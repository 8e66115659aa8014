package cni

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/netconf"
)

// JudgeAdd foretells the ADD: it refuses what Handler refuses before it chooses a VF, in the same
// words, and returns the warnings that the pod's event has.
func TestJudgeAddForetellsTheADD(t *testing.T) {
	for name, tc := range map[string]struct {
		args, config string
		refused      bool
		warnings     []string
	}{
		"accepted":                     {"", strict(pool), false, nil},
		"accepted with warnings":       {"", with(`"max-tx-rate":1,` + pool), false, []string{"max-tx-rate 1: unknown key, ignored: did you mean max_tx_rate?"}},
		"a wrong value":                {"", strict(`"vlan":5000`), true, nil},
		"wrong arguments":              {"MAC=x", strict(""), true, nil},
		"an address that no range has": {"", strict(`"args":{"cni":{"ips":["10.0.0.x"]}},` + pool), true, nil},
		"an address without ipam":      {"", strict(`"args":{"cni":{"ips":["10.0.0.5"]}}`), true, nil},
		"of a pod, by no capability":   {podArgs, strict(`"args":{"cni":{"ips":["10.0.0.x"]}},` + pool), true, nil},
		"of a pod, without ipam":       {podArgs + ";IP=10.0.0.5", with(`"mtu":1500`), false, []string{"addresses are asked for, and it has no ipam section, so the interface gets none: add one"}},
		"of a pod, by its capability":  {podArgs, strict(`"capabilities":{"ips":true},"args":{"cni":{"ips":["10.0.0.x"]}},` + pool), true, nil},
		"too large":                    {"", strict(`"logFile":"` + strings.Repeat("x", netconf.MaxText) + `"`), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, cluster := invocation(cmdAdd, tc.config), &events{}
			r.Args = tc.args
			warnings, err := JudgeAdd(callOf(r))
			h := New(partsOf(newMemory(1)))
			h.Cluster = cluster
			_, errAdd := h.Run(t.Context(), callOf(r), nil)
			if (err != nil) != tc.refused || fmt.Sprint(err) != fmt.Sprint(errAdd) {
				t.Errorf("JudgeAdd says %v; the ADD says %v", err, errAdd)
			}
			if d := cmp.Diff(tc.warnings, warnings); d != "" {
				t.Errorf("warnings, -want +got\n%s", d)
			}
			reported := func(warning string) bool {
				return slices.ContainsFunc(cluster.texts, func(s string) bool { return strings.HasSuffix(s, " NetworkSettingIgnored network net: "+warning) })
			}
			for _, w := range warnings {
				if !reported(w) {
					t.Errorf("the pod has the events %q, and none of %s", cluster.texts, w)
				}
			}
		})
	}
}

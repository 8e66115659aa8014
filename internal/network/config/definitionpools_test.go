package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
)

// I4: the controller finds the pools of whereabouts networks as whereabouts reads their sections: of
// every plugin, by keys in any case. It finds the ranges of those that Culvert serves.
func TestI4SharedPools(t *testing.T) {
	whereabouts := func(plugin, more string) string {
		return `{"type":"` + plugin + `","ipam":{"type":"whereabouts","range":"10.5.0.0/29"` + more + `}}`
	}
	list := func(plugins ...string) string {
		return `{"cniVersion":"1.0.0","name":"n","plugins":[` + strings.Join(plugins, ",") + `]}`
	}
	const served = "10.5.0.0/29"
	for name, tc := range map[string]struct {
		config string
		want   string
	}{
		"without a network_name":      {whereabouts("sriov", ""), `pools ["whereabouts:"], served ["whereabouts:" ` + served + `]`},
		"with one":                    {whereabouts("culvert", `,"network_name":"blue"`), `pools ["whereabouts:blue"], served ["whereabouts:blue" ` + served + `]`},
		"of another plugin":           {whereabouts("macvlan", `,"network_name":"blue"`), `pools ["whereabouts:blue"], served []`},
		"in another case":             {whereabouts("macvlan", `,"Network_Name":"blue"`), `pools ["whereabouts:blue"], served []`},
		"a list":                      {list(whereabouts("sriov", ""), whereabouts("ipvlan", `,"network_name":"x"`)), `pools ["whereabouts:" "whereabouts:x"], served ["whereabouts:" ` + served + `]`},
		"a range of a file":           {`{"type":"sriov","ipam":{"type":"whereabouts","configuration_path":"/x"}}`, `pools ["whereabouts:"], served []`},
		"culvertd refuses a plugin":   {list(whereabouts("sriov", ""), `{"type":"culvert","vlan":5000}`), `pools ["whereabouts:"], served []`},
		"an AddressPool":              {`{"type":"sriov","ipam":{"type":"culvert","addressPool":"storage"}}`, `pools [], served [], AddressPools ["storage"]`},
		"a range of its own":          {`{"type":"sriov","ipam":{"type":"host-local","subnet":"10.5.0.0/29"}}`, `pools [], served []`},
		"a section that is no object": {`{"type":"macvlan","ipam":"whereabouts"}`, `pools [], served []`},
		"a file":                      {" ", `pools [], served [], a file`},
		"no JSON":                     {"{", `pools [], served [], unread`},
		"a plugin without a type":     {list(whereabouts("sriov", ""), `{"ipam":{}}`), `pools ["whereabouts:"], served [], unread`},
		"too large":                   {strings.Repeat(" ", 1<<20), `pools [], served [], unread`},
	} {
		s := ReadShared(api.NetworkDefinition{Namespace: "red", Name: "n", Config: tc.config})
		var served []string
		for _, c := range s.Whereabouts {
			served = append(served, fmt.Sprintf("%q %s", c.Pool, c.Sets[0][0].Subnet))
		}
		got := fmt.Sprintf("pools %q, served %s", s.Pools, served)
		if len(s.AddressPools) > 0 {
			got += fmt.Sprintf(", AddressPools %q", s.AddressPools)
		}
		if s.IsFile {
			got += ", a file"
		}
		if s.Unread {
			got += ", unread"
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("I4: %s (-want +got):\n%s", name, diff)
		}
	}
}

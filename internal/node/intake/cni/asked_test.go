package cni

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// A request can name addresses in several ways. Culvert reads each of them as host-local 1.9.1 and
// static 1.9.1 do.
func TestAskedAddresses(t *testing.T) {
	const (
		dual   = `"ipam":{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/29"}],[{"subnet":"fd00::/64"}]]}`
		fixed  = `"ipam":{"type":"static","addresses":[{"address":"10.0.0.5/29","gateway":"10.0.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]}`
		bare   = `"ipam":{"type":"static"}`
		ranges = `"capabilities":{"ipRanges":true},"ipam":{"type":"host-local"}`
		args   = `,"args":{"cni":{"ips":["10.0.0.4/29"]}}`
		run    = `,"runtimeConfig":{"ips":["10.0.0.3/29"]}`
	)
	for name, tc := range map[string]struct{ config, args, want string }{
		"none":                         {dual, "", "10.0.0.2/29>10.0.0.1 fd00::2/64>fd00::1"},
		"CNI_ARGS":                     {dual, "IP=10.0.0.5", "10.0.0.5/29>10.0.0.1 fd00::2/64>fd00::1"},
		"a list in CNI_ARGS":           {dual, "IP=10.0.0.5, fd00::7/64", "10.0.0.5/29>10.0.0.1 fd00::7/64>fd00::1"},
		"args":                         {dual + args, "", "10.0.0.4/29>10.0.0.1 fd00::2/64>fd00::1"},
		"the same twice, as of Multus": {dual + run, "IP=10.0.0.3", "10.0.0.3/29>10.0.0.1 fd00::2/64>fd00::1"},
		"one of each set":              {dual + args, "IP=fd00::7", "10.0.0.4/29>10.0.0.1 fd00::7/64>fd00::1"},
		"two of a set":                 {dual + args, "IP=10.0.0.5", "address 10.0.0.4: invalid: 10.0.0.5 is asked for too and an attachment gets one address of range set 0"},
		"no address":                   {dual, "IP=10.0.0.5,x", `requested address "x": invalid: want an IP address, e.g. 172.16.91.5`},
		"static":                       {fixed, "", "10.0.0.5/29>10.0.0.1"},
		"static and CNI_ARGS":          {fixed, "IP=10.0.0.6/29,fd00::7/64;GATEWAY=10.0.0.2,fd00::1", "10.0.0.5/29>10.0.0.2 10.0.0.6/29>10.0.0.2 fd00::7/64>fd00::1"},
		"static and the same address":  {fixed, "IP=10.0.0.5/24", "10.0.0.5/24>"},
		"static, args":                 {fixed + args, "IP=10.0.0.6/29", "10.0.0.4/29>"},
		"static, the runtime":          {fixed + args + run, "", "10.0.0.3/29>"},
		"static without addresses":     {bare, "IP=10.1.0.6/29", "10.1.0.6/29>"},
		"static, and no address":       {bare, "", "network net: invalid: ipam of type static has no address: add addresses to it, or name one in the pod's annotation (ips)"},
		"static, an empty list":        {bare + `,"args":{"cni":{"ips":[]}}`, "IP=", "network net: invalid: ipam of type static has no address: add addresses to it, or name one in the pod's annotation (ips)"},
		"static, no prefix length":     {bare, "IP=10.1.0.6", `requested address "10.1.0.6": invalid: want it with its prefix length, e.g. 172.16.91.5/24`},
		"static, no gateway":           {bare, "IP=10.1.0.6/24;GATEWAY=x", `invalid environment variable CNI_ARGS: GATEWAY: "x": want an IP address, e.g. 172.16.91.1`},
		"no ranges of the runtime":     {ranges, "", "network net: invalid: ipam has no range, and the runtime gave none (runtimeConfig.ipRanges): add a subnet"},
		"a wrong range of the runtime": {ranges + `,"runtimeConfig":{"ipRanges":[[{"subnet":"10.1.0.0/33"}]]}`, "", `runtimeConfig.ipRanges[0][0].subnet: "10.1.0.0/33": want a subnet, e.g. 172.16.91.0/24`},
		"ranges of the runtime":        {ranges + `,"runtimeConfig":{"ipRanges":[[{"subnet":"10.1.0.0/29"}],[{"subnet":"fd01::/64","gateway":"fd01::9"}]]}`, "IP=10.1.0.4", "10.1.0.4/29>10.1.0.1 fd01::1/64>fd01::9"},
	} {
		t.Run(name, func(t *testing.T) {
			r := invocation(cmdAdd, with(tc.config))
			r.Args = tc.args
			if got := givenAddresses(r); got != tc.want {
				t.Errorf(" got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// givenAddresses allocates the addresses of a request and returns them, or the error, as text.
func givenAddresses(r api.CNIRequest) string {
	_, req, err := requestOf(callOf(r))
	var got ipam.Result
	if err == nil {
		got, err = req.IPAM.Allocate(func(netip.Addr) (vf.Owner, bool) { return vf.Owner{}, false }, nil, req.Addresses)
	}
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, a := range got.Addresses {
		via := ""
		if a.Gateway.IsValid() {
			via = a.Gateway.String()
		}
		out = append(out, fmt.Sprintf("%s>%s", a.Prefix, via))
	}
	return strings.Join(out, " ")
}

// Results before 0.3.0 have room for one address of each family.
func TestAskedAddressesOfOldVersions(t *testing.T) {
	for section, want := range map[string]string{
		`{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/29"}],[{"subnet":"fd00::/64"}]]}`:   "10.0.0.2/29>10.0.0.1 fd00::2/64>fd00::1",
		`{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/29"}],[{"subnet":"10.1.0.0/29"}]]}`: "network net: invalid: results of cniVersion 0.2.0 have room for one address of each family: set a later cniVersion",
		`{"type":"static","addresses":[{"address":"10.0.0.5/24"},{"address":"10.0.0.6/24"}]}`:    "network net: invalid: results of cniVersion 0.2.0 have room for one address of each family: set a later cniVersion",
	} {
		r := invocation(cmdAdd, strings.Replace(with(`"ipam":`+section), "1.1.0", "0.2.0", 1))
		if got := givenAddresses(r); got != want {
			t.Errorf("%s\n got %s\nwant %s", section, got, want)
		}
	}
}

// A network of type sriov without ipam ignores the addresses that a request names, like the SR-IOV
// CNI plugin. A network of type culvert refuses the request.
func TestAskedAddressesWithoutIPAM(t *testing.T) {
	c := config.Config{Name: "n", Lenient: true}
	if got, err := parseAddresses(c, []string{"10.0.0.5"}); err != nil || len(got) != 0 || !ignoresIPs(c) {
		t.Errorf("%v, %v", got, err)
	}
	c.Lenient = false
	if got, err := parseAddresses(c, []string{"10.0.0.5"}); !errors.Is(err, vf.ErrInvalid) || ignoresIPs(c) {
		t.Errorf("%v, %v", got, err)
	}
}

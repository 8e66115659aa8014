package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// answerWith is a shim whose plugin gives one answer.
func answerWith(out api.PluginResponse) Ask {
	return func(_ context.Context, _ string, _, result any) error {
		if to, ok := result.(*api.PluginResponse); ok {
			*to = out
		}
		return nil
	}
}

// The error of a plugin of another project names the plugin, the command and the plugin's reason:
// its error object, else its standard error, else its standard output.
func TestPluginRefusalHasItsReason(t *testing.T) {
	for name, tc := range map[string]struct {
		out  api.PluginResponse
		want string
		code uint // of the answer to the runtime
	}{
		"success":           {api.PluginResponse{Stdout: []byte("{}"), Stderr: []byte("debug")}, "<nil>", api.CNIInternal},
		"an error object":   {api.PluginResponse{Exit: 1, Stdout: []byte(`{"code":117,"msg":"no range left","details":"ask the admin"}`), Stderr: []byte("trace")}, "plugin x: ADD: no range left; ask the admin", 117},
		"without its code":  {api.PluginResponse{Exit: 1, Stdout: []byte(`{"msg":"no range left"}`)}, "plugin x: ADD: no range left", api.CNIInternal},
		"without a message": {api.PluginResponse{Exit: 3, Stdout: []byte(`{"code":117}`), Stderr: []byte(" panic: nil map\n")}, `plugin x: ADD: exit status 3: "panic: nil map"`, api.CNIInternal},
		"on standard error": {api.PluginResponse{Exit: 2, Stdout: []byte("usage"), Stderr: []byte("flag -x\x1b[2J")}, `plugin x: ADD: exit status 2: "flag -x\x1b[2J"`, api.CNIInternal},
		"on standard out":   {api.PluginResponse{Exit: 2, Stdout: []byte("usage"), Stderr: []byte(" \n")}, `plugin x: ADD: exit status 2: "usage"`, api.CNIInternal},
		"nothing":           {api.PluginResponse{Exit: 127}, `plugin x: ADD: exit status 127: ""`, api.CNIInternal},
		"much":              {api.PluginResponse{Exit: 1, Stderr: []byte(strings.Repeat("y", 9000))}, `plugin x: ADD: exit status 1: "` + strings.Repeat("y", 500) + `"`, api.CNIInternal},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := RunPlugin(t.Context(), answerWith(tc.out), "x", api.CNIRequest{Command: cmdAdd})
			if got := fmt.Sprint(err); got != tc.want {
				t.Errorf(" got %s\nwant %s", got, tc.want)
			}
			if err == nil {
				return
			}
			var answer api.CNIError
			if err := json.Unmarshal(Failure("1.0.0", err).Stdout, &answer); err != nil || answer.Code != tc.code {
				t.Errorf("code %d, want %d, %v", answer.Code, tc.code, err)
			}
		})
	}
}

// The runtime gets the plugin's own code and details. Only STATUS has the code that the
// specification has for it.
func TestPluginCodeReachesTheRuntime(t *testing.T) {
	theirs := &types.Error{Code: 117, Msg: "no range left", Details: "ask the admin"}
	for want, err := range map[string]error{
		"117 plugin x: ADD: no range left; ask the admin (ask the admin)":                                            fmt.Errorf("plugin x: ADD: %w", theirs),
		"50 unavailable: plugin x: STATUS: no range left; ask the admin (culvert status says what is missing)":       fmt.Errorf("%w: plugin x: STATUS: %w", ErrUnavailable, theirs),
		"11 plugin x: ADD: not ready: no runtime waits for the answer (culvert status says what culvertd waits for)": fmt.Errorf("plugin x: ADD: %w: no runtime waits for the answer", vf.ErrNotReady),
	} {
		if got := refused(t, Failure("1.0.0", err)); got != want {
			t.Errorf(" got %s\nwant %s", got, want)
		}
	}
}

// A plugin of another project runs where the shim is. Culvert refuses a caller that is no shim with
// an error that lets it try again.
func TestPluginNeedsARuntime(t *testing.T) {
	d := newDelegates(t, lease1)
	r := invocation(cmdAdd, borrowed)
	_, err := d.h.Run(t.Context(), callOf(r), nil)
	const want = "plugin whereabouts2: ADD: not ready: no runtime waits for the answer that could run it"
	if !errors.Is(err, vf.ErrNotReady) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// The addresses and routes of an IPAM plugin's result become the VF's as they are, with their
// prefix lengths, tables and scopes. A destination loses the bits past its prefix length.
func TestDelegatedResult(t *testing.T) {
	const result = `{"cniVersion":"1.1.0","ips":[{"address":"10.5.0.7/24","gateway":"10.5.0.1"},{"address":"::ffff:10.6.0.7/120"},{"address":"fd05::7/64"}],
		"routes":[{"dst":"10.7.0.9/16"},{"dst":"fd06::/32","gw":"fd05::1","mtu":1400,"advmss":1300,"priority":7,"table":100,"scope":253}],
		"dns":{"nameservers":["10.5.0.53"],"search":["a.b"]}}`
	section, dns, err := parseDelegated([]byte(result), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	want := ipam.Config{
		Type: ipam.TypeStatic, Scope: ipam.ScopeNode, Lenient: true,
		Static: []vf.Address{
			{Prefix: netip.MustParsePrefix("10.5.0.7/24"), Gateway: netip.MustParseAddr("10.5.0.1")},
			{Prefix: netip.MustParsePrefix("10.6.0.7/24")}, {Prefix: netip.MustParsePrefix("fd05::7/64")},
		},
		Routes: []vf.Route{
			{Dst: netip.MustParsePrefix("10.7.0.0/16")},
			{Dst: netip.MustParsePrefix("fd06::/32"), Gateway: netip.MustParseAddr("fd05::1"), MTU: 1400, AdvMSS: 1300, Priority: 7, Table: 100, Scope: 253},
		},
	}
	if d := cmp.Diff(want, section, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if d := cmp.Diff(ipam.DNS{Nameservers: []string{"10.5.0.53"}, Search: []string{"a.b"}}, dns); d != "" {
		t.Errorf("DNS, -want +got\n%s", d)
	}
}

// The answer of an IPAM plugin is foreign text. Culvert refuses a result that it cannot use, and
// the error names the part that is wrong.
func TestDelegatedResultIsRefused(t *testing.T) {
	for result, want := range map[string]string{
		strings.Repeat(" ", netconf.MaxText+1): "the network configuration: invalid: it has 65537 bytes; want at most 65536",
		`[]`:                                   "invalid: not a result: ",
		`{"ips":[]}`:                           "invalid: it has no address",
		`{"ips":[{"address":"10.5.0.7/24"}],"routes":[{}]}`:                                                                       "invalid: route <nil>: want a destination with its prefix length",
		`{"ips":[` + strings.Repeat(`{"address":"10.5.0.7/24"},`, 64) + `{"address":"10.5.0.8/24"}]}`:                             "invalid: it has 65 addresses; want at most 64",
		`{"ips":[{"address":"10.5.0.7/24"}],"routes":[` + strings.Repeat(`{"dst":"10.0.0.0/8"},`, 256) + `{"dst":"10.0.0.0/8"}]}`: "invalid: it has 257 routes; want at most 256",
		`{"ips":[{"gateway":"10.5.0.1"}]}`:                                                                                        "invalid: address <nil>: want one with its prefix length",
		`{"ips":[{"address":"10.5.0.7/24"}],"routes":[{"dst":"x/8"}]}`:                                                            "invalid: not a result: ",
	} {
		_, _, err := parseDelegated([]byte(result), "1.0.0")
		if !errors.Is(err, vf.ErrInvalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.100s\n got %v\nwant %s", result, err, want)
		}
	}
}

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// allParts is a fake of all parts of a node.
type allParts interface {
	engine
	resets
	leases
}

func partsOf(w allParts) Parts { return Parts{Engine: w, Resets: w, VFs: w} }

func serve(t *testing.T, e allParts, r api.CNIRequest) api.CNIResponse {
	t.Helper()
	params, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	v, err := New(partsOf(e)).Serve(t.Context(), params, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, ok := v.(api.CNIResponse)
	if !ok {
		t.Fatalf("Serve returned a %T", v)
	}
	return resp
}

// invocation returns a request for interface net1 of container c1.
func invocation(command, config string) api.CNIRequest {
	return api.CNIRequest{Command: command, ContainerID: "c1", IfName: "net1", Netns: "/run/netns/x", Config: []byte(config)}
}

// callOf returns the call of a request.
func callOf(r api.CNIRequest) Call { return NewCall(r, ParseArguments(r.Args)) }

// with makes a configuration of version 1.1.0 with more keys.
func with(keys string) string {
	if keys != "" {
		keys = "," + keys
	}
	return `{"cniVersion":"1.1.0","name":"net","type":"sriov"` + keys + `}`
}

// strict is with for a network of type culvert.
func strict(keys string) string {
	return strings.Replace(with(keys), `"type":"sriov"`, `"type":"culvert"`, 1)
}

// refused returns an error answer as "code msg (details)".
func refused(t *testing.T, resp api.CNIResponse) string {
	t.Helper()
	if resp.Exit == 0 {
		return "success " + string(resp.Stdout)
	}
	var e api.CNIError
	if err := json.Unmarshal(resp.Stdout, &e); err != nil {
		t.Fatalf("%s: %v", resp.Stdout, err)
	}
	return fmt.Sprintf("%d %s (%s)", e.Code, e.Msg, e.Details)
}

const pool = `"ipam":{"type":"host-local","subnet":"10.0.0.0/29"}`

func TestErrorsHaveTheirCodes(t *testing.T) {
	const correct = "(correct the network configuration)"
	held := newMemory(2)
	serve(t, held, api.CNIRequest{Command: cmdAdd, ContainerID: "c0", IfName: "net1", Netns: "/n", Args: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=a", Config: []byte(with(pool))})
	for name, tc := range map[string]struct {
		engine allParts
		r      api.CNIRequest
		want   string
	}{
		"version":         {nil, invocation(cmdAdd, `{"cniVersion":"2.0.0","name":"n","type":"sriov"}`), `1 cniVersion "2.0.0": not served; want one of 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0 (set cniVersion in the network configuration)`},
		"unknown key":     {nil, invocation(cmdAdd, strict(`"max-tx-rate":100`)), "2 max-tx-rate: did you mean max_tx_rate? (unknown key, value 100) (take the key out of the network configuration, or correct it)"},
		"and more":        {nil, invocation(cmdAdd, strict(`"max-tx-rate":100,"mtu":1`)), "7 max-tx-rate: did you mean max_tx_rate? (unknown key, value 100); mtu 1: want a number between 68 and 65535 " + correct},
		"command":         {nil, invocation("PUT", with("")), `4 invalid environment variable CNI_COMMAND "PUT": want ADD, DEL, CHECK, GC, STATUS or VERSION (the container runtime sets it; see the CNI specification, section 2)`},
		"container":       {nil, api.CNIRequest{Command: cmdDel, IfName: "net1"}, `4 invalid environment variable CNI_CONTAINERID "": want a letter or digit, then letters, digits, '_', '.' and '-', at most 253 (the container runtime sets it; see the CNI specification, section 2)`},
		"not JSON":        {nil, invocation(cmdAdd, "nonsense"), "6 not a configuration: configuration nonsense: not JSON: invalid character 'o' in literal null (expecting 'u') at byte 2 " + correct},
		"arguments":       {nil, func() api.CNIRequest { r := invocation(cmdAdd, with("")); r.Args = "MAC=x"; return r }(), `4 invalid environment variable CNI_ARGS: MAC: MAC address "x": want six bytes in hexadecimal, e.g. 02:00:5e:10:00:01 (the container runtime sets it; see the CNI specification, section 2)`},
		"no ipam":         {nil, invocation(cmdAdd, with(`"strict":true,"args":{"cni":{"ips":["10.0.0.5"]}}`)), `7 requested address "10.0.0.5": invalid: network net has no ipam section; add one whose range has the address ` + correct},
		"static, bare":    {nil, invocation(cmdAdd, with(`"args":{"cni":{"ips":["10.0.0.5"]}},"ipam":{"type":"static"}`)), `7 requested address "10.0.0.5": invalid: want it with its prefix length, e.g. 172.16.91.5/24 ` + correct},
		"name taken":      {nil, invocation(cmdAdd, with(`"prevResult":{"interfaces":[{"name":"net1","sandbox":"/run/netns/x"}]}`)), `7 CNI_IFNAME net1: invalid: a plugin before this one in network net made an interface of that name; attach network net by itself ` + correct},
		"nothing free":    {newMemory(0), invocation(cmdAdd, with("")), "100 pool test: 0 of 0 VFs are held: nothing free (culvert pool list says who holds what)"},
		"VF held":         {held, invocation(cmdAdd, with(`"deviceID":"01:10.0"`)), "101 VF 0000:01:10.0: held by pod default/a (culvert vf list says who holds what)"},
		"address held":    {held, invocation(cmdAdd, with(pool+`,"runtimeConfig":{"ips":["10.0.0.2"]}`)), "101 address 10.0.0.2: held by pod default/a (culvert vf list says who holds what)"},
		"no such VF":      {held, invocation(cmdAdd, with(`"deviceID":"01:11.0"`)), "103 VF 0000:01:11.0: not found (culvert pool list and culvert vf list show what there is)"},
		"unable":          {broken(fmt.Errorf("trust: %w: PF enp1s0 (driver igb) can set mac, vlan", vf.ErrUnable)), invocation(cmdAdd, with("")), "102 trust: not supported by the driver: PF enp1s0 (driver igb) can set mac, vlan (take the setting out of the network, or use a NIC whose driver has it; culvert vf show lists what it can do)"},
		"not ready":       {broken(vf.ErrNotReady), invocation(cmdAdd, with("")), "11 not ready (culvert status says what culvertd waits for)"},
		"timeout":         {broken(vf.ErrTimeout), invocation(cmdAdd, with("")), "11 timed out (the kernel was too slow; culvert events and dmesg say where it hung)"},
		"cancelled":       {broken(context.Canceled), invocation(cmdAdd, with("")), "11 context canceled (the runtime gave up, or culvertd was stopped)"},
		"anything":        {broken(errors.New("disk full")), invocation(cmdAdd, with("")), "999 disk full (see journalctl -u culvertd)"},
		"status":          {broken(fmt.Errorf("no VF yet: %w", vf.ErrNotReady)), invocation(cmdStatus, with("")), "50 unavailable: no VF yet: not ready (culvert status says what is missing)"},
		"status, key":     {nil, invocation(cmdStatus, strict(`"max-tx-rate":100`)), "2 max-tx-rate: did you mean max_tx_rate? (unknown key, value 100) (take the key out of the network configuration, or correct it)"},
		"GC, blind":       {nil, invocation(cmdGC, with("")), "7 cni.dev/valid-attachments: invalid: missing; without it GC would take every VF of network net from its owner " + correct},
		"GC, old":         {nil, invocation(cmdGC, strings.Replace(with(`"cni.dev/valid-attachments":[]`), "1.1.0", "1.0.0", 1)), `1 cniVersion "1.0.0": not served for GC; want 1.1.0 (set cniVersion in the network configuration)`},
		"CHECK, old":      {nil, invocation(cmdCheck, strings.Replace(with(""), "1.1.0", "0.3.1", 1)), `1 cniVersion "0.3.1": not served for CHECK; want 0.4.0 or later (set cniVersion in the network configuration)`},
		"CHECK, blind":    {nil, invocation(cmdCheck, with("")), "7 prevResult: invalid: CHECK wants the result of the ADD " + correct},
		"CHECK, nobody":   {newMemory(1), invocation(cmdCheck, with(`"prevResult":{"interfaces":[{"name":"net1","sandbox":"/run/netns/x"}]}`)), "3 unknown container: container c1 has no VF as net1: not found (the attachment is gone; delete the pod or add the attachment again)"},
		"GC, not JSON":    {nil, invocation(cmdGC, "{"), "6 not a configuration: configuration {: not JSON: unexpected end of JSON input at byte 1 " + correct},
		"DEL, unknown":    {broken(fmt.Errorf("container c1 has no VF as net1: %w", vf.ErrNotFound)), invocation(cmdDel, with("")), "success "},
		"bond, held":      {broken(vf.ErrNothingFree), invocation(cmdAdd, strict(`"bond":{}`)), "100 nothing free (culvert pool list says who holds what)"},
		"CHECK, odd MAC":  {newMemory(1), invocation(cmdCheck, with(`"prevResult":{"interfaces":[{"name":"net1","mac":"x"}]}`)), `7 prevResult.interfaces[0].mac: invalid: MAC address "x": want six bytes in hexadecimal, e.g. 02:00:5e:10:00:01 ` + correct},
		"DEL, broken":     {broken(errors.New("disk full")), invocation(cmdDel, with("")), "999 disk full (see journalctl -u culvertd)"},
		"no netns":        {nil, api.CNIRequest{Command: cmdAdd, ContainerID: "c1", IfName: "net1", Config: []byte(with(""))}, `4 invalid environment variable CNI_NETNS "": want the path of a network namespace, e.g. /run/netns/pod (the container runtime sets it; see the CNI specification, section 2)`},
		"CHECK, no netns": {nil, api.CNIRequest{Command: cmdCheck, ContainerID: "c1", IfName: "net1", Config: []byte(with(""))}, `4 invalid environment variable CNI_NETNS "": want the path of a network namespace, e.g. /run/netns/pod (the container runtime sets it; see the CNI specification, section 2)`},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, refused(t, serve(t, tc.engine, tc.r))); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// The ADD of a network with a guard fails while the power of the pod's containers is not known,
// since the lease keeps it. Other ADDs do not depend on the pod: they only leave out its event.
func TestPodThatIsNotKnown(t *testing.T) {
	for keys, want := range map[string]string{
		`"guard":"ip",` + pool:    "pod d/a: not ready",
		`"max-tx-rate":1,` + pool: "<nil>",
		`"guard":"","vlan":5`:     "<nil>",
	} {
		h := New(partsOf(newMemory(1)))
		h.Cluster = &clusterObjects{down: true, networks: map[string]string{"red/net": with(keys)}}
		r := invocation(cmdAdd, with(keys))
		r.Definition, r.Args = "red/net", podArgs
		if _, err := h.Run(t.Context(), callOf(r), nil); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
}

// A network of type sriov takes all that the SR-IOV CNI plugin takes. An event of the pod reports the
// keys that are ignored, and the addresses that the interface does not get.
func TestIgnoredSettingsBecomeEvents(t *testing.T) {
	const (
		keys      = "u1 NetworkSettingIgnored network net: VLAN 5: read as vlan: write it so; max-tx-rate 1: unknown key, ignored: did you mean max_tx_rate?"
		addresses = "addresses are asked for, and it has no ipam section, so the interface gets none: add one"
		none      = "u1 NetworkSettingIgnored network net: " + addresses
	)
	for name, tc := range map[string]struct {
		config string
		want   []string
	}{
		"nothing":                 {with(pool), nil},
		"unknown keys":            {with(`"max-tx-rate":1,"VLAN":5`), []string{keys}},
		"addresses without ipam":  {with(`"capabilities":{"ips":true},"runtimeConfig":{"ips":["10.0.0.5"]}`), []string{none}},
		"addresses of the author": {with(`"capabilities":{"ips":true},"max-tx-rate":1,"VLAN":5,"args":{"cni":{"ips":["10.0.0.5"]}}`), []string{keys + "; " + addresses}},
	} {
		h, cluster := New(partsOf(newMemory(1))), &clusterObjects{}
		h.Cluster = cluster
		r := invocation(cmdAdd, tc.config)
		r.Args = podArgs
		if _, err := h.Run(t.Context(), callOf(r), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(tc.want, cluster.texts); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
}

// Params that no shim sends are an error of the call, since they name no version to answer in.
func TestServeRefusesOtherParams(t *testing.T) {
	for params, want := range map[string]string{
		`{"command":7}`: "CNI request: invalid: json: cannot unmarshal number",
		``:              "CNI request: invalid: unexpected end of JSON input",
	} {
		v, err := New(partsOf(newMemory(1))).Serve(t.Context(), []byte(params), nil)
		if v != nil || !errors.Is(err, vf.ErrInvalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", params, v, err, want)
		}
	}
}

func broken(err error) *memory {
	m := newMemory(1)
	m.broken = err
	return m
}

func TestErrorsAreInTheConfigurationsVersion(t *testing.T) {
	for config, want := range map[string]string{
		`{"cniVersion":"0.4.0"}`: "0.4.0", `{"cniVersion":"9.9.9"}`: "9.9.9", `{}`: api.CNINewest, `nonsense`: api.CNINewest,
	} {
		var e api.CNIError
		if err := json.Unmarshal(serve(t, nil, invocation(cmdAdd, config)).Stdout, &e); err != nil || e.CNIVersion != want {
			t.Errorf("%s: %q, %v", config, e.CNIVersion, err)
		}
	}
}

// I8: DEL succeeds and prints nothing in any state of the configuration, the netns and
// the attachment.
func TestI8DelNeedsNothingButTheName(t *testing.T) {
	for name, r := range map[string]api.CNIRequest{
		"as it was":             invocation(cmdDel, with(pool)),
		"no netns":              {ContainerID: "c1", IfName: "net1", Config: []byte(with(pool))},
		"unknown keys":          invocation(cmdDel, with(`"max-tx-rate":1`)),
		"another version":       invocation(cmdDel, `{"cniVersion":"7.0.0"}`),
		"no configuration":      {ContainerID: "c1", IfName: "net1"},
		"not JSON":              invocation(cmdDel, `{{{`),
		"bad arguments":         {ContainerID: "c1", IfName: "net1", Args: "nonsense"},
		"a netns that is wrong": {ContainerID: "c1", IfName: "net1", Netns: "relative"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newMemory(1)
			if resp := serve(t, e, invocation(cmdAdd, with(pool))); resp.Exit != 0 {
				t.Fatalf("%s", resp.Stdout)
			}
			r.Command = cmdDel
			for _, when := range []string{"first", "again"} {
				resp := serve(t, e, r)
				if d := cmp.Diff(api.CNIResponse{}, resp); d != "" {
					t.Errorf("%s: -want +got\n%s", when, d)
				}
				if e.String() != "" {
					t.Errorf("%s: left:\n%s", when, e)
				}
			}
		})
	}
}

func TestCheckComparesWithPrevResult(t *testing.T) {
	e := newMemory(1)
	add := serve(t, e, invocation(cmdAdd, with(pool)))
	check := func(prev, more string) string {
		return refused(t, serve(t, e, invocation(cmdCheck, with(pool+`,"prevResult":`+prev+more))))
	}
	made := string(add.Stdout)
	if got := check(made, ""); got != "success " {
		t.Errorf("right after ADD: %s", got)
	}
	for name, tc := range map[string]struct{ prev, more, want string }{
		"another address":         {strings.Replace(made, "10.0.0.2", "10.0.0.3", 1), "", "104 not as it was attached: addresses are [{10.0.0.2/29 10.0.0.1}], not [{10.0.0.3/29 10.0.0.1}]"},
		"another interface":       {strings.Replace(made, "net1", "net2", 1), "", "104 not as it was attached: prevResult has no interface net1 in /run/netns/x"},
		"another MAC":             {strings.Replace(made, "02:00:00:00:00:00", "02:00:00:00:00:99", 1), "", "104 not as it was attached: link mac is 02:00:00:00:00:00, not 02:00:00:00:00:99"},
		"an address that is none": {strings.Replace(made, `"address": "10.0.0.2/29",`, "", 1), "", "7 prevResult "},
		"address asked for":       {made, `,"runtimeConfig":{"ips":["10.0.0.5"]}`, "104 not as it was attached: address 10.0.0.5 was asked for, and prevResult does not have it"},
	} {
		if got := check(tc.prev, tc.more); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
	others := strings.Replace(made, `"ips": [`, `"ips": [{"address":"192.168.1.9/24"},{"address":"192.168.2.9/24","interface":7},`, 1)
	if got := check(others, ""); got != "success " || others == made {
		t.Errorf("addresses of other interfaces count: %s\n%s", got, others)
	}
	if got := check(strings.Replace(made, "net1", "net2", 1), `,"disableCheck":true`); got != "success " {
		t.Errorf("disableCheck: %s", got)
	}
}

func TestGCKeepsTheValidAndOtherNetworks(t *testing.T) {
	e := newMemory(4)
	for i, network := range []string{"net", "net", "other"} {
		config := strings.Replace(with(""), `"net"`, `"`+network+`"`, 1)
		resp := serve(t, e, api.CNIRequest{Command: cmdAdd, ContainerID: fmt.Sprintf("c%d", i), IfName: "net1", Netns: "/n", Config: []byte(config)})
		if resp.Exit != 0 {
			t.Fatalf("%s", resp.Stdout)
		}
	}
	gc := func(more string) string {
		return refused(t, serve(t, e, api.CNIRequest{Command: cmdGC, Config: []byte(with(more))}))
	}
	if got := gc(`"cni.dev/valid-attachments":[],"disableGC":true`); got != "success " || strings.Count(e.String(), "\n") != 3 {
		t.Errorf("disableGC: %s, left\n%s", got, e)
	}
	if got := gc(`"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"net1"}]`); got != "success " {
		t.Error(got)
	}
	want := "0000:01:10.1 net: container c1 net1\n0000:01:10.2 other: container c2 net1\n"
	if d := cmp.Diff(want, e.String()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestMACPrecedence(t *testing.T) {
	const config, args, runtime = `"mac":"02:00:00:00:00:01"`, "MAC=02:00:00:00:00:02", `"runtimeConfig":{"mac":"02:00:00:00:00:03"}`
	for name, tc := range map[string]struct{ config, args, want string }{
		"configuration": {config, "", "02:00:00:00:00:01"},
		"CNI_ARGS":      {config, args, "02:00:00:00:00:02"},
		"runtimeConfig": {config + "," + runtime, args, "02:00:00:00:00:03"},
	} {
		r := invocation(cmdAdd, with(tc.config))
		r.Args = tc.args
		if resp := serve(t, newMemory(1), r); !strings.Contains(string(resp.Stdout), tc.want) {
			t.Errorf("%s: %s", name, resp.Stdout)
		}
	}
}

// BenchmarkServe measures what the intake adds to the time of an attach and a detach.
func BenchmarkServe(b *testing.B) {
	h := New(partsOf(newMemory(1)))
	add, err := json.Marshal(invocation(cmdAdd, strings.ReplaceAll(strings.Replace(whole, "MORE", "", 1), "VERSION", api.CNINewest)))
	if err != nil {
		b.Fatal(err)
	}
	del, err := json.Marshal(invocation(cmdDel, with("")))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, params := range [][]byte{add, del} {
			v, err := h.Serve(b.Context(), params, nil)
			if resp, ok := v.(api.CNIResponse); err != nil || !ok || resp.Exit != 0 {
				b.Fatalf("%v, %s", err, resp.Stdout)
			}
		}
	}
}

// An ADD whose configuration is too large for the ledger, so that the DEL of its IPAM plugin would
// be forgotten, fails before a VF is taken.
func TestConfigurationTooLargeToKeep(t *testing.T) {
	e := newMemory(1)
	got := refused(t, serve(t, e, invocation(cmdAdd, with(`"ipam":{"type":"whereabouts","x":"`+strings.Repeat("a", 20<<10)+`"}`))))
	if !strings.Contains(got, "culvertd keeps at most 4096 for the DEL of the plugin whereabouts: shorten it") || e.String() != "" {
		t.Errorf("%s, left %q", got, e)
	}
}

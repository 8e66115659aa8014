package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/journal"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s: -want +got\n%s", path, d)
	}
}

// whole is a network that fills every part of a result.
const whole = `{"cniVersion":"VERSION","name":"net","type":"sriov","mac":"02:00:00:00:00:01",
	"ipam":{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"fd00::/64"}]],
	"routes":[{"dst":"0.0.0.0/0"},{"dst":"fd01::/16","gw":"fd00::9","mtu":1400,"priority":7}],
	"dns":{"nameservers":["10.0.0.53"],"search":["a.b"]}} MORE}`

const previous = `,"prevResult":{"cniVersion":"VERSION","interfaces":[{"name":"eth0","sandbox":"/run/netns/x"}],
	"ips":[{"version":"4","interface":0,"address":"192.168.1.9/24"}],"dns":{"nameservers":["192.168.1.1"]}}`

func TestResultOfEveryVersion(t *testing.T) {
	for _, version := range api.CNIVersions() {
		for name, tc := range map[string]struct {
			more string
			vfio bool
		}{"result": {}, "chained": {more: previous}, "vfio": {vfio: true}} {
			t.Run(name+"-"+version, func(t *testing.T) {
				raw := strings.ReplaceAll(strings.Replace(whole, "MORE", tc.more, 1), "VERSION", version)
				if tc.vfio {
					raw = `{"cniVersion":"` + version + `","name":"net","type":"sriov","mac":"02:00:00:00:00:01"}`
				}
				e := newMemory(1)
				e.vfio = tc.vfio
				resp := serve(t, e, api.CNIRequest{Command: cmdAdd, ContainerID: "c1", IfName: "net1", Netns: "/run/netns/x", Config: []byte(raw)})
				if resp.Exit != 0 {
					t.Fatalf("%s", resp.Stdout)
				}
				golden(t, name+"-"+version+".json", resp.Stdout)
			})
		}
	}
}

// The routes of a network keep all attributes that their author sets, if the version of the
// specification has room for them.
func TestRoutesOfAResult(t *testing.T) {
	for version, want := range map[string]string{
		"1.1.0": `[{"advmss":1300,"dst":"10.7.0.0/16","gw":"10.0.0.9","mtu":1400,"priority":7,"scope":200,"table":100}]`,
		"1.0.0": `[{"dst":"10.7.0.0/16","gw":"10.0.0.9"}]`,
	} {
		raw := strings.Replace(with(`"ipam":{"type":"host-local","subnet":"10.0.0.0/29","routes":[
			{"dst":"10.7.0.0/16","gw":"10.0.0.9","mtu":1400,"advmss":1300,"priority":7,"table":100,"scope":200}]}`), "1.1.0", version, 1)
		var r struct{ Routes json.RawMessage }
		resp := serve(t, newMemory(1), invocation(cmdAdd, raw))
		var text bytes.Buffer
		if err := errors.Join(json.Unmarshal(resp.Stdout, &r), json.Compact(&text, r.Routes)); err != nil || text.String() != want {
			t.Errorf("version %s: %v\n got %s\nwant %s", version, err, resp.Stdout, want)
		}
	}
}

// The DNS section of a network wins over the one of its ipam section, which wins over the file that
// ipam.resolvConf names. A result of a plugin before this one keeps its DNS.
func TestPrecedenceOfDNS(t *testing.T) {
	const file, section, own = `"resolvConf":"/etc/none"`, `"dns":{"nameservers":["10.0.0.52"]}`, `"dns":{"nameservers":["10.0.0.51"]},`
	const static = `"ipam":{"type":"static","addresses":[{"address":"10.0.0.5/24"}],`
	const earlier = `"prevResult":{"dns":{"nameservers":["10.0.0.50"]}},`
	for keys, want := range map[string]string{
		static + section + `}`:                              "10.0.0.52",
		static + section + `,` + file + `}`:                 "10.0.0.52",
		own + static + section + `,` + file + `}`:           "10.0.0.51",
		earlier + own + static + section + `,` + file + `}`: "10.0.0.50",
	} {
		var r struct {
			DNS struct{ Nameservers []string }
		}
		resp := serve(t, newMemory(1), invocation(cmdAdd, with(keys)))
		if err := json.Unmarshal(resp.Stdout, &r); err != nil || strings.Join(r.DNS.Nameservers, " ") != want {
			t.Errorf("%s: %v, %s, want %s", keys, err, resp.Stdout, want)
		}
	}
}

// The lease keeps the configuration, so that the result of an ADD can be
// written again.
func TestTheLeaseHasTheConfiguration(t *testing.T) {
	e := newMemory(1)
	raw := strings.ReplaceAll(strings.Replace(whole, "MORE", "", 1), "VERSION", "1.0.0")
	resp := serve(t, e, api.CNIRequest{Command: cmdAdd, ContainerID: "c1", IfName: "net1", Netns: "/run/netns/x", Config: []byte(raw)})
	var rec journal.Record
	for _, rec = range e.leases {
	}
	c, err := config.Parse(rec.Lease.Request)
	if err != nil {
		t.Fatal(err)
	}
	if c.DNS, err = findDNS(c, resolvDirs()); err != nil {
		t.Fatal(err)
	}
	again, err := formatResult(c, rec, rec.Lease.Netns)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(resp.Stdout), string(again)); d != "" {
		t.Errorf("-first +again\n%s", d)
	}
}

// A version of the specification that the library cannot write is an error, and no result.
func TestResultOfAnUnknownVersion(t *testing.T) {
	address := net.IPNet{IP: net.IPv4(10, 0, 0, 2), Mask: net.CIDRMask(24, 32)}
	out, err := writeResult(&current.Result{IPs: []*current.IPConfig{{Address: address}}}, "9.9.9")
	if out != nil || err == nil || !strings.Contains(err.Error(), "result as version 9.9.9: ") {
		t.Errorf("%q, %v", out, err)
	}
}

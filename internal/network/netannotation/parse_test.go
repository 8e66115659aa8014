package netannotation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestParse(t *testing.T) {
	mac := vf.MAC{2, 0x23, 0x45, 0x67, 0x89, 0x01}
	for text, want := range map[string][]Element{
		"":                       nil,
		" \n":                    nil,
		"[]":                     nil,
		"sriov-net1":             {{Name: "sriov-net1", Namespace: "default"}},
		"a,a":                    {{Name: "a", Namespace: "default"}, {Name: "a", Namespace: "default"}},
		"x/a@net7, b@eth1,c":     {{Name: "a", Namespace: "x", Interface: "net7"}, {Name: "b", Namespace: "default", Interface: "eth1"}, {Name: "c", Namespace: "default"}},
		"\n a.b-c ,\n d":         {{Name: "a.b-c", Namespace: "default"}, {Name: "d", Namespace: "default"}},
		" x / a @ eth1 ,/b, c@ ": {{Name: "a", Namespace: "x", Interface: "eth1"}, {Name: "b", Namespace: "default"}, {Name: "c", Namespace: "default"}},
		`[{"name":"a"},{"name":"b","namespace":"x","interface":"net9","unknown":{"k":1},"ipRequest":"1.2.3.4","infiniband_guid":"x","ipam-claim-reference":"c"}]`: {
			{Name: "a", Namespace: "default"}, {Name: "b", Namespace: "x", Interface: "net9", Ignored: []string{
				`network x/b@net9: key "infiniband_guid" of the annotation is unknown and ignored: did you mean infiniband-guid?`,
				`network x/b@net9: key "ipRequest" of the annotation is unknown and ignored`,
				`network x/b@net9: key "unknown" of the annotation is unknown and ignored`,
			}}},
		`[{"Name":"z","NAME":"a","nameSpace":"","InterfaceRequest":"net8","MAC":"02-23-45-67-89-01","IPs":["::1/64"],"Default-Route":[],"DeviceID":"0000:01:10.0",
			"PortMappings":[{"HOSTPORT":1,"containerport":2,"containerPort":3}],"Bandwidth":{"ingressrate":5}}]`: {{
			Name: "a", Namespace: "default", Interface: "net8", MAC: &mac, IPs: []string{"::1/64"}, DefaultRoute: []string{}, DeviceID: "0000:01:10.0",
			PortMappings: []PortMapping{{HostPort: 1, ContainerPort: 3}}, Bandwidth: &Bandwidth{IngressRate: 5},
		}},
		`[{"name":"a","interface":"net2","interfaceRequest":"net3","default-route":null}]`: {{Name: "a", Namespace: "default", Interface: "net2"}},
		`[{"name":"a","name":"b","default-route":["fd00::1","10.0.0.1"]}]`:                 {{Name: "b", Namespace: "default", DefaultRoute: []string{"fd00::1", "10.0.0.1"}}},
		`{"name":"a"}`: {{Name: "a", Namespace: "default"}},
		`[{"name":"a","mac":"02:23:45:67:89:01","ips":["10.1.1.5","10.1.1.6/24","fd00::5"],"default-route":["10.1.1.1"],"infiniband-guid":"c2:11:22:33:44:55:66:77",
			"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}],"bandwidth":{"ingressRate":20000000000,"egressBurst":4096},"cni-args":{"k":{"deep":[1]},"n":null}}]`: {{
			Name: "a", Namespace: "default", MAC: &mac, IPs: []string{"10.1.1.5", "10.1.1.6/24", "fd00::5"}, DefaultRoute: []string{"10.1.1.1"},
			InfinibandGUID: "c2:11:22:33:44:55:66:77", PortMappings: []PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}},
			Bandwidth: &Bandwidth{IngressRate: 20000000000, EgressBurst: 4096}, CNIArgs: map[string]json.RawMessage{"k": json.RawMessage(`{"deep":[1]}`)},
		}},
		`[{"name":"a","ips":"10.1.1.5","mac":"","interface":"","cni-args":null}]`: {{Name: "a", Namespace: "default", IPs: []string{"10.1.1.5"}}},
	} {
		got, err := Parse(text, "default")
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A pod's author may write thousands of unknown keys: the first ones are named.
func TestUnknownKeysAreBounded(t *testing.T) {
	var keys strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&keys, `"k%d":1,`, i)
	}
	got, err := Parse(`[{`+keys.String()+`"name":"a"}]`, "default")
	if err != nil || len(got) != 1 || len(got[0].Ignored) != mostIgnored+1 || got[0].Ignored[mostIgnored] != "network default/a: 4992 more keys are unknown and ignored" {
		t.Errorf("%v, %.1000v", err, got)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a,":                                    "element 2 (\"\"): invalid: the network's name is missing",
		"a,B":                                   `element 2 ("B"): invalid: "B" is no name of a network`,
		"x/y/z":                                 `"y/z" is no name`,
		"a,,b":                                  "element 2 (\"\"): invalid: the network's name is missing",
		"@net1":                                 "the network's name is missing",
		"a@b@c ":                                "is no name for an interface",
		`[{"name":"a"}],"x":[]`:                 "neither a JSON list nor names",
		`[null]`:                                "element 0: want an object",
		`["a"]`:                                 "element 0: want an object",
		"a@net 1":                               "is no name for an interface",
		"a@sixteencharacter":                    "is no name for an interface",
		"a@..":                                  "is no name for an interface",
		"a@net1,b@net1":                         "interface net1: invalid: default/a@net1 and default/b@net1 both ask for it",
		"../../etc/passwd":                      "is no name of a network",
		"../passwd":                             "is no namespace",
		`[{"name":"a"}`:                         "neither a JSON list nor names",
		`[{}]`:                                  "the network's name is missing",
		`[1]`:                                   "element 0: want an object",
		`[{"name":7}]`:                          "networks[0].name 7: want a string",
		`[{"name":"a","ips":[5]}]`:              "networks[0].ips [5]: want a list of strings",
		`[{"name":"a","ips":["x"]}]`:            `networks[0].ips ["x"]: "x": want IP addresses`,
		`[{"name":"a","ips":["fe80::1%eth0"]}]`: `"fe80::1%eth0": want IP addresses`,
		`[{"name":"a","default-route":["fe80::1%e"]}]`:              `"fe80::1%e": want IP addresses`,
		`[{"name":"a","infiniband-guid":"g"}]`:                      "infiniband-guid g: want bytes in hexadecimal",
		`[{"name":"a","MAC":"x"}]`:                                  "networks[0].mac: ",
		`[{"name":"a","mac":"x"}]`:                                  "networks[0].mac: ",
		`[{"name":"a","interface":"a/b"}]`:                          "networks[0].interface a/b: want 1 to 15",
		`[{"name":"a","default-route":["10.0.0.1/24"]}]`:            "networks[0].default-route",
		`[{"name":"a","portMappings":[{"hostPort":70000}]}]`:        "hostPort 70000: want a number between 0 and 65535",
		`[{"name":"a","portMappings":[{"protocol":"x"}]}]`:          "protocol x: want tcp, udp or sctp",
		`[{"name":"a","bandwidth":{"ingressRate":-1}}]`:             "bandwidth.ingressRate -1: want a whole number",
		strings.Repeat("a,", 70) + "a":                              "71 networks; want at most 64",
		strings.Repeat("a", netconf.MaxText+1):                      "want at most 65536",
		"[" + strings.Repeat(`{"name":"a"},`, 70) + `{"name":"a"}]`: "71 networks; want at most 64",
	} {
		_, err := Parse(text, "default")
		if err == nil || !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "annotation k8s.v1.cni.cncf.io/networks: ") {
			t.Errorf("%.80s: %v\nwant %s", text, err, want)
		}
	}
}

// An annotation that is accepted has names that lead nowhere as parts of a path, and reads the same
// after it was written as JSON. A refusal is a vf.ErrInvalid of bounded length.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a", "x/a@net1,b", `[{"name":"a","namespace":"b","interface":"c","mac":"02:00:00:00:00:01","ips":["10.0.0.1"]}]`,
		`{"name":"a"}`, `[{"NAME":"a","name":"b","PortMappings":[{"hostport":1}],"x":1}]`, " x / a @ b ,/c@", "a@..", "../a", `[{"name":"a","cni-args":{"a":1}}]`, "[", `[{"name":"a","bandwidth":{}}]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse(text, "default")
		if err != nil {
			if !errors.Is(err, vf.ErrInvalid) || len(err.Error()) > 40<<10 || strings.ContainsAny(err.Error(), "\x00\x1b") {
				t.Errorf("%T of %d bytes: %q", err, len(err.Error()), err)
			}
			return
		}
		if again, err := Parse(strings.ReplaceAll(text, `"name":`, `"NAME":`), "default"); err != nil || len(again) != len(all) {
			t.Errorf("with another case: %v, %v", again, err)
		}
		for _, e := range all {
			for _, name := range []string{e.Name, e.Namespace, e.Interface} {
				if strings.ContainsAny(name, "/\x00\n ") || name == ".." || name == "." {
					t.Errorf("%q is taken for a name", name)
				}
			}
			again, err := Parse(e.String(), "other")
			if err != nil || len(again) != 1 || again[0].Name != e.Name || again[0].Namespace != e.Namespace || again[0].Interface != e.Interface {
				t.Errorf("%s reads as %v: %v", e, again, err)
			}
		}
	})
}

// The annotation for the default network names one network at most. Its namespace is kube-system
// unless it says otherwise.
func TestParseDefault(t *testing.T) {
	for text, want := range map[string]string{
		"":           "",
		"flannel":    "kube-system/flannel",
		"d/v@eth0":   "d/v",
		"v,w":        "annotation v1.multus-cni.io/default-network: invalid: it names 2 networks; want one",
		"a b":        `annotation v1.multus-cni.io/default-network: element 1 ("a b"): invalid: "a b" is no name of a network`,
		`[{"name":}`: `annotation v1.multus-cni.io/default-network: invalid: "[{\"name\":}" is neither a JSON list`,
	} {
		elements, err := ParseDefault(text)
		got := ""
		for _, e := range elements {
			got += e.Namespace + "/" + e.Name
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

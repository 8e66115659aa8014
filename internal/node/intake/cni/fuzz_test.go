package cni

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
)

// The result of any configuration that is accepted is one of its version.
func FuzzResult(f *testing.F) {
	f.Add(with(`"vlan":100,"vlanQoS":5,"ipam":{"type":"host-local","subnet":"10.0.0.0/24"}`))
	f.Add(with(`"prevResult":{"interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"interface":7,"address":"10.0.0.9/24"}],"routes":[{"dst":"::/0"}],"dns":{}}`))
	f.Add(strings.ReplaceAll(with(`"prevResult":{"ips":[{"version":"4","address":"10.0.0.9/24"}]}`), "1.1.0", "0.3.1"))
	f.Add(with(`"prevResult":{"ips":[{"":"","s":""}]}`))
	f.Add(strict(`"bond":{"links":3,"mode":"active-backup","arpInterval":50,"arpIPTargets":["10.0.0.1"],"primary":"enp1s0","antiAffinity":"nic"},"deviceIDs":["3b:01.0","3b:01.1","3c:01.0"]`))
	f.Add(strict(`"bond":{"mode":"802.3ad","force":true}`))
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := config.Parse([]byte(raw))
		if err != nil {
			return
		}
		if c.Bond != nil {
			checkBondResult(t, c)
			return
		}
		rec, err := newMemory(1).Attach(t.Context(), requestFor(c))
		if err != nil {
			return
		}
		out, err := formatResult(c, rec, "/run/netns/x")
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if _, err := create.Create(c.Version, out); err != nil {
			t.Fatalf("the result is none of version %s: %v: %s", c.Version, err, out)
		}
	})
}

func wantShort(t *testing.T, text string) {
	t.Helper()
	if len(text) > 32<<10 {
		t.Errorf("a message of %d bytes", len(text))
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }); i >= 0 {
		t.Errorf("a message that acts on a terminal: %q", text[max(0, i-20):min(len(text), i+20)])
	}
}

// The answer to any environment is JSON, and an error is short and has a code. The names of an
// attachment can stand in a message, a table and, except for the netns, in a path.
func FuzzInvocation(f *testing.F) {
	whole := with(pool)
	for _, command := range []string{cmdAdd, cmdDel, cmdCheck, cmdGC, cmdStatus, cmdVersion, ""} {
		f.Add(command, "c1", "/run/netns/x", "net1", "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=a", "/opt/cni/bin", whole)
	}
	f.Add(cmdAdd, "../c", "/proc/1/ns/net\n", "../net1", "MAC=02:00:00:00:00:01;;IP==;", "/tmp/../x", whole)
	f.Add(cmdAdd, "c1", "/run/../etc", "-v", "K8S_POD_NAME=\x1b[2J;K8S_POD_NAMESPACE=a/b", "", whole)
	f.Add(cmdDel, strings.Repeat("c", 300), "", "net%d", "IP=10.0.0.5", "", "")
	f.Fuzz(func(t *testing.T, command, container, netns, ifName, args, path, text string) {
		e := newMemory(2)
		params, err := json.Marshal(api.CNIRequest{Command: command, ContainerID: container, Netns: netns, IfName: ifName, Args: args, Path: path, Config: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		v, err := (&Handler{node: partsOf(e)}).Serve(t.Context(), params, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp := v.(api.CNIResponse)
		if len(resp.Stdout) > 0 && !json.Valid(resp.Stdout) {
			t.Fatalf("stdout %q", resp.Stdout)
		}
		if resp.Exit != 0 {
			var e api.CNIError
			if err := json.Unmarshal(resp.Stdout, &e); err != nil || e.Code == 0 || e.Msg == "" {
				t.Fatalf("%v: %s", err, resp.Stdout)
			}
			wantShort(t, e.Msg)
		}
		for _, rec := range e.leases {
			l := rec.Lease
			pod := strings.Split(l.Owner.Name, "/")
			if !config.IsName(l.Owner.UID) || !config.IsName(l.Network) || !config.IsIfName(l.Wanted.Interface) || len(pod) > 2 ||
				l.Owner.Name != "" && !config.IsName(pod[0]) || l.Netns != "" && (!filepath.IsAbs(l.Netns) || strings.Contains(l.Netns, "/../")) {
				t.Fatalf("attached: %+v", l)
			}
		}
	})
}

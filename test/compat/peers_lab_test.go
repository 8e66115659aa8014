//go:build lab

package compat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPeersAgree gives the cases of host-local and static to the CNI project's own plugins. The
// plugins must have the outcomes that the cases name for them.
func TestPeersAgree(t *testing.T) {
	built, err := exec.Command("../../tools/part", "cni").Output()
	if err != nil {
		t.Fatalf("tools/part cni: %v", err)
	}
	groups, err := Groups()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, g := range groups {
		program := filepath.Join(strings.TrimSpace(string(built)), g.Name)
		if _, err := os.Stat(program); err != nil {
			continue // a peer that is not built here
		}
		for _, c := range g.Cases {
			checked++
			t.Run(g.Name+"/"+c.Name, func(t *testing.T) {
				var in addressInput
				if err := c.Input.Decode(&in); err != nil {
					t.Fatal(err)
				}
				p := plugin{program, in, t.TempDir()}
				got, err := in.attachPods(func(n int) ([]byte, error) { return p.call("ADD", n) }, func(n int) error {
					_, err := p.call("DEL", n)
					return err
				})
				if err != nil {
					got = Outcome{Refused}
				}
				if got.String() != c.Peer.String() {
					t.Errorf("the peer's outcome is %q (%v), the case says %q", got, err, c.Peer)
				}
			})
		}
	}
	if checked == 0 {
		t.Error("no plugin of a group was built")
	}
}

// plugin is a peer's program, with a folder of its own for the addresses that it gave out.
type plugin struct {
	program string
	input   addressInput
	dir     string
}

// call executes the plugin as a runtime does.
func (p plugin) call(command string, pod int) ([]byte, error) {
	r, err := p.input.podRequest(command, pod)
	if err != nil {
		return nil, err
	}
	config, err := p.inFolder(r.Config)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.program)
	cmd.Stdin = bytes.NewReader(config)
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+command, "CNI_CONTAINERID="+r.ContainerID, "CNI_NETNS="+r.Netns, "CNI_IFNAME="+r.IfName, "CNI_PATH=/none", "CNI_ARGS="+r.Args)
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, fmt.Errorf("%s", out))
	}
	return out, nil
}

// inFolder makes host-local keep its addresses in the folder.
func (p plugin) inFolder(config []byte) ([]byte, error) {
	var c map[string]any
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	if ipam, ok := c["ipam"].(map[string]any); ok && ipam["type"] == "host-local" {
		ipam["dataDir"] = p.dir
	}
	return json.Marshal(c)
}

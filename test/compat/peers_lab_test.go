//go:build lab

package compat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestPeersAgree gives the cases of host-local and static to the CNI project's own plugins, and
// those of whereabouts to its readers and its allocator (test/tools/whereabouts-file). They must
// have the outcomes that the cases name for them.
func TestPeersAgree(t *testing.T) {
	folders := map[string]string{}
	for _, part := range []string{"cni", "whereabouts-file"} {
		built, err := exec.Command("../../tools/part", part).Output()
		if err != nil {
			t.Fatalf("tools/part %s: %v", part, err)
		}
		folders[part] = strings.TrimSpace(string(built))
	}
	groups, err := Groups()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, g := range groups {
		if g.Ran != "TestPeersAgree" {
			continue
		}
		program := filepath.Join(folders["cni"], g.Name)
		if g.Name == "whereabouts" {
			program = filepath.Join(folders["whereabouts-file"], g.Name)
		}
		for _, c := range g.Cases {
			if c.Source != "" {
				continue // it is decided elsewhere
			}
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
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+command, "CNI_CONTAINERID="+r.ContainerID, "CNI_NETNS="+r.Netns, "CNI_IFNAME="+r.IfName, "CNI_PATH=/none", "CNI_ARGS="+r.Args, "STATE="+filepath.Join(p.dir, "state"), "FLAT="+p.flatFile())
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, fmt.Errorf("%s", out))
	}
	return out, nil
}

// flatFile returns the path of the node's part of a configuration of whereabouts. It has the path
// of a kubeconfig, which is not read here.
func (p plugin) flatFile() string {
	path := filepath.Join(p.dir, "whereabouts.conf")
	_ = os.WriteFile(path, []byte(`{"kubernetes": {"kubeconfig": "/none"}}`), 0o600) // without it, each case is refused
	return path
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

// TestMultusAgrees gives the annotations to Multus' own reader, except those of which it decides
// the outcome later. Multus must have the outcomes that the cases name for it.
func TestMultusAgrees(t *testing.T) {
	cases, texts := multusCases(t)
	input, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	built, err := exec.Command("../../tools/part", "multus-annotations").Output()
	if err != nil {
		t.Fatalf("tools/part multus-annotations: %v", err)
	}
	cmd := exec.Command(filepath.Join(strings.TrimSpace(string(built)), "annotations"))
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers []multusAnswer
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(cases) {
		t.Fatalf("%d answers to %d annotations: %v", len(answers), len(cases), err)
	}
	for i, c := range cases {
		if got := answers[i].outcome(); got.String() != c.Peer.String() {
			t.Errorf("%s: the outcome of Multus is %q (%s), the case says %q", c.Name, got, answers[i].Error, c.Peer)
		}
	}
}

// multusCases returns the cases of annotations that Multus' reader decides, and their texts.
func multusCases(t *testing.T) (cases []Case, texts []string) {
	t.Helper()
	groups, err := Groups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, c := range g.Cases {
			if g.Name != "annotations" || c.Source != "" {
				continue
			}
			var text string
			if err := c.Input.Decode(&text); err != nil {
				t.Fatal(err)
			}
			cases, texts = append(cases, c), append(texts, text)
		}
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	return cases, texts
}

// multusAnswer is what Multus makes of an annotation.
type multusAnswer struct {
	Networks []multusElement `json:"networks"`
	Error    string          `json:"error"`
}

// multusElement is an element as Multus writes it (types.NetworkSelectionElement). A MAC is in the
// form in which the pod has it.
type multusElement struct {
	Name, Namespace, Interface, MAC, DeviceID string
	IPs                                       []string
	GUID                                      string          `json:"infiniband-guid"`
	DefaultRoute                              *[]string       `json:"default-route"`
	Args                                      map[string]any  `json:"cni-args"`
	PortMappings                              json.RawMessage `json:"portMappings"`
	Bandwidth                                 json.RawMessage `json:"bandwidth"`
}

// outcome describes the answer in the words of the cases.
func (a multusAnswer) outcome() (out Outcome) {
	if a.Error != "" {
		return Outcome{Refused}
	}
	if len(a.Networks) == 0 {
		return Outcome{"no networks"}
	}
	for i, n := range a.Networks {
		out = append(out, n.describe(i))
	}
	return out
}

func (n multusElement) describe(i int) string {
	e := netannotation.Element{
		Name: n.Name, Namespace: n.Namespace, Interface: cmp.Or(n.Interface, fmt.Sprintf("net%d", i+1)), IPs: n.IPs, DeviceID: n.DeviceID, InfinibandGUID: n.GUID,
	}
	if mac, err := vf.ParseMAC(n.MAC); err == nil {
		e.MAC = &mac
	}
	if n.DefaultRoute != nil {
		e.DefaultRoute = append([]string{}, *n.DefaultRoute...)
	}
	_ = json.Unmarshal(n.PortMappings, &e.PortMappings)
	_ = json.Unmarshal(n.Bandwidth, &e.Bandwidth)
	text := describeElement(e)
	for _, key := range slices.Sorted(maps.Keys(n.Args)) {
		value, _ := json.Marshal(n.Args[key])
		text += fmt.Sprintf(", %s=%s", key, value)
	}
	return text
}

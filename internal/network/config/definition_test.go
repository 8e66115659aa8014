package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// Own returns the configurations of Culvert's plugins in a definition, if any, or refuses the
// definition.
func TestOwn(t *testing.T) {
	for config, want := range map[string]int{
		``:     0,
		`null`: -1,
		`{"type": "sriov", "disableCheck": "true"}`:                                       1,
		`{"type": "culvert", "disableGC": "False"}`:                                       1,
		`{"type": "sriov", "disableCheck": "maybe"}`:                                      -1,
		`{"cniVersion": "1.0.0", "disableCheck": "true", "plugins": [{"type": "sriov"}]}`: 1,
		`[]`: -1,
		`{"type": "sriov", "args": {"x": "` + strings.Repeat("x", 70_000) + `"}}`: -1,
		`{}`:                              -1,
		`{"type": "sriov"}`:               1,
		`{"type": "bridge"}`:              0,
		`{"type": "sriov", "vlan": 5000}`: -1,
		`{"cniVersion": "1.0.0", "plugins": [{"type": "sriov"}, {"type": "tuning"}, {"type": "culvert", "pool": "a"}]}`: 2,
		`{"cniVersion": "1.0.0", "plugins": [null]}`:                      -1,
		`{"cniVersion": "1.0.0", "type": "culvert", "podNetworks": true}`: -1,
	} {
		got, err := Own(api.NetworkDefinition{Namespace: "d", Name: "n", Config: config})
		if (err != nil) != (want < 0) || err == nil && len(got) != want {
			t.Errorf("%.200s: %d, %v; want %d", config, len(got), err, want)
		}
		for _, c := range got {
			if c.Name != "n" {
				t.Errorf("%s: name %q", config, c.Name)
			}
		}
	}
}

// Plugins of other projects get exactly the text that libcni hands over. A single plugin gets its
// text as it is written, a plugin in a list gets it without duplicate keys. Culvert's own plugins
// keep their text.
func TestDefinitionKeepsTheText(t *testing.T) {
	for config, want := range map[string]string{
		`{"type": "macvlan", "cniVersion": "1.0.0", "x": [1e3, "<"], "mode": 1, "mode": 2}`:                             `n 1.0.0: {"type": "macvlan", "cniVersion": "1.0.0", "x": [1e3, "<"], "mode": 1, "mode": 2}`,
		`{"name": "m", "cniVersion": "1.0.0", "plugins": [{"type": "macvlan", "x": 1e3}, {"type": "sriov", "b": 1e3}]}`: `m 1.0.0: {"type":"macvlan","x":1000} {"type": "sriov", "b": 1e3}`,
		`{"name": "", "type": "culvert"}`: `n 1.1.0: {"name": "", "type": "culvert"}`,
		`{"type": "bridge"}`:              `n 0.1.0: {"type": "bridge"}`,
		`{"cniVersions": ["0.4.0", "1.0.0", "9.9.9"], "plugins": [{"type": "bridge"}], "disableCheck": true}`: `n 1.0.0: {"type":"bridge"}`,
		"": " :",
	} {
		l, err := ParseDefinition(api.NetworkDefinition{Name: "n", Config: config})
		got := l.Name + " " + l.Version + ":"
		for _, p := range l.Plugins {
			got += " " + string(p.Raw)
		}
		if err != nil || got != want {
			t.Errorf("%s: %v\n got %s\nwant %s", config, err, got, want)
		}
	}
}

// I7: a network has at most MaxPlugins plugins. culvertd reads no more of a longer list, which a
// tenant may write to cost it time.
func TestI7ListsAreBounded(t *testing.T) {
	for n, want := range map[int]string{netconf.MaxPlugins: "", netconf.MaxPlugins + 1: "plugins: invalid: there are 17; want at most 16", 3300: "there are 3300"} {
		plugins := strings.TrimSuffix(strings.Repeat(`{"type":"bridge"},`, n), ",")
		l, err := ParseDefinition(api.NetworkDefinition{Name: "n", Config: `{"cniVersion":"1.0.0","plugins":[` + plugins + `]}`})
		if len(l.Plugins) != netconf.MaxPlugins || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d plugins: %d read, %v", n, len(l.Plugins), err)
		}
	}
}

// A file of the runtime's folder has a list or one plugin, by the end of its name. A list that has
// only Culvert's plugins gets the newest version; other lists keep the version that they name.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct{ text, want, refused string }{
		"texts.conflist":     {`{"cniVersion":"0.4.0","name":"m","disableCheck":"True","disableGC":"false","plugins":[{"type":"macvlan"}]}`, `m 0.4.0 true false: {"type":"macvlan"}`, ""},
		"texts.conf":         {`{"cniVersion":"0.4.0","name":"m","type":"macvlan","disableCheck":"TRUE"}`, `m 0.4.0 true false: {"cniVersion":"0.4.0","name":"m","type":"macvlan","disableCheck":"TRUE"}`, ""},
		"no text.conf":       {`{"cniVersion":"0.4.0","name":"m","type":"macvlan","disableCheck":"maybe"}`, "", `invalid: disableCheck, disableGC: "maybe": want true or false`},
		"list.conflist":      {`{"cniVersion":"0.4.0","name":"m","disableCheck":true,"plugins":[{"type":"macvlan","x":1e3},{"type":"tuning"}]}`, `m 0.4.0 true false: {"type":"macvlan","x":1000} {"type":"tuning"}`, ""},
		"own.conflist":       {`{"cniVersion":"0.4.0","name":"m","plugins":[{"type":"sriov"}]}`, `m 1.1.0 false false: {"type":"sriov"}`, ""},
		"one.conf":           {`{"cniVersion":"0.4.0","name":"m","type":"macvlan","x":1e3,"disableGC":true}`, `m 0.4.0 false true: {"cniVersion":"0.4.0","name":"m","type":"macvlan","x":1e3,"disableGC":true}`, ""},
		"one.json":           {`{"name":"m","type":"macvlan"}`, `m 0.1.0 false false: {"name":"m","type":"macvlan"}`, ""},
		"nameless.conf":      {`{"cniVersion":"1.0.0","type":"sriov"}`, "", "name: invalid: it has none"},
		"of-multus.conf":     {`{"cniVersion":"1.0.0","name":"m","type":"multus"}`, "", "network m: invalid: "},
		"no-name.conf":       {`{"cniVersion":"1.0.0","name":"m","type":"../sh"}`, "", `network m: type "../sh": invalid: want the name of a CNI plugin`},
		"a-key.conf":         {`{"name":"m","type":"sriov","capabilities":1}`, "", "capabilities: invalid: "},
		"a-key.conflist":     {`{"cniVersion":"1.0.0","name":"m","plugins":[{"type":"sriov","podNetworks":1}]}`, "", "podNetworks: invalid: "},
		"no-JSON.conf":       {`{`, "", "invalid: unexpected end of JSON input"},
		"no-JSON.conflist":   {`{`, "", "error parsing configuration list"},
		"no-plugin.conflist": {`{"cniVersion":"1.0.0","name":"m","plugins":[]}`, "", "error parsing configuration list"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := ReadFile(path)
		if tc.refused != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tc.refused) {
				t.Errorf("%s: %v, want %s", name, err, tc.refused)
			}
			continue
		}
		got := fmt.Sprintf("%s %s %t %t:", l.Name, l.Version, l.DisableCheck, l.DisableGC)
		for _, p := range l.Plugins {
			got += " " + string(p.Raw)
		}
		if err != nil || got != tc.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, tc.want)
		}
	}
	for _, name := range []string{"gone.conf", "gone.conflist"} {
		if _, err := ReadFile(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

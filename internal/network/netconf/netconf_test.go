package netconf

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

func parsed(t *testing.T, text string) Plugin {
	t.Helper()
	p, err := ParsePlugin([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The ledger keeps a plugin as its text, and reads it again from that text.
func TestPluginIsItsText(t *testing.T) {
	const text = `{"type":"macvlan","x":1e3,"capabilities":{"mac":true}}`
	want := Plugin{Type: "macvlan", Capabilities: map[string]bool{"mac": true}, Raw: json.RawMessage(text)}
	raw, err := json.Marshal(struct{ Plugins []Plugin }{[]Plugin{want}})
	if err != nil || string(raw) != `{"Plugins":[`+text+`]}` {
		t.Fatalf("%s, %v", raw, err)
	}
	var got struct{ Plugins []Plugin }
	if err := json.Unmarshal(raw, &got); err != nil || !cmp.Equal([]Plugin{want}, got.Plugins) {
		t.Errorf("%v\n%s", err, cmp.Diff([]Plugin{want}, got.Plugins))
	}
	for _, text := range []string{``, `[]`, `{"type":5}`, `{"capabilities":[]}`} {
		if _, err := ParsePlugin([]byte(text)); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestKinds(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"culvert"}`:                         "own",
		`{"type":"sriov"}`:                           "own",
		`{"type":"culvert-cni"}`:                     "own",
		`{"type":"culvert","podNetworks":true}`:      "own meta",
		`{"type":"bridge","podNetworks":true}`:       "",
		`{"type":"multus"}`:                          "meta",
		`{"type":"multus-shim"}`:                     "meta",
		`{"type":"multus-cni"}`:                      "meta",
		`{"type":"bridge"}`:                          "",
		`null`:                                       "",
		`{"type":"sriov","capabilities":{"a":true}}`: "own",
	} {
		var got []string
		p := parsed(t, text)
		if p.IsOwn() {
			got = append(got, "own")
		}
		if p.IsMeta() {
			got = append(got, "meta")
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	own, other := parsed(t, `{"type":"sriov","capabilities":{"a":true}}`), parsed(t, `{"type":"tuning","capabilities":{"mac":true}}`)
	if !own.Takes("deviceID") || !own.Takes("a") || own.Takes("mac") || own.Takes("ips") || own.Takes("portMappings") || !other.Takes("mac") || other.Takes("deviceID") {
		t.Error("a plugin takes what it declares, and Culvert's the kubelet's device, too")
	}
}

func TestWith(t *testing.T) {
	p := parsed(t, `{"type":"macvlan","args":{"cni":{"old":1,"k":2},"labels":"x"}}`)
	got, err := p.WithArgs(map[string]json.RawMessage{"k": String("v")})
	if want := `{"args":{"cni":{"k":"v","old":1},"labels":"x"},"type":"macvlan"}`; err != nil || string(got.Raw) != want || got.Type != "macvlan" {
		t.Errorf("%v %s", err, got.Raw)
	}
	if got, err = got.With(map[string]json.RawMessage{"args": String("<"), "a": String("b")}); err != nil || string(got.Raw) != `{"a":"b","args":"\u003c","type":"macvlan"}` {
		t.Errorf("%v %s", err, got.Raw)
	}
	if _, err := got.WithArgs(nil); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("args that are a text: %v", err)
	}
	if !strings.Contains(string(p.Raw), `"k":2`) {
		t.Errorf("the plugin was changed: %s", p.Raw)
	}
}

func TestChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		list List
		want string
	}{
		"right":      {List{Name: "n", Plugins: []Plugin{{Type: "bridge"}}}, ""},
		"no name":    {List{Plugins: []Plugin{{Type: "bridge"}}}, "name: invalid: it has none"},
		"no plugins": {List{Name: "n"}, "network n: plugins: invalid: there is none"},
		"a path":     {List{Name: "n", Plugins: []Plugin{{Type: "../sh"}}}, `network n: type "../sh": invalid: want the name of a CNI plugin`},
		"meta":       {List{Name: "n", Plugins: []Plugin{{Type: "bridge"}, {Type: "multus"}}}, "network n: invalid: it is a meta plugin's configuration"},
	} {
		l, err := tc.list.Checked()
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tc.want || l.Version != "0.1.0" || errors.Is(err, ErrMeta) != (name == "meta") || err != nil && !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%s: %q, version %s; want %q", name, got, l.Version, tc.want)
		}
	}
}

func FuzzTypes(f *testing.F) {
	f.Add([]byte(`{"type":"sriov"}`))
	f.Add([]byte(`{"name":"a","plugins":[{"type":"culvert"},{"type":"tuning"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		types, err := Types(text)
		for _, s := range types {
			if s == "" || err != nil {
				t.Errorf("%q %v", types, err)
			}
		}
	})
}

// A plugin of any text is refused, or the ledger returns it as it was.
func FuzzPlugin(f *testing.F) {
	f.Add([]byte(`{"type":"sriov","capabilities":{"mac":true},"args":{"cni":{}}}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"type":"a","TYPE":"b","type":"c"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParsePlugin(text)
		if err != nil {
			return
		}
		raw, err := json.Marshal(p)
		var again Plugin
		if err != nil || json.Unmarshal(raw, &again) != nil || again.Type != p.Type || again.PodNetworks != p.PodNetworks {
			t.Errorf("%q: %+v, %v, and then %+v", text, p, err, again)
		}
		q, err := p.WithArgs(map[string]json.RawMessage{"k": String("v")})
		if err != nil {
			return
		}
		if again, err = ParsePlugin(q.Raw); err != nil || again.Type != p.Type || again.PodNetworks != p.PodNetworks {
			t.Errorf("%q with args: %+v, %v", text, again, err)
		}
	})
}

// encoding/json reads a key in any case, so all spellings of a key are removed.
func TestReplaceKeys(t *testing.T) {
	const object = `{"prevResult":1,"PREVRESULT":2,"prevresults":3,"args":{"PrevResult":4},"x":5}`
	for want, keys := range map[string]map[string]json.RawMessage{
		`{"args":{"PrevResult":4},"prevresults":3,"x":5}`:            nil,
		`{"args":{"PrevResult":4},"prevResult":"v","prevresults":3}`: {"prevResult": String("v"), "x": nil},
	} {
		if got, err := ReplaceKeys([]byte(object), "prevResult", keys); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if _, err := ReplaceKeys([]byte("x"), "prevResult", nil); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// A program may read a key in another case, so all spellings count.
func TestIPAMTypes(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"ptp"}`:                            "",
		`{"type":"ptp","ipam":{}}`:                  "",
		`{"type":"ptp","ipam":5}`:                   "",
		`{"type":"ptp","ipam":{"type":5}}`:          "",
		`{"type":"ptp","ipam":{"type":"dhcp"}}`:     "dhcp",
		`{"ipam":{"type":"a","Type":"b","x":"c"}}`:  "b a",
		`{"IPAM":{"type":"a"},"ipam":{"type":"b"}}`: "a b",
	} {
		if got := strings.Join(parsed(t, text).IPAMTypes(), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

package file

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var whole = `server: esxi01.example.com
thumbprint: "` + thumbprint + `"
ports:
- {nic: vmnic2, vfs: 2, passthrough: off}
- {nic: vmnic3, vfs: 0}
switches:
- name: sriov-a
  uplinks: [vmnic2]
  mtu: 9000
  security: {promiscuous: false, macChanges: true}
  portGroups:
  - {name: vf-a, vlan: 100, security: {forgedTransmits: false}}
- name: sriov-b
vms:
- name: vm1
  vfs:
  - {as: nic, port: vmnic2, portGroup: vf-a, mac: "00:50:56:0A:02:03"}
  - {as: device, port: vmnic2, address: "0000:03:0A.0"}
- {name: vm2}
`

var thumbprint = strings.TrimSuffix(strings.Repeat("ab:", 32), ":")

func TestParse(t *testing.T) {
	yes, no := true, false
	got, err := Parse("esxi.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{
		Server: "esxi01.example.com", Thumbprint: strings.Repeat("AB", 32),
		Ports: []Port{{NIC: "vmnic2", VFs: 2, PassthroughOff: true}, {NIC: "vmnic3"}},
		Switches: []Switch{
			{
				Name: "sriov-a", Uplinks: []string{"vmnic2"}, MTU: 9000, Security: Security{Promiscuous: &no, MACChanges: &yes},
				PortGroups: []PortGroup{{Name: "vf-a", VLAN: 100, Security: Security{ForgedTransmits: &no}}},
			},
			{Name: "sriov-b", MTU: 1500},
		},
		VMs: []VM{
			{Name: "vm1", VFs: []VF{
				{As: NIC, Port: "vmnic2", PortGroup: "vf-a", MAC: "00:50:56:0a:02:03"},
				{As: Device, Port: "vmnic2", Address: "0000:03:0a.0"},
			}},
			{Name: "vm2"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNames: names have characters and not bytes, and may have spaces and slashes.
func TestNames(t *testing.T) {
	long, host := strings.Repeat("名", 80), strings.Repeat("a", 255)
	spec, err := Parse("esxi.yaml", []byte("server: a\nhost: "+host+"\nvms: [{name: "+long+"}, {name: a b/c%2f}]\nswitches: [{name: "+strings.Repeat("名", 32)+"}]"))
	if err != nil || spec.Host != host || spec.VMs[0].Name != long || spec.VMs[1].Name != "a b/c%2f" || len(spec.Switches) != 1 {
		t.Errorf("%+v, %v", spec, err)
	}
	for _, text := range []string{"vms: [{name: " + long + "x}]", "host: " + host + "b", "vms: [{name: \" a\"}]", "vms: [{name: \"a\\nb\"}]", "vms: [{name: \"a\\u202eb\"}]"} {
		if _, err := Parse("esxi.yaml", []byte("server: a\n"+text)); err == nil || !strings.Contains(err.Error(), ": want ") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// TestEdges: empty lists, missing values, anchors and values of another kind.
func TestEdges(t *testing.T) {
	for text, want := range map[string]string{
		"ports: []\nswitches: ~\nvms:":                      "",
		"vms: [{name: v, vfs: []}]":                         "",
		"switches: [{name: a, uplinks: [], portGroups: ~}]": "",
		"ports: ''":      `ports: "": want a list of ports`,
		"ports: [~]":     "ports[0]: nothing: want a map with nic, vfs, passthrough",
		"ports: [[]]":    "ports[0]: a list: want a map",
		"vms: {name: v}": "vms: a map: want a list of virtual machines",
		"ports: &p [{nic: vmnic2, vfs: 1}]\nvms: *p":                "vms: an alias (*p): want a list",
		"ports: [{nic: vmnic2, vfs: &n 1}, {nic: vmnic3, vfs: *n}]": "ports[1].vfs: an alias (*n): want a number",
		"ports: [{<<: {nic: vmnic2}, vfs: 1}]":                      "ports[0].<<: unknown key",
		"ports: [{nic: vmnic2, vfs: 2.0}]":                          `ports[0].vfs: "2.0": want a number from 0 to 256`,
		"ports: [{nic: vmnic2, vfs: -1}]":                           `ports[0].vfs: "-1": want a number`,
		"ports: [{nic: vmnic2, vfs: 0x2}]":                          `ports[0].vfs: "0x2": want a number`,
		"ports: [{nic: vmnic2, vfs: 99999999999999999999}]":         "want a number",
		"ports: [{nic: [vmnic2], vfs: 1}]":                          "ports[0].nic: a list: want the name of a physical port",
		"switches: [{name: a, uplinks: vmnic2}]":                    `switches[0].uplinks: "vmnic2": want a list`,
		"switches: [{name: a, uplinks: [~]}]":                       "switches[0].uplinks[0]: nothing: want the name of a physical port",
		"switches: [{name: a, uplinks: [vmnic2, vmnic2]}]":          "vmnic2 is an uplink on line 2 already",
		"switches: [{name: a, security: []}]":                       "switches[0].security: a list: want a map",
		"switches: [{name: a, security: {promiscuous: 1}}]":         `promiscuous: "1": want true or false`,
		"switches: [{name: a, portGroups: [g]}]":                    `portGroups[0]: "g": want a map`,
		"switches: [{name: a, portGroups: [{name: g}, {name: g}]}]": "portGroups[1].name: \"g\" is there already",
		"vms: [{name: v, vfs: [{as: device, port: vmnic2, address: \"0000:03:02.0\"}, {as: device, port: vmnic2, address: \"0000:03:02.0\"}]}]": `"0000:03:02.0" is there already`,
		"\xff":        "not YAML",
		"\tports: []": "not YAML",
	} {
		_, err := Parse("esxi.yaml", []byte("server: a\n"+text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n%v\nwant %s", text, err, want)
		}
	}
}

// TestMistakes: an error has the file, the line, the field, the value and what would work.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "esxi.yaml: the file is empty: want server, and ports, switches or vms",
		"# nothing\n":                  "esxi.yaml: the file is empty",
		"server: [":                    "esxi.yaml: not YAML: ",
		"server: a\n---\nserver: b":    "esxi.yaml:2: a second document: want one only",
		"- a":                          "esxi.yaml:1: a list: want a map with server, ",
		"ports: []":                    "esxi.yaml:1: server is missing: want the name or address",
		"server:":                      "esxi.yaml:1: server: nothing: want the name or address",
		"server: https://a/sdk":        `esxi.yaml:1: server: "https://a/sdk": want the name or address`,
		"server: a\nserver: b":         "esxi.yaml:2: server: given twice, first on line 1: keep one",
		"server: a\nport: []":          "esxi.yaml:2: port: unknown key: did you mean ports?",
		"server: a\npassword: x":       "esxi.yaml:2: password: unknown key: known are server, ",
		"server: a\nthumbprint: AB:CD": `esxi.yaml:2: thumbprint: "AB:CD": want the SHA-256 thumbprint`,
		"server: a\ncaFile: b\nthumbprint: " + strings.Repeat("0F", 32):                                          "esxi.yaml:2: caFile: thumbprint is given too: keep one of them",
		"server: a\nports: vmnic2":                                                                               `esxi.yaml:2: ports: "vmnic2": want a list of ports, such as`,
		"server: a\nports:\n- {nic: eth0, vfs: 2}":                                                               `esxi.yaml:3: ports[0].nic: "eth0": want the name of a physical port`,
		"server: a\nports:\n- {nic: vmnic2}":                                                                     "esxi.yaml:3: ports[0]: vfs is missing: want a number from 0 to 256",
		"server: a\nports:\n- {nic: vmnic2, vfs: many}":                                                          `esxi.yaml:3: ports[0].vfs: "many": want a number from 0 to 256`,
		"server: a\nports:\n- {nic: vmnic2, vfs: 257}":                                                           `esxi.yaml:3: ports[0].vfs: "257": want a number from 0 to 256`,
		"server: a\nports:\n- {nic: vmnic2, vfs: 2, passthrough: on}":                                            `esxi.yaml:3: ports[0].passthrough: "on": want off: `,
		"server: a\nports:\n- {nic: vmnic2, vfs: 2}\n- {nic: vmnic2, vfs: 3}":                                    `esxi.yaml:4: ports[1].nic: "vmnic2" is there already, on line 3: keep one`,
		"server: a\nswitches:\n- {name: a, mtu: 100}":                                                            `esxi.yaml:3: switches[0].mtu: "100": want a number from 1280 to 9000`,
		"server: a\nswitches:\n- {name: " + strings.Repeat("a", 33) + "}":                                        "want a name of at most 32 characters",
		"server: a\nswitches:\n- {name: a, uplinks: [vmnic2]}\n- {name: b, uplinks: [vmnic2]}":                   "esxi.yaml:4: switches[1].uplinks[0]: vmnic2 is an uplink on line 3 already",
		"server: a\nswitches:\n- {name: a, uplinks: [eth0]}":                                                     `esxi.yaml:3: switches[0].uplinks[0]: "eth0": want the name of a physical port`,
		"server: a\nswitches:\n- {name: a, security: {promiscous: true}}":                                        "switches[0].security.promiscous: unknown key: did you mean promiscuous?",
		"server: a\nswitches:\n- {name: a, security: {promiscuous: yes}}":                                        `switches[0].security.promiscuous: "yes": want true or false`,
		"server: a\nswitches:\n- {name: a, portGroups: [{name: g, vlan: 4096}]}":                                 `portGroups[0].vlan: "4096": want a number from 0 to 4095`,
		"server: a\nswitches:\n- {name: a, portGroups: [{name: g}]}\n- {name: b, portGroups: [{name: g}]}":       `esxi.yaml:4: switches[1].portGroups[0].name: "g" is there already, on line 3`,
		"server: a\nvms:\n- {name: v, vfs: [{as: card, port: vmnic2}]}":                                          `vms[0].vfs[0].as: "card": want "nic"`,
		"server: a\nvms:\n- {name: v, vfs: [{as: nic, port: vmnic2}]}":                                           "vms[0].vfs[0]: portGroup is missing: want the name of a port group",
		"server: a\nvms:\n- {name: v, vfs: [{as: nic, port: vmnic2, portGroup: g, address: \"0000:03:0a.0\"}]}":  `vms[0].vfs[0].address: "0000:03:0a.0": the host chooses the VF of a "nic": remove it`,
		"server: a\nvms:\n- {name: v, vfs: [{as: device, port: vmnic2, portGroup: g}]}":                          `portGroup: "g": a "device" is on no port group: remove it`,
		"server: a\nvms:\n- {name: v, vfs: [{as: device, port: vmnic2, address: 3:a.0}]}":                        `address: "3:a.0": want the PCI address of a VF`,
		"server: a\nvms:\n- {name: v, vfs: [{as: nic, port: vmnic2, portGroup: g, mac: \"01:00:5e:00:00:01\"}]}": `mac: "01:00:5e:00:00:01": want a unicast MAC address`,
		"server: a\nvms:\n- {name: v}\n- {name: v}":                                                              `esxi.yaml:4: vms[1].name: "v" is there already, on line 3: keep one`,
	} {
		_, err := Parse("esxi.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n%v\nwant %s", text, err, want)
		}
	}
	_, err := Parse("esxi.yaml", []byte("ports: [{nic: a, vfs: b}]\nhosts: c"))
	if n := strings.Count(err.Error(), "\n") + 1; n != 4 {
		t.Errorf("%d mistakes, want all 4 at once: %v", n, err)
	}
	if _, err := Parse("esxi.yaml", make([]byte, maxSize+1)); err == nil {
		t.Error("a file of more than a megabyte was read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("server: a\nports: [{<<: *a}]"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = Parse("esxi.yaml", text) // no panic
	})
}

// TestCredentialsStaySecret: no mistake in a file with a password shows the password.
func TestCredentialsStaySecret(t *testing.T) {
	for _, text := range []string{
		"hunter2", "root\nhunter2\n", "root: hunter2", "hunter2: root", "- root\n- hunter2", "user: root\npassword: *hunter2", "user: root\npassword: [hunter2]",
		"user: root\npassword: {hunter2: x}", "user: root\npassword: !hunter2", "user: root\npassword: hunter2: x", "user: root\npassword: hunter2\npassword: hunter2",
		"user: root\npassword: \"hunter2\n", "user: root\nhunter2", "user: root\npassword: @hunter2", "user: root\npassword: %hunter2", "user: root\npassword: hunter2\n---\nhunter2",
		"user: root\npassword: hunter2\n--- *hunter2", "user: root\npassword:\thunter2\n\thunter2", "user: [root, hunter2]\npassword: hunter2", "<<: *hunter2", "user: \"root\\nhunter2\"\npassword: x",
	} {
		_, _, err := ParseCredentials("login.yaml", []byte(text))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
	user, password, err := ParseCredentials("login.yaml", []byte("user: root\npassword: \"*hunter2\"\n"))
	if user != "root" || password != "*hunter2" || err != nil {
		t.Errorf("%s, %s, %v", user, password, err)
	}
}

package config

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/culvert-net/culvert/internal/vf"
)

// A configuration that is accepted names its network and pool by identifiers. Any other one is refused
// with a documented error that is short and printable.
func FuzzParse(f *testing.F) {
	f.Add(with(`"vlan":100,"vlanQoS":5,"ipam":{"type":"host-local","subnet":"10.0.0.0/24"}`))
	f.Add(with(`"prevResult":{"interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"interface":7,"address":"10.0.0.9/24"}],"routes":[{"dst":"::/0"}],"dns":{}}`))
	f.Add(strings.ReplaceAll(with(`"prevResult":{"ips":[{"version":"4","address":"10.0.0.9/24"}]}`), "1.1.0", "0.3.1"))
	f.Add(with(`"logFile":"/etc/cron.d/x","deviceID":"../../etc","pool":"../a","runtimeConfig":{"CNIDeviceInfoFile":"/etc/passwd","mac":"02:00:00:00:00:01"}`))
	f.Add(with(`"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"../x"}],"dns":{"nameservers":["x"]}`))
	f.Add(strict(`"bond":{"links":3,"mode":"active-backup","arpInterval":50,"arpIPTargets":["10.0.0.1"],"primary":"enp1s0","antiAffinity":"nic"},"deviceIDs":["3b:01.0","3b:01.1","3c:01.0"]`))
	f.Add(strict(`"bond":{"mode":"802.3ad","force":true}`))
	f.Add(strict(`"segment":"storage"`))
	f.Add(with(`"segment":"-Storage.\u0000"`))
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := Parse([]byte(raw))
		if err != nil {
			if !errors.Is(err, vf.ErrInvalid) && !errors.Is(err, ErrVersion) {
				t.Fatalf("undocumented error %v", err)
			}
			wantShort(t, err.Error())
			return
		}
		if !IsName(c.Name) || !IsName(strings.Replace(c.Pool+"x", "/", "", 1)) {
			t.Fatalf("network %q, pool %q", c.Name, c.Pool)
		}
		for _, o := range c.Valid {
			if !IsName(o.UID) || !IsIfName(o.Interface) {
				t.Fatalf("attachment %+v", o)
			}
		}
		if c.Bond != nil {
			checkBond(t, c)
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

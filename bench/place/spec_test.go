package place

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Spec{
		"host":                        {Kind: Host},
		"netns:a":                     {Kind: Host, Netns: "/run/netns/a"},
		"netns:/var/run/netns/a":      {Kind: Host, Netns: "/var/run/netns/a"},
		"pid:17":                      {Kind: Host, Netns: "/proc/17/ns/net"},
		"ssh:root@b":                  {Kind: SSH, Machine: "root@b"},
		"ssh:b,netns=c":               {Kind: SSH, Machine: "b", Netns: "/run/netns/c"},
		"lab:culvert/worker01":        {Kind: Lab, Machine: "culvert/worker01"},
		"lab:culvert/worker01,pid=23": {Kind: Lab, Machine: "culvert/worker01", Netns: "/proc/23/ns/net"},
		"host,vm=db1,by=ssh a sh":     {Kind: Host, VM: "db1", By: "ssh a sh"},
		"ssh:b,vf=esxi01/vmnic2#3":    {Kind: SSH, Machine: "b", VF: "esxi01/vmnic2#3"},
		"host,pci=0000:01:10.2":       {Kind: Host, PCI: "0000:01:10.2"},
		"ssh:b,pci=0000:01:10.2":      {Kind: SSH, Machine: "b", PCI: "0000:01:10.2"},
		"ssh:b,vm=db1,by=x,y=z 'w'":   {Kind: SSH, Machine: "b", VM: "db1", By: "x,y=z 'w'"},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "begins with none of",
		"nets:a":            "did you mean netns?",
		"host:a":            "nothing but ,vm=NAME and ,pci=ADDRESS may follow",
		"netns:":            "no name of a network namespace",
		"netns:..":          "no name of a network namespace",
		"netns:a,netns=b":   "too much",
		"pid:one":           "no process id",
		"pid:-1":            "no process id",
		"ssh:":              "names no machine",
		"ssh:-oProxy=x":     "names no machine",
		"ssh:b,nets=c":      "did you mean netns?",
		"ssh:b,user=c":      "not netns=NAME, pid=N, vm=NAME, pci=ADDRESS or, after ssh:, vf=HOST/PORT#INDEX",
		"host,netns=a":      "nothing but ,vm=NAME",
		"host,vm=":          "names no virtual machine",
		"netns:a,vm=b,by=c": "too much",
		"ssh:b,vm=c":        "after vm=c follows by=COMMAND",
		"ssh:b,vm=c,by=":    "after vm=c follows by=COMMAND",
		"ssh:b,vf=vmnic2#1": "is not HOST/PORT#INDEX, such as esxi01/vmnic2#0",
		"ssh:b,vf=e/vmnic2": "is not HOST/PORT#INDEX",
		"ssh:b,vf=e/v#-1":   "is not HOST/PORT#INDEX",
		"lab:a/b,vf=e/v#1":  "is not netns=NAME",
		"ssh:b,pci=01":      "01",
		"netns:a,pci=b":     "too much",
		"lab:worker01":      "LAB/NODE",
		"lab:culvert/":      "LAB/NODE",
		"lab:d/w,netns=a/b": "no name of a network namespace",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "ssh:USER@HOST") {
			t.Errorf("%q: %v; want %q and the forms in it", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"host", "netns:a", "ssh:root@b,netns=c", "lab:culvert/worker01,pid=3", "pid:9", "host,vm=a,by=b", "ssh:b,vf=a/b#1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if strings.HasPrefix(s.Machine, "-") {
			t.Errorf("%q would be an option of ssh", s.Machine)
		}
		if s.Kind != Host {
			again, err := Parse(s.String())
			if err != nil || again != s {
				t.Errorf("%q is %+v, and its name %s is %+v, %v", text, s, s, again, err)
			}
		}
	})
}

package claims

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// hostileTrees are trees whose reading must stay cheap.
func hostileTrees() map[string]map[string]string {
	const write = "echo 4 > /sys/class/net/enp1s0f0/device/sriov_numvfs\n"
	many := map[string]string{}
	for i := range 3 * maxFiles {
		many[fmt.Sprintf("etc/systemd/system/%d.service", i)] = "[Service]\nExecStart=/bin/sh -c '" + strings.TrimSpace(write) + "'\n"
	}
	chain := map[string]string{"etc/rc.local": "#!/bin/sh\n/opt/0\n"}
	for i := range 3 * maxScripts {
		chain[fmt.Sprintf("opt/%d", i)] = fmt.Sprintf("#!/bin/sh\n/opt/%d\n/opt/%d\n", i+1, i+2)
	}
	large := map[string]string{}
	for i := range 2 * maxTotal / maxFile {
		large[fmt.Sprintf("etc/init.d/%03d", i)] = "#!/bin/sh\n" + strings.Repeat("# nothing\n", maxFile/10-10)
	}
	return map[string]map[string]string{
		"many files":        many,
		"scripts":           chain,
		"large files":       large,
		"continued lines":   {"etc/rc.local": strings.Repeat("a \\\n", maxFile/4-1), "etc/systemd/network/a.link": strings.Repeat("a \\\n", maxFile/4-1), "etc/network/interfaces": strings.Repeat("a \\\n", maxFile/4-1)},
		"many lines":        {"etc/rc.local": strings.Repeat(write, maxFile/len(write)-1)},
		"a wide loop":       {"etc/rc.local": "A='" + strings.Repeat("x ", 5000) + "'\n" + strings.Repeat("A=$A$A$A\n", 40) + strings.Repeat("for i in $A$A; do for j in $A$A; do ip link set $i$j vf $i$A mac $j; done; done\n", 300)},
		"a long variable":   {"etc/rc.local": "A=xxxxxxxx\n" + strings.Repeat("A=$A$A\n", 5000) + "echo $A > /sys/class/net/$A/device/sriov_numvfs\n"},
		"many words":        {"etc/rc.local": "A='" + strings.Repeat("x ", 5000) + "'\n" + strings.Repeat("for i in $A; do for j in $A; do ip link set"+strings.Repeat(" $i$j", 2000)+" vf $i mac $j; done; done\n", 80)},
		"many assignments":  {"etc/rc.local": "A=xxxxxxxx\n" + strings.Repeat("A=$A$A\n", 140000)},
		"braces":            {"etc/rc.local": "for i in " + strings.Repeat("{1..9999}", 500) + "; do ip link set enp1s0f0 vf $i mac x; done\n"},
		"nested shells":     {"etc/rc.local": strings.Repeat("sh -c \"", 2000) + write},
		"quotes":            {"etc/rc.local": strings.Repeat("$(\"'`", maxLine) + "\n"},
		"functions":         {"etc/rc.local": callsOf(40)},
		"nested functions":  {"etc/rc.local": nestedFunctions(10000)},
		"replacements":      {"etc/rc.local": "A=x\n" + strings.Repeat("A=${A//x/"+strings.Repeat("x", 1000)+"}\n", 900)},
		"open functions":    {"etc/rc.local": strings.Repeat("f() {\n", 100_000)},
		"open lists":        {"etc/rc.local": strings.Repeat("A=(\n", 200_000)},
		"open conditions":   {"etc/rc.local": strings.Repeat("$(dirname $(cd `", 60_000)},
		"rules":             {"etc/udev/rules.d/a.rules": strings.Repeat(`KERNEL=="a|b|c*", ATTR{sriov_numvfs}="4"`+"\n", 20000)},
		"YAML with aliases": {"etc/os-net-config/config.yaml": "a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\n" + strings.Repeat("- [", 2000)},
		"many maps":         {"etc/os-net-config/config.yaml": strings.Repeat("- {type: sriov_pf, name: enp1s0f0, numvfs: 4}\n", 20000)},
	}
}

// callsOf returns functions of which each calls the next one twice.
func callsOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "f%d() {\nf%d $1\nf%d $1\n}\n", i, i+1, i+1)
	}
	return b.String() + "f0 enp1s0f0\n"
}

// nestedFunctions returns functions of which each has the next one in its body.
func nestedFunctions(n int) string {
	var begin, end strings.Builder
	for i := range n {
		fmt.Fprintf(&begin, "f%d() {\n", i)
		fmt.Fprintf(&end, "}\nf%d\n", n-1-i)
	}
	return begin.String() + end.String()
}

// readTree reads a tree, and measures the time.
func readTree(files map[string]string) (l loader, rules Rules, claims []Claim, took time.Duration) {
	root := fstest.MapFS{"run/network/ifstate": {}}
	for file, text := range files {
		root[file] = &fstest.MapFile{Data: []byte(text)}
	}
	began := time.Now()
	l = loader{root: root}
	rules = readAll(&l)
	return l, rules, rules.On(host()), time.Since(began)
}

// TestHostileTrees: a tree of any size or content costs a bounded time, in multiples of that of a file
// with as many plain lines as there may be, and a bounded number of claims.
func TestHostileTrees(t *testing.T) {
	all := hostileTrees()
	_, _, _, floor := readTree(all["many lines"])
	for name, files := range all {
		t.Run(name, func(t *testing.T) {
			l, rules, claims, took := readTree(files)
			if took > 50*floor {
				t.Errorf("it took %s, and many lines take %s", took, floor)
			}
			if len(rules.byHand) > maxLines || len(claims) > 8*maxLines || len(l.errs) > maxErrors || l.total > maxTotal+maxFile || len(l.named) > 8*maxFiles {
				t.Errorf("%d lines, %d claims, %d errors, %d bytes, %d scripts", len(rules.byHand), len(claims), len(l.errs), l.total, len(l.named))
			}
			t.Logf("%s, %d lines, %d bytes, errors %v", took.Round(time.Millisecond), len(rules.byHand), l.total, l.errs)
		})
	}
}

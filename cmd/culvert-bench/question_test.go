package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench/preset"
)

// A question's flags are read as people write them, and a wrong one is named before an agent starts.
func TestQuestionFlags(t *testing.T) {
	for line, want := range map[string]preset.Question{
		"": {},
		"--ask udp --rate 1000 --load 10,50,90% --size 64": {Ask: "udp", Rate: 1000, Loads: []int{10, 50, 90}, Sizes: []int{64}},
		"--send udp --streams 4 --direction both":          {Send: "udp", Streams: 4, Direction: "both"},
		"--send udp --rate 2.5Gb/s":                        {Send: "udp", Rate: 2500, RateUnit: preset.Bits},
		"--rate 500kbit":                                   {Rate: 0.5, RateUnit: preset.Bits},
		"--ask tcp --rate 1000/s":                          {Ask: "tcp", Rate: 1000, RateUnit: preset.Questions},
		"--ask tcp --rate 50k/s":                           {Ask: "tcp", Rate: 50000, RateUnit: preset.Questions},
		"--ask tcp --rate 0.5":                             {Ask: "tcp", Rate: 0.5},
		"--size 64,1k,2M --dscp 10":                        {Sizes: []int{64, 1 << 10, 2 << 20}, DSCP: 10},
		"--dscp EF":                                        {DSCP: 46},
		"--dscp af41":                                      {DSCP: 34},
		"--dscp cs5":                                       {DSCP: 40},
		"--dscp le":                                        {DSCP: 1},
	} {
		var got preset.Question
		cmd := &cobra.Command{}
		addQuestionFlags(cmd, &got)
		err := cmd.ParseFlags(strings.Fields(line))
		if diff := cmp.Diff(want, got); err != nil || got.Check(nil) != nil || diff != "" {
			t.Errorf("%s: %v, %v: %s", line, err, got.Check(nil), diff)
		}
	}
	for line, want := range map[string]string{
		"--ask icmp":                   "take tcp, udp, connect",
		"--send sctp":                  "take tcp, udp",
		"--direction up":               "take there, back, both",
		"--ask tcp --send udp":         "take one",
		"--load 50":                    "for --ask",
		"--ask tcp --load 0":           "1 to 100",
		"--ask tcp --load half":        "no percent",
		"--ask udp --direction both":   "--direction back",
		"m4 --ask tcp":                 "leave out m4",
		"--dscp 64":                    "0 to 63",
		"--dscp af44":                  "af11 to af43",
		"--size 1X":                    "64,1K,64K",
		"--size 5000M":                 "no number of bytes",
		"--ask udp --size 8":           "want 16 to 65507",
		"--streams -1":                 "from 1 to 1024",
		"--send udp --rate -1":         "want Mb/s of --send such as 200, 500M or 10Gb/s, or questions a second of --ask such as 1000",
		"--send udp --rate 10GB/s":     "want Mb/s",
		"--ask tcp --rate 5kb/s/s":     "want Mb/s",
		"--ask tcp --rate 2000000k/s":  "at most 1000000000",
		"--ask tcp --rate 10Gb/s":      "--ask tcp counts questions: take questions a second, such as --rate 1000/s, or --send",
		"--send udp --rate 1000/s":     "--send counts bits: take such as --rate 200M",
		"--rate 1000/s":                "--send counts bits",
		"--ask connect --streams 5000": "from 1 to 1024",
	} {
		_, err := execute(t, append([]string{"run", "--from", "netns:a", "--to", "netns:b"}, strings.Fields(line)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// TestAsk runs the whole program with a question beside a load, and with streams both ways of two
// sizes, between two namespaces without a VF.
func TestAsk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	from, to := joinTwo(t)
	dir := t.TempDir()
	program := build(t, dir, "culvert-bench")
	for _, c := range []struct {
		line  string
		arms  []string
		shows string
	}{
		{"--ask udp --rate 300 --load 50", []string{"veth idle", "veth load 50 %"}, "TCP BESIDE"},
		{"--send tcp --direction both --size 1K,64K --dscp ef", []string{"veth 1 KiB both ways", "veth 64 KiB both ways"}, "AT ONCE"},
	} {
		file := filepath.Join(dir, "result.json")
		args := append([]string{"run", "--rough", "--quick", "--seconds", "1", "--repeats", "1", "--from", "netns:" + from, "--to", "netns:" + to, "--out", file}, strings.Fields(c.line)...)
		r, shown, said, err := measure(t, program, file, args)
		var names []string
		for _, a := range r.Arms {
			names = append(names, a.Name)
		}
		// On a busy machine all runs may be void: then the program reports that.
		if !slices.Equal(names, c.arms) || (err == nil) != (r.Unfinished == "") || !strings.Contains(shown, c.shows) {
			t.Errorf("%s: %v, %q, unfinished %q: %s%s", c.line, err, names, r.Unfinished, shown, said)
		}
		t.Logf("%s", shown)
	}
}

// joinTwo makes two network namespaces with a veth pair between them, and returns their names.
func joinTwo(t *testing.T) (from, to string) {
	t.Helper()
	from, to = fmt.Sprintf("cvask%d-0", os.Getpid()), fmt.Sprintf("cvask%d-1", os.Getpid())
	ip := func(argv string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(argv)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", argv, err, out)
		}
	}
	for _, name := range []string{from, to} {
		ip("netns add " + name)
		t.Cleanup(func() { ip("netns del " + name) })
	}
	ip("-n " + from + " link add name v0 type veth peer name v1 netns " + to)
	for i, name := range []string{from, to} {
		ip("-n " + name + " addr add 10.95.0." + string(rune('1'+i)) + "/24 dev v" + string(rune('0'+i)))
		ip("-n " + name + " link set v" + string(rune('0'+i)) + " up")
	}
	return from, to
}

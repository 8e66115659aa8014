package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
)

// TestEncode: YAML has the fields of JSON in the order of JSON, and text that
// looks like something else stays text.
func TestEncode(t *testing.T) {
	v := struct {
		Zulu  string   `json:"zulu"`
		Alpha []string `json:"alpha"`
		None  []int    `json:"none"`
		Text  string   `json:"text"`
	}{"true", []string{"8086", "1e3", "x: y", "no", "12:30:00:00:00:01"}, []int{}, "a\nb\n"}
	var b bytes.Buffer
	if err := Encode(&b, YAML, v); err != nil {
		t.Fatal(err)
	}
	want := "zulu: \"true\"\nalpha:\n  - \"8086\"\n  - \"1e3\"\n  - 'x: y'\n  - \"no\"\n  - \"12:30:00:00:00:01\"\nnone: []\ntext: |\n  a\n  b\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestYAMLIsJSON: a whole status has the same content in both formats.
func TestYAMLIsJSON(t *testing.T) {
	raw, err := os.ReadFile("../../node/status/testdata/node.json")
	if err != nil {
		t.Fatal(err)
	}
	var st api.NodeStatus
	if err := json.Unmarshal(raw, &st); err != nil {
		t.Fatal(err)
	}
	var j, y bytes.Buffer
	if err := Encode(&j, JSON, st); err != nil {
		t.Fatal(err)
	}
	if err := Encode(&y, YAML, st); err != nil {
		t.Fatal(err)
	}
	var fromJSON, fromYAML any
	if err := json.Unmarshal(j.Bytes(), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(y.Bytes(), &fromYAML); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatal(err)
	}
	var back any
	if err := json.Unmarshal(again, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, back); diff != "" {
		t.Errorf("(-JSON +YAML):\n%s", diff)
	}
}

func TestEncodeLine(t *testing.T) {
	event := api.Event{Seq: 1, Time: time.Date(2026, 11, 21, 20, 41, 0, 0, time.UTC), Type: "Normal", Reason: "Attached", Object: "VF 0000:01:10.0", Text: "vf 0 of enp1s0f0 to pod default/a, network default/sriov-net1"}
	for format, want := range map[string]string{
		JSON: "{\"seq\":1,\"time\":\"2026-11-21T20:41:00Z\",\"type\":\"Normal\",\"reason\":\"Attached\",\"object\":\"VF 0000:01:10.0\",\"text\":\"vf 0 of enp1s0f0 to pod default/a, network default/sriov-net1\"}\n",
		YAML: "---\nseq: 1\ntime: \"2026-11-21T20:41:00Z\"\ntype: Normal\nreason: Attached\nobject: VF 0000:01:10.0\ntext: vf 0 of enp1s0f0 to pod default/a, network default/sriov-net1\n",
	} {
		var b bytes.Buffer
		if err := EncodeLine(&b, format, event); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestIsUTF8(t *testing.T) {
	for _, tc := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "en_GB.UTF-8"}, true},
		{map[string]string{"LANG": "C.utf8"}, true},
		{map[string]string{"LANG": "en_GB.UTF-8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, true},
	} {
		if got := isUTF8(func(k string) string { return tc.env[k] }); got != tc.want {
			t.Errorf("%v: %v", tc.env, got)
		}
	}
}

// runRoot runs a program's root command with a command and a hidden one.
func runRoot(args ...string) (string, int) {
	up := &cobra.Command{Use: "up", RunE: func(*cobra.Command, []string) error { return ExitStatus(7) }}
	hidden := &cobra.Command{Use: "hidden", Hidden: true, RunE: func(*cobra.Command, []string) error { return errors.New("it broke") }}
	root := NewRoot("lab", "v1.2.3", &cobra.Command{Short: "short"}, up, hidden)
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetArgs(args)
	status := Run(root)
	return b.String(), status
}

// A pod, another host or a file may be the source of a part of an error. The terminal does not act
// upon it, and its lines stay.
func TestErrorsAreHarmless(t *testing.T) {
	root := NewRoot("lab", "v1.2.3", &cobra.Command{}, &cobra.Command{
		Use: "up", RunE: func(*cobra.Command, []string) error { return errors.New("the agent said \x1b]0;hostile\a\nand left") },
	})
	var b strings.Builder
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetArgs([]string{"up"})
	if status := Run(root); status != 1 || b.String() != `culvert lab: the agent said \x1b]0;hostile\a`+"\nand left\n" {
		t.Errorf("status %d: %q", status, b.String())
	}
}

// TestRun: a program that culvert execs calls itself "culvert WORD", as the
// user did. It refuses a word that is none of its commands, and has the exit
// status of its command.
func TestRun(t *testing.T) {
	for _, tc := range []struct {
		line, want string
		status     int
	}{
		{"", "culvert lab [command]", 0},
		{"version", "culvert-lab v1.2.3 (go", 0},
		{"upp", `culvert lab: culvert lab has no command "upp": did you mean up?` + "\n", 1},
		{"nothing", `culvert lab: culvert lab has no command "nothing": it has up, version` + "\n", 1},
		{"hidden", "culvert lab: it broke\n", 1},
		{"up", "", 7},
		{"up --none", "culvert lab: culvert lab up has no flag --none: culvert lab up --help lists its flags\n", 1},
		{"--version", "culvert lab version v1.2.3", 0},
		{"help up", "culvert lab up", 0},
		{"help upp", `culvert lab: culvert lab has no command "upp": did you mean up?` + "\n", 1},
		{"completion tcsh", `culvert lab: culvert lab completion has no command "tcsh": it has bash, fish, powershell, zsh` + "\n", 1},
		{"__complete v", "version\tShow", 0},
	} {
		out, status := runRoot(strings.Fields(tc.line)...)
		if status != tc.status || !strings.Contains(out, tc.want) || tc.status != 0 && out != tc.want {
			t.Errorf("%q: status %d, want %d: %q, want %q", tc.line, status, tc.status, out, tc.want)
		}
	}
}

func TestFormat(t *testing.T) {
	cmd := &cobra.Command{}
	f := AddFormat(cmd, "what to write", JSON, Wide)
	if err := cmd.ParseFlags([]string{"-o", "yaml"}); err == nil || !strings.Contains(err.Error(), "want json or wide") {
		t.Error(err)
	}
	for format, forPrograms := range map[string]bool{JSON: true, Wide: false} {
		if err := cmd.ParseFlags([]string{"-o", format}); err != nil || f.String() != format || f.IsForPrograms() != forPrograms {
			t.Errorf("%s: %v, for programs %t", f, err, f.IsForPrograms())
		}
	}
}

// TestScreenOfAFile: output that is no terminal gets 100 columns and no colour.
func TestScreenOfAFile(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, w := range []io.Writer{null, &bytes.Buffer{}} {
		if got, want := ScreenOf(w, os.Getenv), (Screen{Look: screen.Look{Width: 100, Unicode: true}}); got != want {
			t.Errorf("%T: %+v", w, got)
		}
	}
}

// TestRates: rates of flags have the units that people write.
func TestRates(t *testing.T) {
	for text, want := range map[string]uint32{
		"0": 0, "100": 100, "1000M": 1000, "10G": 10000, "2.5G": 2500, "2.5Gbit": 2500, "40 Gb/s": 40000, "25gbit/s": 25000, "500Mbps": 500, "1T": 1000000, "4294967295": 4294967295,
		"1000K": 1, "1000000 bit/s": 1,
	} {
		var got uint32
		cmd := &cobra.Command{}
		AddRate(cmd, &got, "rate", "a rate")
		if err := cmd.ParseFlags([]string{"--rate", text}); err != nil || got != want {
			t.Errorf("%s: %d, want %d: %v", text, got, want, err)
		}
	}
	for _, text := range []string{"", "G", "-1", "1.5", "1.5M", "10Gbit/h", "10GiB", "1e3", "0x10", "inf", "NaN", "4294967296", "5000T", "1 000", "10K", "10MG", "10GB/s", "100 B/s", "200b/s"} {
		var got uint32
		cmd := &cobra.Command{}
		AddRate(cmd, &got, "rate", "a rate")
		if err := cmd.ParseFlags([]string{"--rate", text}); err == nil || !strings.Contains(err.Error(), "want Mb/s") || got != 0 {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}

// A rate without a unit is one of Mb/s, whatever its caller does with it.
func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{"500kb/s": 0.5, "200 bit/s": 0.0002, "10GB/s": -1, "10 GBps": -1, "": -1, "b/s": -1} {
		if v, hasUnit, ok := ParseRate(text); ok != (want >= 0) || ok && (v != want || !hasUnit) {
			t.Errorf("%s: %v, %v, %v", text, v, hasUnit, ok)
		}
	}
	if v, hasUnit, ok := ParseRate("0.2"); v != 0.2 || hasUnit || !ok {
		t.Errorf("%v, %v, %v", v, hasUnit, ok)
	}
}

// A time in seconds may have a unit.
func TestSeconds(t *testing.T) {
	for text, want := range map[string]float64{"10": 10, "0.5": 0.5, "500ms": 0.5, "2m": 120, "1h30m": 5400, "": -1, "half": -1, "-1": -1, "3h": -1, "1ms": -1} {
		var got float64
		cmd := &cobra.Command{}
		AddSeconds(cmd, &got, "seconds", 0.1, 7200, "how long")
		err := cmd.ParseFlags([]string{"--seconds", text})
		switch {
		case want < 0 && (err == nil || !strings.Contains(err.Error(), "want seconds from 0.1 to 7200, or a time with a unit such as 90s or 2m")):
			t.Errorf("%s: %v", text, err)
		case want >= 0 && (err != nil || got != want):
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestHints: what a hint knows of an error stands below it.
func TestHints(t *testing.T) {
	root := NewRoot("lab", "v1.2.3", &cobra.Command{}, &cobra.Command{Use: "up", RunE: func(*cobra.Command, []string) error { return io.EOF }})
	var b strings.Builder
	root.SetErr(&b)
	root.SetArgs([]string{"up"})
	status := Run(root, func(error) string { return "" }, func(err error) string { return "after " + err.Error() + "\n" })
	if status != 1 || b.String() != "culvert lab: EOF\nafter EOF\n" {
		t.Errorf("status %d: %q", status, b.String())
	}
}

// newTool returns a root command with flags and arguments of each kind.
func newTool() *cobra.Command {
	var word, text string
	var count int
	var small uint8
	var whole int
	var part float64
	var wait time.Duration
	var both, either bool
	get := &cobra.Command{
		Use: "get NAME [PLACE]", Aliases: []string{"g"}, Short: "Get it", Args: cobra.RangeArgs(1, 2), RunE: func(*cobra.Command, []string) error { return nil },
		Example: "  # a name\n  tool get <<EOF\n  tool get a \\\n    --long\n  tool get a  # the first\n  sudo tool get a --word=left\n",
	}
	AddChoice(get, &word, "word", "a word", "left", "right")
	count = 2
	AddCount(get, &count, "count", 1, 3, "how many")
	f := get.Flags()
	f.StringVar(&text, "text", "", "a `TEXT` to get")
	f.Uint8Var(&small, "small", 0, "a small one")
	f.IntVar(&whole, "whole", 0, "a whole one")
	f.Float64Var(&part, "part", 0, "a part")
	f.DurationVar(&wait, "wait", 0, "how long")
	f.BoolVar(&both, "both", false, "both")
	f.BoolVar(&either, "either", false, "either")
	get.MarkFlagsMutuallyExclusive("both", "either")
	bare := &cobra.Command{Use: "bare", Short: "Nothing", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {}}
	root := &cobra.Command{Use: "tool", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(get, bare)
	Explain(root)
	return root
}

// TestExplain: an error about a command line names the command or the flag, what that takes, and a next
// step.
func TestExplain(t *testing.T) {
	for line, want := range map[string]string{
		"get":                         "tool get takes NAME [PLACE], and got nothing: for example: tool get a",
		"get a b c":                   `tool get takes NAME [PLACE], and got "a b c": for example: tool get a`,
		"bare x":                      `tool bare takes no arguments, and got "x": tool bare --help shows its flags`,
		"gte":                         `tool has no command "gte": did you mean get?`,
		"help gte":                    `tool has no command "gte": did you mean get?`,
		"help bare x":                 `tool bare has no commands, and so no "x": tool bare --help shows what it takes`,
		"get a --wrod left":           "tool get has no flag --wrod: did you mean --word?",
		"get a --nothing-like-it":     "tool get has no flag --nothing-like-it: tool get --help lists its flags",
		"get a -z":                    "tool get has no flag -z: tool get --help lists its flags",
		"get a --text":                "tool get: --text needs a value (a TEXT to get): tool get --help shows its flags",
		"get a --word":                `tool get: --word needs a value (a word: left, right): for example: sudo tool get a --word=left`,
		"get a --=x":                  `tool get: "--=x" is no flag: flags are like --name=value: for example: tool get a`,
		"get a --word lfet":           `tool get: --word "lfet": want left or right: did you mean left?`,
		"get a --count 4":             `tool get: --count "4": want a whole number from 1 to 3`,
		"get a --wait 10":             `tool get: --wait "10": want a time such as 90s or 500ms`,
		"get a --both=2":              `tool get: --both "2": want true or false`,
		"get a --both --either":       "tool get: --both and --either exclude each other: leave all but one out",
		"get a b --both --word right": "",
		"help get":                    "",
		"g a --count 3 --wait 1m --part 0.5 --small 255": "",
	} {
		root := newTool()
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestUsage: the help of a command has its parts in order, and its flags fit 100 columns.
func TestUsage(t *testing.T) {
	root := newTool()
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs([]string{"get", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, part := range []string{"Usage:\n  tool get NAME [PLACE] [flags]\n", "\nAliases:\n  get, g\n", "\nExamples:\n", "\nFlags:\n", "--count number", "(default 2)", "--word word"} {
		i := strings.Index(out.String()[at:], part)
		if i < 0 {
			t.Fatalf("%q is not in, or not in its place:\n%s", part, out.String())
		}
		at += i
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 101 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// TestHelpFits: prose is wrapped anew on a narrow terminal; examples stay lines, which are broken.
func TestHelpFits(t *testing.T) {
	c := &cobra.Command{
		Use: "get", Short: "Get it", Run: func(*cobra.Command, []string) {}, Example: "  tool get --of-a-long-name value --of-another-long-name value",
		Long: "Gets a thing from the place where\nit is, and puts it where it was.\n\nThe places:\n  left   on the left side of the thing\n",
	}
	(&cobra.Command{Use: "tool"}).AddCommand(c)
	if got := Help(c, screen.Look{Width: 100}); !strings.HasPrefix(got, c.Long+"\nUsage:\n  tool get\n\nExamples:\n"+c.Example+"\n") {
		t.Errorf("it is changed where it fits:\n%s", got)
	}
	want := "Gets a thing from the place\nwhere it is, and puts it where\nit was.\n\nThe places:\n  left   on the left side of\n    the thing\n\nUsage:\n"
	if got := Help(c, screen.Look{Width: 30}); !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestCompletion: the shell gets the words of a flag, and the commands after help.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{"get a --word ": "left\nright\n:4\n", "help ": "bare\n", "help g": "get\n"} {
		root := newTool()
		var out strings.Builder
		root.SetOut(&out)
		words := strings.Split(line, " ")
		root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, words...))
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v: %q, want %q", line, err, out.String(), want)
		}
	}
}

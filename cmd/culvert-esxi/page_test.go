package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/test/promises"
	"github.com/culvert-net/culvert/test/vcsim"
)

var (
	fences = regexp.MustCompile("(?ms)^```(yaml)?\n(.*?\n)```$")
	anyMAC = regexp.MustCompile(`00:0c:29(:[0-9a-f]{2}){3}`)
)

// TestPage follows docs/esxi.md: with its file, on a host of the model, it runs each command as it
// stands, and compares the outputs that the page shows. The host chooses MAC addresses.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/esxi.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	var shown []string
	spec, login := "", ""
	for _, f := range fences.FindAllStringSubmatch(page, -1) {
		switch {
		case f[1] == "":
			shown = append(shown, f[2])
		case spec == "":
			spec = f[2]
		default:
			login = f[2]
		}
	}
	m := vcsim.New(t, vcsim.Options{MaxVFs: 32})
	p := newPerson(t)
	p.env = map[string]string{"HOME": p.env["HOME"]}
	spec = regexp.MustCompile(`(?m)^server: .*$`).ReplaceAllString(spec, "server: "+m.Server)
	if err := os.WriteFile("login.yaml", []byte(login), 0o644); err != nil { // the page makes it private
		t.Fatal(err)
	}
	writeFile(t, "esxi.yaml", regexp.MustCompile(`(?m)^thumbprint: .*$`).ReplaceAllString(spec, "thumbprint: "+m.Thumbprint))
	var outputs []string
	seen := map[string]bool{}
	for _, command := range promises.Commands(page) {
		line, isESXi := strings.CutPrefix(command, "culvert esxi ")
		if strings.HasPrefix(command, "rm ") { // the commands behind it use the environment
			p.env["CULVERT_ESXI_USER"], p.env["CULVERT_ESXI_PASSWORD"] = vcsim.User, vcsim.Password
		}
		if !isESXi && strings.HasSuffix(command, " login.yaml") {
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", command, err, out)
			}
		}
		if !isESXi { // culvert-bench.TestPageIsUnderstood has those that measure
			continue
		}
		words := strings.Fields(line)
		if seen[words[0]] && len(words) == 1 { // the name of a command, in a sentence
			continue
		}
		seen[words[0]] = true
		switch words[0] {
		case "login":
			p.input = vcsim.Password + "\n"
		case "apply", "remove":
			p.input = "y\n"
		}
		out, err := p.run(t, words...)
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		outputs = append(outputs, out)
	}
	for _, want := range shown {
		if !slices.ContainsFunc(outputs, func(out string) bool { return hideMAC(out) == hideMAC(want) }) {
			t.Errorf("no command prints what the page shows:\n%s\nthe nearest is, -page +output:\n%s", want, nearest(want, outputs))
		}
	}
	if len(shown) < 3 || len(outputs) < 10 {
		t.Errorf("the page has %d outputs and %d commands", len(shown), len(outputs))
	}
	if _, err := os.Stat("esxi.yaml.made"); err == nil {
		t.Error("remove has left something")
	}
}

func hideMAC(text string) string { return anyMAC.ReplaceAllString(text, "MAC") }

// nearest returns the difference to the output with the same first lines.
func nearest(want string, outputs []string) string {
	best := ""
	for _, out := range outputs {
		diff := cmp.Diff(strings.Split(hideMAC(want), "\n"), strings.Split(hideMAC(out), "\n"))
		if best == "" || len(diff) < len(best) {
			best = diff
		}
	}
	return best
}

// TestReports: the rows of R2's measurements name the commands that repeat them, which docs/esxi.md
// has.
func TestReports(t *testing.T) {
	reports, err := os.ReadFile("../../docs/reports.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/esxi.md")
	if err != nil {
		t.Fatal(err)
	}
	for row, command := range map[string]string{
		"M7": "culvert bench run m7", "M8": "culvert bench run m8", "M9": "culvert bench run m9", "**R2**": "culvert esxi",
	} {
		i := strings.Index(string(reports), map[bool]string{true: "- ", false: "| "}[row == "**R2**"]+row)
		paragraph, _, _ := strings.Cut(string(reports)[max(i, 0):], map[bool]string{true: "\n- ", false: "\n|"}[row == "**R2**"])
		if i < 0 || !strings.Contains(paragraph, command) || !strings.Contains(string(page), command) {
			t.Errorf("%s does not name %s, or docs/esxi.md does not: %s", row, command, paragraph)
		}
	}
}

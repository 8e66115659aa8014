package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// manual is a manual page of a program: man(7) text made of the help of all its commands.
type manual struct {
	program string
	section string
	aliases []string // other names of the program
	skip    []string // commands that have a page of their own, or that every cobra program has
}

// manuals has the pages of each package.
var manuals = map[string][]manual{
	hostPackage: {
		{program: "culvert", section: "1", aliases: []string{"kubectl-culvert", "kubectl_complete-culvert"}, skip: []string{"bench", "esxi", "lab"}},
		{program: "culvertd", section: "8"},
	},
	"culvert-bench": {{program: "culvert-bench", section: "1"}},
	"culvert-esxi":  {{program: "culvert-esxi", section: "1"}},
	"culvert-lab":   {{program: "culvert-lab", section: "1"}},
}

// writeManuals writes the manual pages of a package to the folder to. It runs copies of the programs
// in bin, which are for this machine: the help of a program in build/bin names the source tree.
func writeManuals(ctx context.Context, p pkg, bin, to string) error {
	work, err := os.MkdirTemp("", "culvert-manuals-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	text, err := texts.ReadFile("description/" + p.name + ".yaml")
	if err != nil {
		return err
	}
	_, summary, _ := strings.Cut(string(text), "description: |\n  ")
	summary, _, _ = strings.Cut(summary, "\n")
	for _, m := range manuals[p.name] {
		program, err := os.ReadFile(filepath.Join(bin, m.program))
		if err != nil {
			return err
		}
		if err := putFile(filepath.Join(work, m.program), program, 0o755); err != nil {
			return err
		}
		body, err := m.format(ctx, work, summary, p)
		if err != nil {
			return err
		}
		dir := filepath.Join(to, "man"+m.section)
		if err := putCompressed(filepath.Join(dir, m.program+"."+m.section+".gz"), body); err != nil {
			return err
		}
		for _, alias := range m.aliases {
			link := filepath.Join(dir, alias+"."+m.section+".gz")
			if err := os.Symlink(m.program+"."+m.section+".gz", link); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
		}
	}
	return nil
}

// format returns the text of the page.
func (m manual) format(ctx context.Context, bin, summary string, p pkg) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s %s %s \"Culvert %s\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(m.program), m.section, p.when.Format("2006-01-02"), p.version, m.program, summary)
	err := m.addCommand(ctx, &b, filepath.Join(bin, m.program), nil)
	return b.Bytes(), err
}

// addCommand adds the help of a command, and of the commands below it.
func (m manual) addCommand(ctx context.Context, b *bytes.Buffer, program string, words []string) error {
	cmd := exec.CommandContext(ctx, program, append(slices.Clone(words), "--help")...)
	cmd.Dir, cmd.Env = "/", []string{"HOME=/root", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"} // which defaults name
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s %s --help: %w", program, strings.Join(words, " "), err)
	}
	if len(words) > 0 {
		fmt.Fprintf(b, ".SH %s\n", escapeRoff(strings.ToUpper(m.program+" "+strings.Join(words, " "))))
	}
	for _, part := range splitHelp(string(out)) {
		heading := ".SS "
		if len(words) == 0 {
			heading = ".SH "
			part.title = strings.ToUpper(part.title)
		}
		fmt.Fprintf(b, "%s%s\n.nf\n%s.fi\n", heading, part.title, escapeRoff(part.body))
	}
	for _, name := range listCommands(string(out)) {
		if len(words) == 0 && slices.Contains(m.skip, name) {
			continue
		}
		if err := m.addCommand(ctx, b, program, append(slices.Clone(words), name)); err != nil {
			return err
		}
	}
	return nil
}

// helpPart is a part of a command's help.
type helpPart struct{ title, body string }

// title matches the line above a part of a help text, as cobra writes it.
var title = regexp.MustCompile(`(?m)^(Usage|Aliases|Examples|Available Commands|Flags|Global Flags):\n`)

// splitHelp splits a help text at the titles of its parts. The text before the first one is the
// description.
func splitHelp(text string) []helpPart {
	text, _, _ = strings.Cut(text, "\nUse \"")
	found := title.FindAllStringSubmatchIndex(text, -1)
	end := len(text)
	if len(found) > 0 {
		end = found[0][0]
	}
	parts := []helpPart{{"Description", strings.TrimSpace(text[:end]) + "\n"}}
	for i, at := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		parts = append(parts, helpPart{text[at[2]:at[3]], strings.TrimRight(text[at[1]:end], "\n") + "\n"})
	}
	return parts
}

// listCommands returns the commands that a help text lists, without those that explain others.
func listCommands(text string) []string {
	var names []string
	for _, part := range splitHelp(text) {
		if part.title != "Available Commands" {
			continue
		}
		for line := range strings.Lines(part.body) {
			if words := strings.Fields(line); strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") && len(words) > 0 && words[0] != "help" && words[0] != "completion" {
				names = append(names, words[0])
			}
		}
	}
	return names
}

// escapeRoff returns text that man shows as it stands (groff_char(7)).
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	return regexp.MustCompile(`(?m)^([.])`).ReplaceAllString(text, `\&$1`)
}

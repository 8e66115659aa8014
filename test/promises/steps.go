package promises

import (
	"fmt"
	"regexp"
	"strings"
)

// Step is a command of a page, and the output that the page shows below it.
type Step struct {
	Command string // as Commands returns it
	Output  string // empty: the page shows none
}

// Steps returns the commands of a page's code blocks in their order. A block between ``` belongs to
// the command above it.
func Steps(page string) []Step {
	var all []Step
	var block strings.Builder // of commands, or an output
	fenced := false
	endBlock := func() {
		for _, c := range Commands(block.String()) {
			all = append(all, Step{Command: c})
		}
		block.Reset()
	}
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(line, "```") && fenced:
			if last := len(all) - 1; last >= 0 {
				all[last].Output = block.String()
			}
			block.Reset()
			fenced = false
		case strings.HasPrefix(line, "```"):
			endBlock()
			fenced = true
		case fenced, strings.HasPrefix(line, "    "):
			block.WriteString(line)
		}
	}
	endBlock()
	return all
}

// Section returns the text of a page below a heading, up to the next heading of the same or a higher
// level.
func Section(page, heading string) (string, error) {
	var out strings.Builder
	level, fenced := 0, false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		marks := len(line) - len(strings.TrimLeft(line, "#"))
		if marks > 0 && !fenced {
			switch is := strings.TrimSpace(line[marks:]) == heading; {
			case level > 0 && marks <= level:
				return out.String(), nil
			case level == 0 && is:
				level = marks
				continue
			}
		}
		if level > 0 {
			out.WriteString(line)
		}
	}
	if level == 0 {
		return "", fmt.Errorf("it has no section %q", heading)
	}
	return out.String(), nil
}

// varying matches the parts of an output that differ from run to run: the random part of a pod's
// name, numbers, and the prefix of a unit.
var varying = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz0-9]{5,10}-[bcdfghjklmnpqrstvwxz0-9]{5}\b|[0-9]+(?:\.[0-9]+)*|\b[KMG](?:Bytes|bits)\b`)

// Missing returns the lines that the page shows and that are not in the real output. It does not
// compare numbers, spaces, and random parts of names. A line "..." stands for further lines.
func (s Step) Missing(output string) []string {
	has := map[string]bool{}
	for line := range strings.Lines(output) {
		has[simplify(line)] = true
	}
	var missing []string
	for line := range strings.Lines(s.Output) {
		if one := simplify(line); one != "" && one != "..." && !has[one] {
			missing = append(missing, strings.TrimSpace(line))
		}
	}
	return missing
}

func simplify(line string) string {
	return varying.ReplaceAllString(strings.Join(strings.Fields(line), " "), "N")
}

// Package promises says which test runs each command that the README, the install
// pages and the Makefile promise.
//
// The table is commands.txt: one line a command, with the test that runs it, the
// level of `make test` that runs it, or the reason why none does. TestEveryCommandIsRun
// compares the table with the pages and the Makefile. Tests of other packages call
// [Make] to run a target, and [Table.Of] to run the commands of a page as they stand.
package promises

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Pages are the documents whose commands people type first.
var Pages = []string{"README.md", "docs/install.md", "docs/air-gapped.md", "docs/kubernetes.md", "docs/migrate.md", "docs/guests.md", "docs/doctor.md", "docs/prepare.md", "docs/cri-o.md", "docs/bench.md", "docs/esxi.md", "docs/quickstart.md", "docs/troubleshooting.md", "docs/operations.md", "docs/alerts.md", "docs/release.md", "docs/ui.md"}

// Row is one command of the table.
type Row struct {
	Command string // as [Commands] returns it
	RunBy   string // "FOLDER.TestName", "soak FOLDER.TestName", "level NAME" or "exception: REASON"
}

// Table is commands.txt.
type Table []Row

// comment matches the comment at the end of a line of shell.
var comment = regexp.MustCompile(`(?m)(^|\s+)#.*$`)

// columns matches the space between a command and the test or level that runs it.
var columns = regexp.MustCompile(`\s{2,}`)

// ParseTable reads commands.txt. Blank lines and lines that start with # are skipped.
func ParseTable(text string) (Table, error) {
	var t Table
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := columns.Split(line, -1)
		if len(cells) != 2 {
			return nil, fmt.Errorf("line %d has %d columns: write the command, two spaces or more, and what runs it", number, len(cells))
		}
		if t.Find(cells[0]) != nil {
			return nil, fmt.Errorf("line %d: %s has a line already", number, cells[0])
		}
		t = append(t, Row{cells[0], cells[1]})
	}
	return t, nil
}

// inSoak begins the name of a test that only make soak runs.
const inSoak = "soak "

// Find returns the row of a command, or nil.
func (t Table) Find(command string) *Row {
	if i := slices.IndexFunc(t, func(r Row) bool { return r.Command == command }); i >= 0 {
		return &t[i]
	}
	return nil
}

// Of returns the commands that a test runs, in the table's order.
func (t Table) Of(test string) []string {
	var all []string
	for _, r := range t {
		if strings.TrimPrefix(r.RunBy, inSoak) == test {
			all = append(all, r.Command)
		}
	}
	return all
}

// inline is a command in a sentence: one of these programs with an argument.
var inline = regexp.MustCompile("`((?:\\S*/)?(?:apt-get|bootstrap|ctr|culvert|culvertd|helm|kubectl|make|podman|systemctl|virsh) [^`]+)`")

// Commands returns the shell commands of a page, without their comments and with single spaces:
// those that its sentences quote, and each line of its code blocks that are indented, as
// Markdown has it, by four spaces or more. A line that ends in a backslash is one with the
// next. Text that is not to be typed stands in a block between ```.
func Commands(page string) []string {
	var all []string
	fenced, open := false, ""
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced:
		case !strings.HasPrefix(line, "    "):
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				all = append(all, m[1])
			}
		default:
			line = strings.Join(strings.Fields(comment.ReplaceAllString(open+line, "")), " ")
			before, more := strings.CutSuffix(line, `\`)
			if open = ""; more {
				open = before
			} else if line != "" {
				all = append(all, line)
			}
		}
	}
	return all
}

// rule is the first line of a rule of the Makefile.
var rule = regexp.MustCompile(`(?m)^([a-z0-9][a-z0-9 -]*):(?:[^=]|$)`)

// Targets returns the targets of a Makefile.
func Targets(makefile string) []string {
	var all []string
	for _, m := range rule.FindAllStringSubmatch(makefile, -1) {
		all = append(all, strings.Fields(m[1])...)
	}
	return all
}

// Promised returns the commands of all pages, and `make TARGET` for each target.
func Promised(tree fs.FS) (map[string]bool, error) {
	all := map[string]bool{}
	for _, name := range Pages {
		page, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		for _, c := range Commands(string(page)) {
			all[c] = true
		}
	}
	makefile, err := fs.ReadFile(tree, "Makefile")
	for _, t := range Targets(string(makefile)) {
		all["make "+t] = true
	}
	return all, err
}

package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a folder in backquotes, a test, or a scenario, as the threat model names them.
var named = regexp.MustCompile("`([a-z0-9/-]+)`|\\b((?:Test|Fuzz)[A-Za-z0-9]+)\\b|\\b([a-z-]+\\.txtar)\\b")

// Each row of the threat model names tests that exist, or says why there is none. That
// holds also for rows that say not defended, served or possible.
func TestThreatsNameTheirTests(t *testing.T) {
	text, err := os.ReadFile(top + "/docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, inTable := 0, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case strings.HasSuffix(line, "| test |"):
			inTable = true
		case inTable && !strings.HasPrefix(line, "|---"):
			rows++
			cells := strings.Split(strings.Trim(line, "|"), "|")
			checkThreat(t, strings.TrimSpace(cells[1]), strings.TrimSpace(cells[len(cells)-1]))
		}
	}
	if rows < 50 {
		t.Errorf("%d rows", rows)
	}
}

func checkThreat(t *testing.T, threat, cell string) {
	t.Helper()
	if strings.HasPrefix(cell, "none: ") || regexp.MustCompile(`^(tests that name I\d+( and I\d+)?|scenarios of .test/scenario.|I\d+)$`).MatchString(cell) {
		return
	}
	folder, found := "", 0
	for _, m := range named.FindAllStringSubmatch(cell, -1) {
		var files []string
		want := ""
		switch {
		case m[1] != "":
			folder = m[1]
			continue
		case m[2] != "":
			files, _ = filepath.Glob(filepath.Join(top, folder, "*_test.go"))
			want = "\nfunc " + m[2] + "("
		default:
			files, _ = filepath.Glob(filepath.Join(top, folder, "testdata", m[3]))
		}
		if !anyHas(t, files, want) {
			t.Errorf("%q: there is no %s in %s", threat, m[0], folder)
		}
		found++
	}
	if found == 0 {
		t.Errorf("%q names no test: name one, or write \"none: \" and why", threat)
	}
}

func anyHas(t *testing.T, files []string, want string) bool {
	t.Helper()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), want) {
			return true
		}
	}
	return false
}

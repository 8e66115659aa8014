package promises

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/soak"
)

// vulnerability is a made-up entry of a database: functions of a module that are fixed in a version.
type vulnerability struct{ id, module, fixed, symbols string }

// makeVulnDB writes a database in the format of vuln.go.dev (go.dev/doc/security/vuln/database), and
// returns its URL.
func makeVulnDB(t *testing.T, entries ...vulnerability) string {
	t.Helper()
	const when = `"modified": "2026-01-01T00:00:00Z"`
	dir := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var modules, all []string
	for _, v := range entries {
		modules = append(modules, fmt.Sprintf(`{"path": %q, "vulns": [{"id": %q, %s, "fixed": %q}]}`, v.module, v.id, when, v.fixed))
		all = append(all, fmt.Sprintf(`{"id": %q, %s}`, v.id, when))
		put("ID/"+v.id+".json", fmt.Sprintf(`{"schema_version": "1.3.1", "id": %q, %s, "published": "2026-01-01T00:00:00Z", "summary": "made up", "details": "made up for a test",
  "affected": [{"package": {"name": %q, "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": %q}]}],
    "ecosystem_specific": {"imports": [{"path": %[3]q, "symbols": [%[5]s]}]}}],
  "database_specific": {"url": "https://example.org/%[1]s"}}`, v.id, when, v.module, v.fixed, v.symbols))
	}
	put("index/db.json", "{"+when+"}")
	put("index/modules.json", "["+strings.Join(modules, ",")+"]")
	put("index/vulns.json", "["+strings.Join(all, ",")+"]")
	return "file://" + dir
}

// make vuln reads the database that GOVULNDB names. It passes if the programs call no function that
// an entry names, and otherwise names the module, the entry and the version with the fix.
func TestVuln(t *testing.T) {
	soak.Only(t, "govulncheck reads culvertd and all that it links, twice")
	vuln := func(entries ...vulnerability) (string, error) {
		return Run(Make(t.Context(), top, "vuln", "VULN=./cmd/culvertd", "GOVULNDB="+makeVulnDB(t, entries...)))
	}
	const module, fixed = "go.etcd.io/bbolt", "1.99.0"
	uncalled := vulnerability{"GO-2099-0001", module, fixed, `"DB.Batch"`}
	elsewhere := vulnerability{"GO-2099-0002", "example.org/none", fixed, `"Open"`}
	if out, err := vuln(uncalled, elsewhere); err != nil || strings.Contains(out, elsewhere.id) {
		t.Errorf("culvertd calls neither: %v\n%s", err, out)
	}
	out, err := vuln(vulnerability{"GO-2099-0003", module, fixed, `"Open"`})
	if err == nil {
		t.Error("culvertd calls a function with a vulnerability, and make vuln passes")
	}
	for _, want := range []string{"GO-2099-0003", "Module: " + module, "Fixed in: " + module + "@v" + fixed} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

package skew

import (
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/skew/story"
	"github.com/culvert-net/culvert/test/soak"
)

var update = flag.Bool("update", false, "record testdata anew, from the programs of the oldest commit")

// Programs of the oldest commit and of this tree work together, whichever is newer: culvertd on the
// other's ledger, the shim, the hook and the CLI beside the other's culvertd. docs/upgrade.md says
// which programs may differ.
func TestOlderPrograms(t *testing.T) {
	soak.Only(t, "it builds the programs of an older commit; TestOldFiles has what those wrote and said")
	before := buildPrograms(t, "old", unpackOldest(t))
	now := buildPrograms(t, "new", top)
	for _, pair := range [][2]version{{before, now}, {now, before}} {
		from, to := pair[0], pair[1]
		t.Run(from.name+" then "+to.name, func(t *testing.T) { goOn(t, from, to) })
		t.Run(from.name+" culvertd, "+to.name+" programs", func(t *testing.T) { ask(t, from, to) })
	}
	if *update {
		record(t, before)
	}
}

// goOn replaces culvertd by that of another version while owners have VFs, and goes back.
func goOn(t *testing.T, from, to version) {
	dir := newDir(t)
	n := startNode(t, from, dir)
	first := n.dump(from)
	checkStory(t, first)
	n.stop()

	n = startNode(t, to, dir)
	compareLedgers(t, from.name+" ledger, "+to.name+" culvertd", first, n.dump(to))
	for _, c := range []string{"c1", "c2"} {
		n.mustRunShim(to, "CHECK", c, withResult(t, story.Config(c), n.addOf(c)))
	}
	n.runHook(to, "prepare", "begin")
	n.addAndDelete(to)
	second := n.dump(to)
	checkStory(t, second)
	n.stop()

	n = startNode(t, from, dir)
	compareLedgers(t, "back", second, n.dump(from))
	n.endStory(from)
	checkEnd(t, n.dump(from))
	n.stop()
}

// addAndDelete attaches a container and detaches it.
func (n *node) addAndDelete(shim version) {
	n.t.Helper()
	added := n.mustRunShim(shim, "ADD", "c4", story.Config("c4"))
	if !strings.Contains(added, "10.1.0.") {
		n.t.Errorf("the answer to ADD lacks an address: %s", added)
		return
	}
	config := withResult(n.t, story.Config("c4"), added)
	n.mustRunShim(shim, "CHECK", "c4", config)
	n.mustRunShim(shim, "DEL", "c4", config)
	n.mustRunShim(shim, "DEL", "c4", config) // a runtime may repeat it
}

// ask has the shim, the hook and the CLI of one version ask the culvertd of another.
func ask(t *testing.T, daemon, programs version) {
	n := startNode(t, daemon, newDir(t))
	n.addAndDelete(programs)
	n.runHook(programs, "prepare", "begin")
	if out, err := n.runShim(programs, "ADD", "c1", story.Config("c1")); err == nil || !strings.Contains(out, "c1 has VF") {
		t.Errorf("a second ADD: %v, %s", err, out)
	}
	for args, want := range map[string]string{
		"status": "enp1s0", "status -o json": `"skew.dev/net"`, "vf list": "c1", "pool list": "skew.dev/net", "events": "Quarantined", "ledger check": "",
	} {
		if out := n.runCulvert(programs, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("culvert %s lacks %s:\n%s", args, want, out)
		}
	}
	checkStory(t, n.dump(programs))
	n.stop()
}

// record writes testdata: the ledger of the story, how culvert shows it, and the requests of the
// programs.
func record(t *testing.T, old version) {
	dir := newDir(t)
	n := startNode(t, old, dir)
	dumped := n.runCulvert(old, "ledger", "dump", "-o", "json")
	n.stop()
	raw, err := os.ReadFile(filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.Create(filepath.Join("testdata", "ledger.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, _ := gzip.NewWriterLevel(packed, gzip.BestCompression)
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, "ledger.json", strings.ReplaceAll(dumped, dir, "DIR"))
	n = startNode(t, old, dir)
	tap := listen(t, n)
	inner := n.dir
	n.dir = tap.dir // its socket passes on to the node's
	for _, name := range []string{"c1.json", "c2.json", "db1.xml"} {
		text, err := os.ReadFile(filepath.Join(inner, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tap.dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []string{"c1", "c2"} {
		n.mustRunShim(old, "CHECK", c, withResult(t, story.Config(c), n.addOf(c)))
	}
	n.addAndDelete(old)
	n.runHook(old, "prepare", "begin")
	for _, args := range [][]string{{"status"}, {"ledger", "dump"}, {"events"}} {
		n.runCulvert(old, args...)
	}
	n.endStory(old)
	write(t, "requests.txt", strings.Join(tap.requests(), ""))
	write(t, "commit.txt", oldest(t)+"\n")
	n.dir = inner
	n.stop()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("testdata", name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	fmt.Println("recorded", name)
}

package browser

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/culvert-net/culvert/internal/vf"
)

// hostile is a name that a tenant could choose to attack the page.
const hostile = `"><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>javascript:alert(1)&#x3c;` + "\u202e" + `';alert(1);//`

// TestNamesAreTextOnly puts a hostile name wherever the page shows one.
func TestNamesAreTextOnly(t *testing.T) {
	source := makeHost()
	n := source.nodes["worker-07"]
	for i := range n.VFs {
		if n.VFs[i].Owner != nil {
			n.VFs[i].Owner.Name, n.VFs[i].Network, n.VFs[i].Pool, n.VFs[i].Owner.Interface = "x/"+hostile, hostile, hostile, hostile
		}
		n.VFs[i].Reason, n.VFs[i].UsedBy, n.VFs[i].Netdevice, n.VFs[i].Warnings = hostile, hostile, hostile, []string{hostile}
		n.VFs[i].Differences = []vf.Difference{{Attribute: hostile, Want: hostile, Have: hostile}}
	}
	n.Problems[0].Object, n.Problems[0].Reason, n.Problems[0].Next = hostile, hostile, `run "culvert vf show `+hostile+`"`
	source.overview.Problems[0].Problem = n.Problems[0]
	source.overview.Name, source.overview.Pools[0].Name = hostile, hostile
	source.overview.Networks[0].Name, source.overview.Networks[0].Owners = hostile, []string{hostile}
	for i := range source.events {
		source.events[i].Text, source.events[i].Object, source.events[i].By, source.events[i].Reason = hostile, hostile, hostile, hostile
	}
	for i := range source.history.Spans {
		source.history.Spans[i].Owner.Name, source.history.Spans[i].Settings, source.history.Spans[i].Network = hostile, hostile, hostile
	}
	source.plans[0].File, source.plans[0].Plan.PFs[0].Refused, source.plans[0].Plan.Notes = hostile, hostile, []string{hostile}
	b := openTab(t, source, 1280, 900)
	for _, place := range []string{"#", "#view=loudest", "#vf=enp175s0f0%235", "#view=plan", "#view=find&q=" + "onerror", "#view=find&q=%3Cimg%20src=x%20onerror=1%3E", "#node=%3Cimg%20onerror=1%3E", "#vf=%3Cimg%20src=x%20onerror=1%3E", "#__proto__=1&vf=constructor"} {
		b.run(chromedp.Evaluate("location.hash = "+quote(place), nil))
		b.run(chromedp.Evaluate(`new Promise(done => setTimeout(done, 150))`, nil, awaitPromise))
		if ask[bool](b, `"attacked" in window || document.querySelectorAll("img, script:not([src])").length > 0 || [...document.querySelectorAll("a")].some(a => !a.getAttribute("href").startsWith("#"))`) {
			t.Errorf("at %s a name became markup", place)
		}
		if ask[bool](b, `document.body.textContent.includes("\u202e")`) {
			t.Errorf("at %s a name turns the direction of text", place)
		}
	}
	if !ask[bool](b, `(location.hash = "#", true)`) {
		t.Fatal("no answer")
	}
	b.waitFor(`document.body.innerText.includes('<img src=x onerror="window.attacked=1">')`)
}

// TestModulesMakeNoMarkup looks for ways to make markup of text in the page's files.
func TestModulesMakeNoMarkup(t *testing.T) {
	forbidden := regexp.MustCompile(
		`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\(|new Function|\son[a-z]+="|\sstyle="|javascript:|@import`)
	files, err := filepath.Glob("../web/*")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	lines := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if hit := forbidden.Find(text); hit != nil {
			t.Errorf("%s has %s", file, hit)
		}
		for _, url := range regexp.MustCompile(`https?://[^"]*`).FindAllString(string(text), -1) {
			if url != "http://www.w3.org/2000/svg" {
				t.Errorf("%s names %s", file, url)
			}
		}
		n := strings.Count(string(text), "\n")
		if n >= 300 {
			t.Errorf("%s has %d lines: at most 300", file, n)
		}
		lines += n
	}
	t.Logf("%d files, %d lines", len(files), lines)
}

// TestModulesLoad loads each module alone: Chromium is the check of the language.
func TestModulesLoad(t *testing.T) {
	b := openTab(t, makeHost(), 1280, 900)
	files, err := filepath.Glob("../web/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); !ask[bool](b, `import(`+quote("./"+name)+`).then(() => true, error => { throw new Error(`+quote(name)+` + ": " + error) })`) {
			t.Errorf("%s does not load", file)
		}
	}
}

// axNode is a node of the accessibility tree. cdproto's type refuses properties of a newer Chromium.
type axNode struct {
	Ignored bool `json:"ignored"`
	Role    struct {
		Value string `json:"value"`
	} `json:"role"`
	Name struct {
		Value any `json:"value"`
	} `json:"name"`
}

// named are the roles of which each element needs a name.
var named = []string{"button", "link", "searchbox", "textbox", "image", "img", "table", "region", "columnheader", "heading", "complementary"}

// TestEverythingHasAName reads the tree that a screen reader reads.
func TestEverythingHasAName(t *testing.T) {
	host := openTab(t, makeHost(), 1280, 900)
	for place, wants := range map[string][]string{
		"#vf=enp175s0f0%235": {"VF enp59s0f0#0, used by pod telco/upf-1", "VF enp59s0f1#5, quarantined, 1 difference", "VF enp59s0f1#1, used by pod db/postgres-0, no carrier", "VFs of enp59s0f0"},
		"#view=loudest":      {"VFs, those with the most traffic first"},
		"#view=plan":         {"remove", "add"},
	} {
		slots := host.checkNames(place, wants)
		if strings.HasPrefix(place, "#vf") && slots != 32 {
			t.Errorf("%d slots have a name: want 32", slots)
		}
	}
	openTab(t, makeCluster(60), 1280, 900).checkNames("#", []string{"Nodes", "node-0003", "24 used, 40 free"})
}

// checkNames checks the names and landmarks of a place, and returns the number of slots with a name.
func (b *tab) checkNames(place string, wants []string) (slots int) {
	b.t.Helper()
	b.run(chromedp.Evaluate("location.hash = "+quote(place), nil))
	b.run(chromedp.Evaluate(`new Promise(done => setTimeout(done, 300))`, nil, awaitPromise))
	var tree struct {
		Nodes []axNode `json:"nodes"`
	}
	b.run(chromedp.ActionFunc(func(ctx context.Context) error { return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree) }))
	seen, roles := map[string]bool{}, map[string]bool{}
	for _, n := range tree.Nodes {
		name, _ := n.Name.Value.(string)
		roles[n.Role.Value] = true
		if n.Ignored {
			continue
		}
		seen[name] = true
		if slices.Contains(named, n.Role.Value) && strings.TrimSpace(name) == "" {
			b.t.Errorf("at %s a %s has no name", place, n.Role.Value)
		}
		if n.Role.Value == "link" && strings.HasPrefix(name, "VF enp") && strings.Contains(name, ", ") {
			slots++
		}
	}
	for _, want := range wants {
		if !seen[want] {
			b.t.Errorf("at %s nothing has the name %q", place, want)
		}
	}
	for _, want := range []string{"banner", "main", "search", "status"} {
		if !roles[want] {
			b.t.Errorf("at %s there is no %s", place, want)
		}
	}
	return slots
}

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/culvert-net/culvert/internal/api"
)

// most is the number of actions in which a person finds the owner of a noisy VF.
const most = 5

// TestFindsTheOwnerOfANoisyVF finds the VF by its traffic, as a person at the host does, and by the MAC
// address that a switch shows, as a person at the cluster does.
func TestFindsTheOwnerOfANoisyVF(t *testing.T) {
	t.Run("by its traffic", func(t *testing.T) {
		b := openTab(t, makeHost(), 1280, 900)
		b.click(`a[href*="view=loudest"]`)
		b.waitFor(`document.querySelector("tbody td.number")?.textContent.includes("Gb/s")`)
		if row := ask[string](b, `document.querySelector("tbody tr").innerText`); !strings.Contains(row, noisy) || !strings.Contains(row, noisyOwner) {
			t.Errorf("the first row is %q: want VF %s of %s", row, noisy, noisyOwner)
		}
		b.click(`tbody tr a`)
		b.waitFor(`document.querySelector("#owner")?.textContent === ` + quote("pod "+noisyOwner))
		b.checkActions()
	})
	t.Run("by its MAC", func(t *testing.T) {
		source := makeCluster(40)
		wanted := source.nodes["node-0017"].VFs[9]
		b := openTab(t, source, 1280, 900)
		b.pressSlash()
		b.write(wanted.MAC.String())
		b.press(kb.Enter)
		b.waitFor(`document.activeElement.classList.contains("found")`)
		b.press(kb.Enter)
		b.waitFor(`document.querySelector("#owner")?.textContent === ` + quote("pod "+wanted.Owner.Name))
		b.checkActions()
	})
}

func (b *tab) checkActions() {
	b.t.Helper()
	b.t.Logf("%d actions", b.actions)
	if b.actions > most {
		b.t.Errorf("%d actions: at most %d", b.actions, most)
	}
}

// TestFiltersAndSortsNodes uses the search box, the filters and the headings of the list.
func TestFiltersAndSortsNodes(t *testing.T) {
	b := openTab(t, makeCluster(200), 1280, 900)
	first := `document.querySelector("#rows .name")?.textContent`
	count := `document.querySelector("[role=table]").getAttribute("aria-rowcount")`
	b.click("#filter")
	b.write("node-01")
	b.waitFor(count + ` === "101" && ` + first + ` === "node-0100"`)
	b.waitFor(`location.hash.includes("word=node-01")`)
	b.click(`[data-only="not-ready"]`)
	b.waitFor(count + ` === "2" && ` + first + ` === "node-0110"`)
	b.run(chromedp.Evaluate(`location.hash = ""`, nil))
	b.waitFor(count + ` === "201"`)
	b.click(`[data-sort="-used"]`)
	b.waitFor(`document.querySelector("[aria-sort=descending]")?.innerText.startsWith("VFs used")`)
	used := ask[[]int](b, `[...document.querySelectorAll("#rows .vfs .count")].map(e => parseInt(e.textContent))`)
	for i := range used[1:] {
		if used[i] < used[i+1] {
			t.Errorf("rows in the order %v", used)
			break
		}
	}
	b.click(`[data-sort="used"]`)
	b.waitFor(`document.querySelector("#rows .vfs .count").textContent.startsWith("0 ")`)
}

// TestKeyboardAlone goes to a VF and back without a mouse, with Escape, and with the back button.
func TestKeyboardAlone(t *testing.T) {
	b := openTab(t, makeCluster(120), 1280, 900)
	b.tabTo(`document.activeElement.dataset.index === "0"`)
	b.press(kb.ArrowDown)
	b.press(kb.PageDown)
	b.press(kb.End)
	b.waitFor(`document.activeElement.textContent === "node-0119"`)
	b.press(kb.Home)
	b.press(kb.ArrowDown)
	b.waitFor(`document.activeElement.textContent === "node-0001"`)
	b.press(kb.Enter)
	b.waitFor(`document.querySelector("h1").textContent === "Node node-0001" && document.querySelector(".slot") !== null`)
	b.tabTo(`document.activeElement.dataset.stop === "enp59s0f0#0"`)
	b.press(kb.ArrowRight)
	b.press(kb.ArrowDown)
	chosen := ask[string](b, `document.activeElement.dataset.stop`)
	if chosen == "enp59s0f0#0" || chosen == "enp59s0f0#1" {
		t.Errorf("the arrow keys lead to %s", chosen)
	}
	b.press(kb.Enter)
	b.waitFor(`document.activeElement.id === "panel-title"`)
	b.press(kb.Escape)
	b.waitFor(`document.querySelector("#panel").hidden && document.activeElement.dataset.stop === ` + quote(chosen))
	b.run(chromedp.NavigateBack())
	b.waitFor(`!document.querySelector("#panel").hidden`)
	b.run(chromedp.Evaluate(`history.go(-2)`, nil))
	b.waitFor(`document.querySelector("h1").textContent === "Cluster prod-eu1"`)
}

// tabTo presses Tab until the focus is where an expression says. Each stop must be visible.
func (b *tab) tabTo(isThere string) {
	b.t.Helper()
	for range 80 {
		b.press(kb.Tab)
		if ask[bool](b, isThere) {
			return
		}
	}
	b.t.Fatalf("80 times Tab do not lead to %s", isThere)
}

// TestStaysUpToDate changes the source, cuts the connection and has the source fail.
func TestStaysUpToDate(t *testing.T) {
	source := makeCluster(60)
	b := openTab(t, source, 1280, 900)
	b.allowed = []string{"ERR_", "net::"}
	row := `document.querySelector('#rows [data-key="node-0003"]').innerText`
	b.waitFor(row + `.includes("● Ready")`)
	source.change(func() {
		source.overview.Nodes[3].Ready = false
		source.overview.Nodes[3].Problems = 7
	})
	b.waitFor(row + `.includes("▲ Not ready") && ` + row + `.includes("7")`)
	source.change(func() { source.failure = errUnreachable })
	b.waitFor(`!document.querySelector("#failure").hidden && document.querySelector("#failure").textContent.includes("culvertd does not answer")`)
	b.waitFor(`document.querySelector("#age").textContent.startsWith("picture is")`)
	if !ask[bool](b, `document.querySelectorAll("#rows .node").length > 10`) {
		t.Error("the last picture has gone")
	}
	source.change(func() { source.failure = nil })
	b.waitFor(`document.querySelector("#failure").hidden && document.querySelector("#state").textContent === "● Live"`)
	b.stage.listener.cut(true)
	b.waitFor(`document.querySelector("#state").textContent === "▲ Connection lost"`)
	source.change(func() { source.overview.Nodes[3].Ready = true })
	b.stage.listener.cut(false)
	b.waitFor(`document.querySelector("#state").textContent === "● Live" && ` + row + `.includes("● Ready")`)
}

// TestKeepsTheFocusWhileItChanges changes the VF that has the focus: the focus stays on it.
func TestKeepsTheFocusWhileItChanges(t *testing.T) {
	source := makeHost()
	b := openTab(t, source, 1280, 900)
	b.waitFor(`document.querySelector(".slot .rate") !== null`)
	b.run(chromedp.Evaluate(`document.querySelector('[data-vf="enp59s0f0#6"]').focus()`, nil))
	source.change(func() {
		v := &source.nodes["worker-07"].VFs[6]
		own(v, "shop/new-0", "10.20.59.99/24")
	})
	b.waitFor(`document.activeElement.getAttribute("aria-label") === "VF enp59s0f0#6, used by pod shop/new-0"`)
	source.change(func() {
		source.overview.Problems = append(source.overview.Problems, source.overview.Problems[0])
	})
	b.waitFor(`document.querySelector("[aria-live]").textContent === "4 problems, 3 before"`)
}

// TestShowsWhatAPersonNeeds opens each place of a host, and looks for facts there.
func TestShowsWhatAPersonNeeds(t *testing.T) {
	b := openTab(t, makeHost(), 1280, 900)
	b.allowed = []string{"clipboard"}
	for place, wants := range map[string][]string{
		"#":                     {"NIC 0000:3b:00", "link up, 100 Gb/s", "no link", "segment storage", "in bond0", "64 of 254", "culvert.dev/fast", "▲ full", "eBPF", "telco/upf-0", "Quarantined", "3 errors of PCIe or of queues"},
		"#view=plan":            {"host.yaml", "1 owner would lose a VF", "guest win2022-build", "8 → 6", "no PF matches"},
		"#view=find&q=postgres": {"VFs", "pod db/postgres-0", "10.20."},
		"#vf=enp175s0f0%235":    {noisyOwner, "f2c4a1b0-1d2e-4c3b-9a8f-7e6d5c4b3a21", "120", "DriftMended", "enforced", "culvert vf show enp175s0f0#5", "culvert why pod/transcode-6c9f7d5b8-qk2vx -n media", "culvert vf history enp175s0f0#5", "10.0 Gb/s10.0 Gb/s"},
		"#vf=enp59s0f0%235":     {"500 Mb/s for a measurement"},
		"#vf=enp59s0f0%233":     {"≠ no limit", "10.0 Gb/s", "max_tx_rate"},
		"#vf=enp59s0f1%235":     {"in quarantine: ", "tries again at", "attempt 3"},
		"#vf=enp175s0f0%236":    {"guest win2022-build", "culvert vm show win2022-build", "culvert why guest/win2022-build"},
	} {
		b.run(chromedp.Evaluate("location.hash = "+quote(place), nil))
		for _, want := range wants {
			if place == "#vf=enp59s0f1%235" && want == "in quarantine: " {
				want = "quarantined for "
			}
			b.waitFor(`document.body.textContent.includes(` + quote(want) + `)`)
		}
	}
}

// TestShowsTheRestOnDemand opens the list of further problems and a segment. The page draws them then,
// also without a connection.
func TestShowsTheRestOnDemand(t *testing.T) {
	source := makeCluster(300)
	b := openTab(t, source, 1280, 900)
	if n := ask[int](b, `document.querySelectorAll(".problems li").length`); n != 3 {
		t.Errorf("%d problems at first: want 3", n)
	}
	b.allowed = []string{"ERR_", "net::"}
	b.stage.listener.cut(true)
	b.waitFor(`document.querySelector("#state").textContent === "▲ Connection lost"`)
	b.click(`[id="more-problems"] summary`)
	b.waitFor(fmt.Sprintf(`document.querySelectorAll(".problems li").length === %d`, len(source.overview.Problems)))
	b.click(`[id="segment storage"] summary`)
	b.waitFor(`document.querySelector(".members")?.textContent.includes("node-0013 enp59s0f1 ▲ no link")`)
}

// TestShowsNoRatesOfACluster looks at a node of a cluster, whose objects have no counters.
func TestShowsNoRatesOfACluster(t *testing.T) {
	source := makeCluster(20)
	b := openTab(t, source, 1280, 900)
	b.run(chromedp.Evaluate(`location.hash = "#node=node-0007&vf=enp59s0f1%2331"`, nil))
	b.waitFor(`document.body.innerText.includes("kubectl culvert events")`)
	b.waitFor(`document.body.innerText.includes("kubectl culvert vf show enp59s0f1#31 --node node-0007")`)
	if n := ask[int](b, `document.querySelectorAll(".meter, a[href*=loudest]").length`); n != 0 {
		t.Errorf("%d rates of a cluster", n)
	}
	b.run(chromedp.Evaluate(`location.hash = "#node=gone"`, nil))
	b.waitFor(`document.body.innerText.includes("There is no node of this name.")`)
	source.change(func() { source.nodes["node-0007"].VFs = []api.VF{} })
	b.run(chromedp.Evaluate(`location.hash = "#node=node-0007&vf=enp59s0f1%2331"`, nil))
	b.waitFor(`document.body.innerText.includes("The node has no such VF now.")`)
}

// TestCopiesTheCommand copies the command that mends a problem. A command that a shell would read as more
// than one has no button.
func TestCopiesTheCommand(t *testing.T) {
	source := makeHost()
	source.overview.Problems = nil
	problems := source.nodes["worker-07"].Problems
	problems[2].Next = `run "culvert vf show x; reboot"`
	b := openTab(t, source, 1280, 900)
	b.waitFor(`document.querySelectorAll(".command code").length >= 3`)
	copies := ask[[]string](b, `[...document.querySelectorAll(".command button")].map(e => e.dataset.copy)`)
	if want := "[culvert vf show enp59s0f1#5 ip link show enp175s0f1]"; fmt.Sprint(copies) != want {
		t.Errorf("buttons copy %v: want %s", copies, want)
	}
	b.run(chromedp.Evaluate(`Object.defineProperty(navigator, "clipboard", {value: {writeText: async text => { window.copied = text }}})`, nil))
	word := ask[string](b, `(async () => {
	  window.setTimeout = () => 0 // so the word stays
	  const frame = () => new Promise(requestAnimationFrame)
	  document.querySelector(".command button").click()
	  await frame(); await frame()
	  dispatchEvent(new Event("resize")) // draws the page anew
	  await frame(); await frame()
	  return [window.copied, document.querySelector(".command button").textContent, document.querySelector("#news").textContent].join("; ")
	})()`)
	if want := "culvert vf show enp59s0f1#5; Copied; Copied: culvert vf show enp59s0f1#5"; word != want {
		t.Errorf("after a click: %q, want %q", word, want)
	}
}

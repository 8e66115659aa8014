// Package browser tests the page in Chromium, by what a person does with it.
package browser

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/vishvananda/netlink"
)

var update = flag.Bool("update", false, "write the pictures of docs/images")

// ownNetns marks the copy of this program that has a network namespace of its own.
const ownNetns = "CULVERT_TEST_OWN_NETNS"

// browser is the one Chromium of all tests; nil where there is none.
var browser context.Context

// TestMain runs the tests in a network namespace of their own, since Chromium sends requests to its
// vendor's hosts.
func TestMain(m *testing.M) {
	if os.Getuid() == 0 && os.Getenv(ownNetns) == "" {
		cmd := exec.CommandContext(context.Background(), os.Args[0], os.Args[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), ownNetns+"=1"), os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if os.Getenv(ownNetns) != "" {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "loopback:", err)
			return 1
		}
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "culvert-browser")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, end := chromedp.NewExecAllocator(context.Background(), append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.UserDataDir(dir), chromedp.Env("HOME="+dir),
		chromedp.Flag("disable-breakpad", true), chromedp.Flag("disable-crash-reporter", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"), chromedp.Flag("enable-precise-memory-info", true))...)
	defer end()
	// A newer Chromium sends events that cdproto does not know.
	ctx, stop := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	defer stop()
	if err := chromedp.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chromium:", err)
		return 1
	}
	browser = ctx
	return m.Run()
}

// tab is a page in the browser, as a person has it before them.
type tab struct {
	t       *testing.T
	do      func(...chromedp.Action) error
	stage   *stage
	actions int      // clicks, keys and texts of the person
	allowed []string // parts of complaints that the test expects

	mu         sync.Mutex // guards the rest
	complaints []string   // errors of the console
	requests   []string   // URLs
}

// openTab opens a source's page in a window of that width.
func openTab(t *testing.T, source *simulated, width, height int64, actions ...chromedp.Action) *tab {
	t.Helper()
	if browser == nil {
		t.Skip("Chromium is not installed: apt-get install chromium")
	}
	ctx, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(cancel)
	one := &tab{t: t, do: func(actions ...chromedp.Action) error { return chromedp.Run(ctx, actions...) }, stage: newStage(t, source)}
	chromedp.ListenTarget(ctx, one.listen)
	one.run(network.Enable(), log.Enable(), chromedp.EmulateViewport(width, height), chromedp.Tasks(actions), chromedp.Navigate(one.stage.url))
	one.waitFor(`document.querySelector(".slot, #rows .node") !== null`)
	t.Cleanup(one.checkQuiet)
	return one
}

// listen notes what the page asks for, and what it complains of.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprintf("console: %s %v", e.Type, e.Args))
	case *log.EventEntryAdded:
		if !strings.HasSuffix(e.Entry.URL, "/favicon.ico") { // Chromium asks for it, not the page
			b.complaints = append(b.complaints, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// checkQuiet fails if the console has an error, or a request left the page's origin.
func (b *tab) checkQuiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		if !slices.ContainsFunc(b.allowed, func(part string) bool { return strings.Contains(c, part) }) {
			b.t.Errorf("the page complains: %s", c)
		}
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, b.stage.origin+"/") {
			b.t.Errorf("the page asks another origin: %s", url)
		}
	}
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := b.do(actions...); err != nil {
		b.t.Fatal(err)
	}
}

// click, press and write are the actions of a person.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.actions++
	b.run(chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

func (b *tab) press(keys string) {
	b.t.Helper()
	b.actions++
	b.run(chromedp.KeyEvent(keys))
}

// pressSlash presses the key / as a keyboard does: the page can keep the letter out of a text.
func (b *tab) pressSlash() {
	b.t.Helper()
	b.actions++
	b.run(input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithCode("Slash").WithText("/"), input.DispatchKeyEvent(input.KeyUp).WithKey("/").WithCode("Slash"))
}

func (b *tab) write(text string) {
	b.t.Helper()
	b.actions++
	b.run(chromedp.KeyEvent(text))
}

// waitFor waits until an expression of the page is true.
func (b *tab) waitFor(expression string) {
	b.t.Helper()
	err := b.do(chromedp.Poll(expression, nil, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(time.Minute)))
	if err != nil {
		b.t.Fatalf("%s: %v; the page has: %.2000s", expression, err, ask[string](b, `document.body.innerText`))
	}
}

// ask returns the value of an expression of the page.
func ask[T any](b *tab, expression string) (value T) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &value, awaitPromise))
	return value
}

// quote makes a text a literal of JavaScript.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func prefer(scheme string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}})
}

func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

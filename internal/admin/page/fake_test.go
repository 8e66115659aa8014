package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// fake is a Source of nodes in memory.
type fake struct {
	mu        sync.Mutex
	nodes     []api.NodeStatus
	pools     []PoolRow
	err       error
	reads     int
	followers int
	changed   func()
}

func (f *fake) Follow(ctx context.Context, changed func()) error {
	set := func(n int, changed func()) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.followers, f.changed = f.followers+n, changed
	}
	set(1, changed)
	<-ctx.Done()
	set(-1, nil)
	return ctx.Err()
}

// change changes the fake, and reports that to the server.
func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	if f.changed != nil {
		f.changed()
	}
}

func (f *fake) get(read func() int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return read()
}

func (f *fake) ReadOverview(context.Context) (Overview, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	o := Overview{Time: time.Now(), Pools: f.pools, HasRates: true}
	for _, n := range f.nodes {
		o.Nodes = append(o.Nodes, NodeRow{Name: n.Node, Version: n.Version, Time: time.Now()})
	}
	return o, f.err
}

func (f *fake) ReadNodes(_ context.Context, name string, visit func(api.NodeStatus) bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := false
	for _, n := range f.nodes {
		if name != "" && n.Node != name {
			continue
		}
		found, n.Time, n.VFs = true, time.Now(), slices.Clone(n.VFs)
		if !visit(n) {
			break
		}
	}
	if !found && name != "" {
		return vf.ErrNotFound
	}
	return f.err
}

func (f *fake) ReadHistory(_ context.Context, node, name string) (History, error) {
	return History{Command: node + " " + name}, nil
}

func (f *fake) ReadEvents(_ context.Context, node string, limit int) ([]api.Event, error) {
	return []api.Event{{Object: node, Seq: uint64(limit)}}, nil
}

func (f *fake) ReadPlans(context.Context) ([]Plan, error) { return nil, errors.New("no plan") }

// browser is that of the server's user.
type browser struct {
	*http.Client
	server *Server
	base   string
}

// serve serves the page of a source until the test ends. adjust changes the server before it begins.
func serve(t *testing.T, source Source, adjust ...func(*Server)) browser {
	t.Helper()
	l, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(source, l)
	s.feed.pace = pace{tick: 20 * time.Millisecond, rest: time.Millisecond, linger: 10 * time.Millisecond, patience: time.Second}
	for _, do := range adjust {
		do(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := browser{&http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}, s, "http://" + l.Addr().String()}
	return b
}

// enter opens the URL of the server, and the browser has a session.
func (b browser) enter(t *testing.T) browser {
	t.Helper()
	if code, text := b.get(t, b.server.NewURL()); code != http.StatusOK {
		t.Fatal(code, text)
	}
	return b
}

// get opens a URL, or a path of the page.
func (b browser) get(t *testing.T, where string, header ...string) (code int, text string) {
	t.Helper()
	resp := b.do(t, http.MethodGet, where, header...)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

// do sends a request with headers, which are written as NAME: VALUE.
func (b browser) do(t *testing.T, method, where string, header ...string) *http.Response {
	t.Helper()
	if strings.HasPrefix(where, "/") {
		where = b.base + where
	}
	req, err := http.NewRequestWithContext(t.Context(), method, where, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// cookies returns the browser's cookies for the page.
func (b browser) cookies(t *testing.T) []*http.Cookie {
	t.Helper()
	u, err := url.Parse(b.base)
	if err != nil {
		t.Fatal(err)
	}
	return b.Jar.Cookies(u)
}

// events are those of one stream.
type events struct {
	t    *testing.T
	from *bufio.Reader
	end  func()
}

// open opens a stream.
func (b browser) open(t *testing.T, path string) *events {
	t.Helper()
	resp := b.do(t, http.MethodGet, path)
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &events{t, bufio.NewReader(resp.Body), func() { _ = resp.Body.Close() }}
}

// next waits for the next event that is not alive, and decodes its data.
func (e *events) next(want string, into any) {
	e.t.Helper()
	for e.nextOf(want, into) == "alive" {
	}
}

// nextOf waits for an event of that name, or for alive.
func (e *events) nextOf(want string, into any) string {
	e.t.Helper()
	name, err := e.from.ReadString('\n')
	data, errData := e.from.ReadString('\n')
	empty, errEnd := e.from.ReadString('\n')
	if err == nil && want != "alive" && name == "event: alive\n" {
		return "alive"
	}
	if err := errors.Join(err, errData, errEnd); err != nil || name != "event: "+want+"\n" || empty != "\n" {
		e.t.Fatalf("%q %.300q %q (%v), want the event %s", name, data, empty, err, want)
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), into); err != nil {
		e.t.Fatal(err)
	}
	return want
}

// wait waits until ok.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

// dial connects to the page, and writes to the connection.
func (b browser) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(b.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

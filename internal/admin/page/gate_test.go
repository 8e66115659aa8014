package page

import (
	"encoding/base64"
	"io"
	"io/fs"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Other machines cannot reach the page.
func TestLoopbackOnly(t *testing.T) {
	l, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() || a.Port == 0 {
		t.Errorf("listens on %s", l.Addr())
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if _, err := Listen(l.Addr().(*net.TCPAddr).Port); err == nil || !strings.Contains(err.Error(), "port "+port) || !strings.Contains(err.Error(), "--port") {
		t.Errorf("a port that is in use: %v", err)
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0"} {
		wide, err := net.Listen("tcp", address)
		if err != nil {
			continue // a host without IPv6
		}
		if err := NewServer(&fake{}, wide).Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "for this host alone") {
			t.Errorf("serves on %s: %v", address, err)
		}
		_ = wide.Close()
	}
}

// The URL's token begins one session. Its cookie goes to this port's page alone, and no script reads it.
func TestTokenBeginsOneSession(t *testing.T) {
	b := serve(t, &fake{})
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	first := b.server.NewURL()
	where := b.server.NewURL()
	token := strings.TrimPrefix(where, b.base+"/?token=")
	if raw, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(raw) != 32 || where == first {
		t.Fatalf("the URLs are %s and %s: %v", first, where, err)
	}
	stranger := browser{&http.Client{CheckRedirect: b.CheckRedirect}, b.server, b.base} // another local user
	for name, u := range map[string]string{"replaced": first, "wrong": b.base + "/?token=" + strings.Repeat("a", 43), "empty": b.base + "/?token="} {
		if code, text := stranger.get(t, u); code != http.StatusUnauthorized {
			t.Errorf("%s token: %d %s", name, code, text)
		}
	}
	resp := b.do(t, http.MethodGet, where)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/" {
		t.Errorf("%s, Location %q: the token stays in the address bar", resp.Status, resp.Header.Get("Location"))
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(b.base, "http://"))
	c := resp.Cookies()
	if len(c) != 1 || c[0].Name != "culvert-"+port || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Path != "/" || c[0].Domain != "" || c[0].MaxAge != 0 || len(c[0].Value) != 43 || c[0].Value == token {
		t.Errorf("cookies %v", c)
	}
	for name, u := range map[string]string{"used": where, "empty after the use": b.base + "/?token="} {
		if code, text := stranger.get(t, u); code != http.StatusUnauthorized || !strings.Contains(text, "press Enter") || !strings.Contains(text, "run it again") {
			t.Errorf("%s token: %d %s", name, code, text)
		}
	}
	if code, text := b.get(t, where); code != http.StatusSeeOther { // browsers load an address twice at times
		t.Errorf("the session's own browser, again: %d %s", code, text)
	}
	if code, text := b.get(t, "/"); code != http.StatusOK {
		t.Errorf("the page: %d %s", code, text)
	}
}

// A session ends when many others have begun.
func TestSessionsAreFew(t *testing.T) {
	g := newGate("127.0.0.1:1")
	var first string
	for i := range mostSessions + 1 {
		value, ok := g.beginSession(g.newToken())
		if !ok {
			t.Fatal("no session")
		}
		if i == 0 {
			first = value
		}
	}
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: g.cookie, Value: first})
	if g.hasSession(r) || len(g.sessions) != mostSessions {
		t.Errorf("%d sessions, and the first one still is one", len(g.sessions))
	}
}

// A request that is not the page's own is refused, even with the cookie of a session.
func TestRefusedWithASession(t *testing.T) {
	b := serve(t, &fake{}).enter(t)
	cookie := b.cookies(t)[0]
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(b.base, "http://"))
	for name, tc := range map[string]struct {
		method string
		header []string
		want   int
	}{
		"own":                       {"GET", []string{"Sec-Fetch-Site: same-origin", "Origin: " + b.base}, 200},
		"typed":                     {"GET", []string{"Sec-Fetch-Site: none"}, 200},
		"another name (rebinding)":  {"GET", []string{"Host: evil.example:" + port}, 421},
		"localhost":                 {"GET", []string{"Host: localhost:" + port}, 421},
		"another port":              {"GET", []string{"Host: 127.0.0.1:1"}, 421},
		"no port":                   {"GET", []string{"Host: 127.0.0.1"}, 421},
		"POST":                      {"POST", nil, 405},
		"HEAD":                      {"HEAD", nil, 405},
		"OPTIONS":                   {"OPTIONS", []string{"Origin: " + b.base}, 405},
		"DELETE":                    {"DELETE", nil, 405},
		"origin of another site":    {"GET", []string{"Origin: http://evil.example"}, 403},
		"origin of another port":    {"GET", []string{"Origin: http://127.0.0.1:1"}, 403},
		"opaque origin":             {"GET", []string{"Origin: null"}, 403},
		"https":                     {"GET", []string{"Origin: https://" + strings.TrimPrefix(b.base, "http://")}, 403},
		"cross-site":                {"GET", []string{"Sec-Fetch-Site: cross-site"}, 403},
		"page of another port":      {"GET", []string{"Sec-Fetch-Site: same-site"}, 403},
		"site of an unknown kind":   {"GET", []string{"Sec-Fetch-Site: new"}, 403},
		"cookie of another session": {"GET", []string{"Cookie: " + cookie.Name + "=" + strings.Repeat("a", 43)}, 401},
		"cookie without a value":    {"GET", []string{"Cookie: " + cookie.Name + "="}, 401},
		"cookie of another port":    {"GET", []string{"Cookie: culvert-1=" + cookie.Value}, 401},
		"no cookie":                 {"GET", []string{"Cookie: a=b"}, 401},
	} {
		for _, path := range []string{"/", "/data/overview", "/stream"} {
			if path == "/stream" && tc.want == 200 {
				continue // it does not end
			}
			stranger := browser{&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, b.server, b.base}
			resp := stranger.do(t, tc.method, path, append([]string{"Cookie: " + cookie.Name + "=" + cookie.Value}, tc.header...)...)
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != tc.want || tc.want == 405 && resp.Header.Get("Allow") != "GET" {
				t.Errorf("%s %s: %s, want %d: %s", path, name, resp.Status, tc.want, text)
			}
			if isJSON := strings.HasPrefix(string(text), `{"error":"`); tc.method == "GET" && tc.want != 200 && isJSON != (path != "/") {
				t.Errorf("%s %s: the error is %s", path, name, text)
			}
		}
	}
}

// A link on another page uses up no token.
func TestForeignLinkKeepsTheToken(t *testing.T) {
	b := serve(t, &fake{})
	u := b.server.NewURL()
	if code, text := b.get(t, u, "Sec-Fetch-Site: cross-site"); code != http.StatusForbidden || !strings.Contains(text, "address bar") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := b.get(t, u, "Sec-Fetch-Site: none"); code != http.StatusOK {
		t.Errorf("then from the address bar: %d %s", code, text)
	}
}

// Every answer has the headers that keep other pages and other hosts out.
func TestHeaders(t *testing.T) {
	b := serve(t, &fake{}).enter(t)
	for _, path := range []string{"/", "/index.html", "/none", "/data/overview", "/data/none", "/data/plans", "/stream", "/?token=x"} {
		for _, with := range []string{"A: b", "Origin: http://evil.example", "Cookie: a=b"} {
			resp := b.do(t, http.MethodGet, path, with)
			_ = resp.Body.Close()
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
				"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
				"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
			} {
				isGone := name == "Cache-Control" && resp.StatusCode == http.StatusNotFound // FileServer drops it
				if got := resp.Header.Get(name); got != want && !isGone {
					t.Errorf("%s %s: %s: %q", path, with, name, got)
				}
			}
			if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("%s lets %s read it", path, got)
			}
		}
	}
}

// The files of the page name no other host, and nothing that the CSP refuses.
func TestFilesAreWholeAndLocal(t *testing.T) {
	foreign := regexp.MustCompile(`(?i)(https?:|wss?:)?//[a-z0-9-]+\.[a-z]|@import|data:[a-z]+/`)
	inline := regexp.MustCompile(`(?is)<style|\sstyle\s*=|\son[a-z]+\s*=\s*["']|<script(\s[^>]*)?>\s*[^<\s]|javascript:`)
	namespace := strings.NewReplacer("http://www.w3.org/", "") // names of XML, which no browser opens
	files := 0
	err := fs.WalkDir(web, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := web.ReadFile(name)
		if found := foreign.FindString(namespace.Replace(string(text))); found != "" {
			t.Errorf("%s: %q: the page works without a network", name, found)
		}
		if found := inline.FindString(string(text)); strings.HasSuffix(name, ".html") && found != "" {
			t.Errorf("%s: %q: the CSP refuses it", name, found)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatal(files, err)
	}
	for text, want := range map[string]bool{
		`<script src="app.js"></script>`: false, `<script type="module" src="app.js"></script>`: false, "<script>a()</script>": true, `<p style="x">`: true, `<a onclick="x">`: true,
	} {
		if inline.MatchString(text) != want {
			t.Error(text)
		}
	}
	for text, want := range map[string]bool{"// A comment.": false, `import "./a.js"`: false, `"https://example.org/a.js"`: true, `src="//cdn.example/x"`: true, `url(data:image/png;x)`: true} {
		if foreign.MatchString(text) != want {
			t.Error(text)
		}
	}
}

// The time, the size and the number of requests are bounded, but not the time of a stream.
func TestLimits(t *testing.T) {
	b := serve(t, &fake{}, func(s *Server) {
		s.limits = limits{header: 50 * time.Millisecond, request: 50 * time.Millisecond, answer: 100 * time.Millisecond, idle: 50 * time.Millisecond}
	}).enter(t)
	host := strings.TrimPrefix(b.base, "http://")
	for name, text := range map[string]string{
		"slow header": "GET / HTTP/1.1\r\nHost: ", "idle": "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", "silent": "",
	} {
		c := b.dial(t, text)
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("%s: the connection stays: %v", name, err)
		}
	}
	if code, text := b.get(t, "/", "X: "+strings.Repeat("a", 32<<10)); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long header: %d %s", code, text)
	}
	for _, body := range []string{"Content-Length: 1\r\n\r\na", "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"} {
		c := b.dial(t, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\nCookie: "+b.cookies(t)[0].String()+"\r\n"+body)
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if text, _ := io.ReadAll(c); !strings.HasPrefix(string(text), "HTTP/1.1 413 ") {
			t.Errorf("a body: %.60q", text)
		}
	}
	f := b.server.source.(*fake)
	var all []*events
	for range mostStreams {
		all = append(all, b.open(t, "/stream"))
	}
	if code, text := b.get(t, "/stream"); code != http.StatusServiceUnavailable || !strings.Contains(text, "close one") {
		t.Errorf("one more stream: %d %s", code, text)
	}
	time.Sleep(150 * time.Millisecond) // longer than each limit
	all[0].next("overview", &Overview{})
	f.change(func() { f.pools = []PoolRow{{Name: "late"}} })
	var o Overview
	if all[0].next("summary", &o); len(o.Pools) != 1 {
		t.Error(o)
	}
	all[1].end()
	wait(t, "a place for a stream", func() bool { return len(b.server.streams) < mostStreams })
	b.open(t, "/stream").next("overview", &o)
}

package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// mostSessions is how many browsers may have a session at once; the oldest session ends first.
const mostSessions = 8

// gate admits the requests that a browser with a session sends for the page itself.
type gate struct {
	host   string // host:port, as the URL has it
	cookie string // the name of the cookie; it has the port, since cookies do not

	mu       sync.Mutex // guards the rest
	token    string     // begins the next session; empty after its use
	sessions []string   // the values of the cookies, the oldest first
}

func newGate(host string) *gate {
	_, port, _ := net.SplitHostPort(host) // of a listener's address
	return &gate{host: host, cookie: "culvert-" + port}
}

// newToken returns a token that replaces the one before.
func (g *gate) newToken() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = makeSecret()
	return g.token
}

// makeSecret returns 32 random bytes as text. 256 bits cannot be guessed, so wrong tokens are not counted
// or slowed down.
func makeSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(secret)
}

// beginSession uses up the token and returns the value of a new session's cookie.
func (g *gate) beginSession(token string) (value string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == "" || !isSame(token, g.token) {
		return "", false
	}
	g.token, value = "", makeSecret()
	if len(g.sessions) == mostSessions {
		g.sessions = g.sessions[1:]
	}
	g.sessions = append(g.sessions, value)
	return value, true
}

// hasSession reports whether the request has the cookie of a session.
func (g *gate) hasSession(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(r.CookiesNamed(g.cookie), func(c *http.Cookie) bool {
		return slices.ContainsFunc(g.sessions, func(s string) bool { return isSame(c.Value, s) })
	})
}

// isSame compares secrets in a time that does not depend on where they differ.
func isSame(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// headers are those of each answer.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-store",
}

// protectPage passes on to next only requests that the gate admits.
func (g *gate) protectPage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		if code, why := g.judgeRequest(r); code != 0 {
			if code == http.StatusMethodNotAllowed {
				w.Header().Set("Allow", http.MethodGet)
			}
			refuseRequest(w, r, code, why)
			return
		}
		token, hasToken := r.URL.Query()["token"]
		switch {
		case g.hasSession(r) && !hasToken:
			next.ServeHTTP(w, r)
		case g.hasSession(r) && r.URL.Path == "/": // a browser may load what was typed twice
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case hasToken && r.URL.Path == "/":
			g.enterPage(w, r, token[0])
		default:
			refuseRequest(w, r, http.StatusUnauthorized, "this browser has no session: in the terminal where culvert ui runs press Enter, and open the URL that it prints; if the command has ended, run it again")
		}
	})
}

// judgeRequest returns why a request is refused whatever its session is, or 0.
func (g *gate) judgeRequest(r *http.Request) (code int, why string) {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case r.Host != g.host: // a name of another site that resolves to this address (DNS rebinding)
		return http.StatusMisdirectedRequest, "the page is at http://" + g.host + " and has no other name: open the URL that culvert ui printed; an ssh tunnel needs the same port at both ends"
	case r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed, "the page only shows: GET is the one method"
	case r.ContentLength != 0:
		return http.StatusRequestEntityTooLarge, "a GET has no body"
	case origin != "" && origin != "http://"+g.host, site != "" && site != "same-origin" && site != "none":
		return http.StatusForbidden, "the request comes from another page: copy the URL that culvert ui printed into the address bar"
	}
	return 0, ""
}

// enterPage begins a session, and sends the browser on to an address without the token.
func (g *gate) enterPage(w http.ResponseWriter, r *http.Request, token string) {
	value, ok := g.beginSession(token)
	if !ok {
		refuseRequest(w, r, http.StatusUnauthorized, "this URL was used already or is not the latest one: in the terminal where culvert ui runs press Enter, and open the URL that it prints; if the command has ended, run it again")
		return
	}
	// Not Secure: the page is served by http, and only on loopback.
	http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// refuseRequest writes an error: as text for a person who opened an address, else as JSON.
func refuseRequest(w http.ResponseWriter, r *http.Request, code int, why string) {
	if strings.HasPrefix(r.URL.Path, "/data/") || r.URL.Path == "/stream" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(failure{why}) // the page may have gone
		return
	}
	http.Error(w, why, code)
}

// failure is the JSON of an error.
type failure struct {
	Error string `json:"error"`
}

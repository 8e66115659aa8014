package vsphere

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/culvert-net/culvert/internal/esxi/file"
)

// ErrLogin means that the server knows neither the user with that password nor the saved login.
var ErrLogin = errors.New("the server does not accept the login")

// ErrCertificate means that the server is not the one of the thumbprint.
var ErrCertificate = errors.New("the server's certificate is another one")

// ErrUndone means that the host has not done an action, as it says itself.
var ErrUndone = errors.New("nothing was done")

// conflicts are the faults of an action that another program or person got in the way of.
var conflicts = []string{
	"AlreadyExists", "ConcurrentAccess", "DuplicateName", "InvalidPowerState", "InvalidState", "ManagedObjectNotFound", "NotFound", "ResourceInUse", "TaskInProgress",
}

// Login is how a person proves to the server who they are: by a password, or by the cookie of a
// session that an earlier login began.
type Login struct {
	User, Password string
	Cookie         string // in place of the password
}

const (
	cookieName  = "vmware_soap_session"
	callTimeout = 2 * time.Minute
)

// Conn is a session of the API with a server, for one of its hosts.
type Conn struct {
	// Poll is the time between two questions about a task.
	Poll time.Duration

	target file.Spec
	login  Login
	client *vim25.Client
	at     place
	seen   view
}

// Dial begins a session, and finds the host. The session of a cookie goes on.
func Dial(ctx context.Context, target file.Spec, login Login) (*Conn, error) {
	c := &Conn{Poll: time.Second, target: target, login: login}
	return c, c.Reconnect(ctx)
}

// Reconnect begins a new session in place of one that the server has ended, as by a reboot.
func (c *Conn) Reconnect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.client != nil {
		c.client.CloseIdleConnections()
	}
	client, err := newClient(ctx, c.target, c.login.Cookie)
	if err != nil {
		return err
	}
	c.client = client
	if client.ServiceContent.SessionManager == nil {
		return fmt.Errorf("%s has no sessions: name an ESXi host or a vCenter", c.target.Server)
	}
	if c.login.Cookie == "" {
		_, err = methods.Login(ctx, client, &types.Login{This: *client.ServiceContent.SessionManager, UserName: c.login.User, Password: c.login.Password})
		if err != nil {
			return c.explainFault("log in to "+c.target.Server+" as "+c.login.User, err)
		}
	}
	c.at, err = c.findHost(ctx)
	return err
}

// newClient opens a connection that is verified.
func newClient(ctx context.Context, target file.Spec, cookie string) (*vim25.Client, error) {
	u := &url.URL{Scheme: "https", Host: target.Server, Path: vim25.Path}
	transport := soap.NewClient(u, false)
	transport.Timeout = callTimeout
	if target.CAFile != "" {
		if err := transport.SetRootCAs(target.CAFile); err != nil {
			return nil, fmt.Errorf("read the certificates of %s: %w", target.CAFile, err)
		}
	}
	if target.Thumbprint != "" {
		pinCertificate(transport.DefaultTransport().TLSClientConfig, target.Thumbprint)
	}
	if cookie != "" {
		transport.Jar.SetCookies(u, []*http.Cookie{parseCookie(cookie)})
	}
	client, err := vim25.NewClient(ctx, transport)
	if err != nil {
		return nil, explainConnection(target.Server, err)
	}
	return client, nil
}

// pinCertificate accepts the server with that thumbprint and no other, whatever has signed its
// certificate.
func pinCertificate(config *tls.Config, thumbprint string) {
	config.InsecureSkipVerify = true // VerifyConnection decides
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if got := thumbprintOf(s.PeerCertificates[0]); got != thumbprint {
			return otherCertificate{fmt.Errorf("the server's certificate has the thumbprint %s, and the file has %s: if the server has a new certificate, compare it on the server's console and change thumbprint", got, thumbprint)}
		}
		return nil
	}
}

func thumbprintOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// explainConnection adds the next step to the error of the first call.
func explainConnection(server string, err error) error {
	var verify *tls.CertificateVerificationError
	if errors.As(err, &verify) && len(verify.UnverifiedCertificates) > 0 {
		return fmt.Errorf("connect to %s: %w: compare the thumbprint %s with that on the server's console, and write it as thumbprint, or name its certificate authority as caFile", server, err, thumbprintOf(verify.UnverifiedCertificates[0]))
	}
	return fmt.Errorf("connect to %s: %w", server, err)
}

// SessionCookie returns the cookie by which another process goes on with this session, with the quotes
// that the server gave it.
func (c *Conn) SessionCookie() string {
	for _, cookie := range c.client.Jar.Cookies(c.client.URL()) {
		if cookie.Name == cookieName && cookie.Quoted {
			return `"` + cookie.Value + `"`
		} else if cookie.Name == cookieName {
			return cookie.Value
		}
	}
	return ""
}

// parseCookie makes the cookie of a text that SessionCookie returned.
func parseCookie(text string) *http.Cookie {
	value := strings.Trim(text, `"`)
	return &http.Cookie{Name: cookieName, Value: value, Quoted: value != text, Path: "/", Secure: true}
}

// Close ends the session. The session of a saved login stays.
func (c *Conn) Close(ctx context.Context) {
	if c.login.Cookie == "" {
		_ = c.Logout(ctx) // the server ends a session that is idle
	}
	c.client.CloseIdleConnections()
}

// Logout ends the session, also that of a saved login.
func (c *Conn) Logout(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := methods.Logout(ctx, c.client, &types.Logout{This: *c.client.ServiceContent.SessionManager})
	return c.explainFault("log out", err)
}

// taskError is the fault with which a task ended, or for which a property cannot be read.
type taskError struct {
	fault types.BaseMethodFault
	text  string
}

func (e *taskError) Error() string { return e.text }

// explainFault adds the action, and the next step for faults that have one.
func (c *Conn) explainFault(action string, err error) error {
	if err == nil {
		return nil
	}
	var fault any
	var failed *taskError
	switch {
	case soap.IsSoapFault(err):
		fault = soap.ToSoapFault(err).VimFault()
	case errors.As(err, &failed):
		fault = failed.fault
	}
	name := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", fault), "*"), "types.")
	switch name {
	case "InvalidLogin":
		return undone{fmt.Errorf("%s: %w: check the user and the password", action, ErrLogin)}
	case "NotAuthenticated":
		return undone{fmt.Errorf("%s: the session has ended: %w: run culvert esxi login again, or give a user and a password", action, ErrLogin)}
	case "NoPermission":
		return undone{fmt.Errorf("%s: the user lacks the privilege %s: culvert esxi role lists all that are needed", action, privilegeOf(fault))}
	case "RestrictedVersion":
		return undone{fmt.Errorf("%s: the host's licence lets programs read only: give the host a licence that lets them write, or manage it by a vCenter", action)}
	}
	if slices.Contains(conflicts, name) {
		return undone{fmt.Errorf("%s: %w (%s): another program or person may have changed the host meanwhile: run the command again, which plans anew", action, err, name)}
	}
	if fault != nil {
		return fmt.Errorf("%s: %w (%s)", action, err, name)
	}
	return fmt.Errorf("%s: %w", action, err)
}

// otherCertificate is an ErrCertificate with the two thumbprints.
type otherCertificate struct{ error }

func (otherCertificate) Is(target error) bool { return target == ErrCertificate }

// undone is an error after which the host is as it was.
type undone struct{ error }

func (u undone) Unwrap() error        { return u.error }
func (u undone) Is(target error) bool { return target == ErrUndone }

// privilegeOf returns the privilege that a NoPermission fault names. It is a value in the answer to a
// call, and a pointer in a task.
func privilegeOf(fault any) string {
	switch f := fault.(type) {
	case types.NoPermission:
		return f.PrivilegeId
	case *types.NoPermission:
		return f.PrivilegeId
	}
	return "?"
}

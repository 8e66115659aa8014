// Package credentials finds the login for a server: in a file, in the environment, or in the login
// that culvert esxi login has saved. The command line never has a password, since every user of the
// machine can read it there.
//
// The commands of culvert-esxi call it, and hand the environment in.
package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/vsphere"
)

// The variables of the environment.
const (
	UserVariable     = "CULVERT_ESXI_USER"
	PasswordVariable = "CULVERT_ESXI_PASSWORD" //nolint:gosec // the name of a variable, not its value
)

// Source says where to look.
type Source struct {
	File   string // empty: none
	Getenv func(string) string
	Dir    string // of saved logins
}

// saved is a saved login: the session's cookie in place of the password.
type saved struct {
	Server string `json:"server"`
	User   string `json:"user"`
	Cookie string `json:"cookie"`
}

// Find returns the login for a server. A file comes before the environment, and that before a saved
// login.
func (s Source) Find(server string) (vsphere.Login, error) {
	if s.File != "" {
		return readFile(s.File)
	}
	user, password := s.Getenv(UserVariable), s.Getenv(PasswordVariable)
	if (user == "") != (password == "") {
		return vsphere.Login{}, fmt.Errorf("the environment has one of %s and %s: set both, or none", UserVariable, PasswordVariable)
	}
	if user != "" {
		return vsphere.Login{User: user, Password: password}, nil
	}
	text, err := os.ReadFile(s.pathOf(server))
	if errors.Is(err, fs.ErrNotExist) {
		return vsphere.Login{}, fmt.Errorf("there is no login for %s: run culvert esxi login, name a file with --credentials, or set %s and %s", server, UserVariable, PasswordVariable)
	}
	if err != nil {
		return vsphere.Login{}, fmt.Errorf("read the saved login: %w", err)
	}
	var l saved
	if err := json.Unmarshal(text, &l); err != nil || l.Cookie == "" {
		return vsphere.Login{}, fmt.Errorf("the saved login %s is not whole: run culvert esxi login again", s.pathOf(server))
	}
	return vsphere.Login{User: l.User, Cookie: l.Cookie}, nil
}

// readFile reads a file with user and password, which no other user of the machine may read.
func readFile(name string) (vsphere.Login, error) {
	info, err := os.Stat(name)
	if err != nil {
		return vsphere.Login{}, fmt.Errorf("read the credentials: %w", err)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return vsphere.Login{}, fmt.Errorf("credentials %s: other users have access to it (mode %04o): chmod 600 %[1]s", name, info.Mode().Perm())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return vsphere.Login{}, fmt.Errorf("read the credentials: %w", err)
	}
	user, password, err := file.ParseCredentials(name, text)
	return vsphere.Login{User: user, Password: password}, err
}

func (s Source) pathOf(server string) string {
	return filepath.Join(s.Dir, url.PathEscape(server)+".json")
}

// Save keeps the session of a server for later commands.
func (s Source) Save(server, user, cookie string) error {
	text, err := json.Marshal(saved{server, user, cookie})
	if err == nil {
		err = durable.MkdirAll(s.Dir, 0o700)
	}
	if err == nil {
		err = durable.WriteFile(s.pathOf(server), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("save the login: %w", err)
	}
	return nil
}

// Forget removes the saved login of a server.
func (s Source) Forget(server string) error {
	if err := os.Remove(s.pathOf(server)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the saved login: %w", err)
	}
	return nil
}

package credentials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/esxi/vsphere"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "login.yaml")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(secret, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{}
	s := Source{Getenv: func(key string) string { return env[key] }, Dir: filepath.Join(dir, "saved")}
	check := func(want vsphere.Login, mistake string) {
		t.Helper()
		got, err := s.Find("esxi01:443")
		if (err == nil) != (mistake == "") || err != nil && !strings.Contains(err.Error(), mistake) || err == nil && !cmp.Equal(got, want) {
			t.Errorf("%+v, %v; want %+v, %q", got, err, want, mistake)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("the password is in %v", err)
		}
	}
	check(vsphere.Login{}, "there is no login for esxi01:443: run culvert esxi login, name a file with --credentials, or set CULVERT_ESXI_USER")
	if err := s.Save("esxi01:443", "ann", "cookie"); err != nil {
		t.Fatal(err)
	}
	check(vsphere.Login{User: "ann", Cookie: "cookie"}, "")
	if info, err := os.Stat(s.pathOf("esxi01:443")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the saved login has %v, %v", info.Mode(), err)
	}
	env[UserVariable] = "bob"
	check(vsphere.Login{}, "set both, or none")
	env[PasswordVariable] = "hush"
	check(vsphere.Login{User: "bob", Password: "hush"}, "")
	s.File = secret
	check(vsphere.Login{}, "no such file")
	write("user: eve\npassword: hush\n", 0o600)
	check(vsphere.Login{User: "eve", Password: "hush"}, "")
	write("user: eve\npassword: hush\n", 0o640)
	check(vsphere.Login{}, "other users have access to it (mode 0640): chmod 600 "+secret)
	write("user: eve\npasswrod: hush\n", 0o600)
	check(vsphere.Login{}, "login.yaml:2: passwrod: unknown key: did you mean password?")
	write("user: eve\npassword: [hush]\n", 0o600)
	check(vsphere.Login{}, "login.yaml:2: password: a list: want the password")
	write("user: eve\n", 0o600)
	check(vsphere.Login{}, "login.yaml:1: password is missing")
	s.File, env = "", nil
	if err := os.WriteFile(s.pathOf("esxi01:443"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(vsphere.Login{}, "is not whole: run culvert esxi login again")
	for range 2 {
		if err := s.Forget("esxi01:443"); err != nil {
			t.Error(err)
		}
	}
	check(vsphere.Login{}, "there is no login")
}

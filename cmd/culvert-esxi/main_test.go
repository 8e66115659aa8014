package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/vmware/govmomi/simulator/esx"

	"github.com/culvert-net/culvert/internal/esxi/vsphere"
	"github.com/culvert-net/culvert/test/helptext"
	"github.com/culvert-net/culvert/test/vcsim"
)

func TestMain(m *testing.M) {
	os.Setenv("LC_ALL", "C")
	os.Exit(m.Run())
}

// person runs commands in a folder, with an environment and an answer on standard input.
type person struct {
	env   map[string]string
	input string
	// asked is called when a command reads from standard input.
	asked func()
}

// answer is a person's standard input.
type answer struct {
	io.Reader
	asked func()
}

func (a *answer) Read(b []byte) (int, error) {
	if a.asked != nil {
		a.asked()
		a.asked = nil
	}
	return a.Reader.Read(b)
}

func newPerson(t *testing.T) *person {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	return &person{env: map[string]string{"HOME": dir, "CULVERT_ESXI_USER": vcsim.User, "CULVERT_ESXI_PASSWORD": vcsim.Password}}
}

func (p *person) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newCommand(&esxi{getenv: func(key string) string { return p.env[key] }, poll: time.Millisecond})
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetIn(&answer{strings.NewReader(p.input), p.asked})
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return b.String(), err
}

// expect runs a command, whose output or error has all the texts.
func (p *person) expect(t *testing.T, command string, texts ...string) string {
	t.Helper()
	out, err := p.run(t, strings.Fields(command)...)
	if err != nil {
		out += "error: " + err.Error() + "\n"
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("culvert esxi %s: %q is not in:\n%s", command, text, out)
		}
	}
	return out
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHelp(t *testing.T) { helptext.Check(t, newRoot(os.Getenv)) }

// TestNotVerified: the help of each command that talks to a host says that no real one was there.
func TestNotVerified(t *testing.T) {
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		if name := c.Name(); name != "validate" && name != "logout" && name != "version" && name != "help" && !strings.Contains(c.Long, "Not verified on ESXi") {
			t.Errorf("%s --help does not say so", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" {
				check(sub)
			}
		}
	}
	check(newRoot(os.Getenv))
}

// TestNoPasswordInArguments: no flag takes a password.
func TestNoPasswordInArguments(t *testing.T) {
	p := newPerson(t)
	writeFile(t, "esxi.yaml", "server: a\n")
	p.expect(t, "status --password x", " has no flag --password")
	p.expect(t, "login --password x", " has no flag --password")
}

func TestStatus(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	p := newPerson(t)
	writeFile(t, "esxi.yaml", "server: "+m.Server+"\nthumbprint: "+m.Thumbprint+"\n")
	p.expect(t, "validate", "esxi.yaml is right: 0 ports, 0 switches, 0 virtual machines\n")
	p.expect(t, "status", "esxi01.example.com  ready  VMware ESXi", "vmnic2  0000:03:00.0  i40en   10 Gb/s  []   none, it can have 8\n", "vm3  off")
	p.expect(t, "status esxi.yaml -o json", `"vfsMax": 8`, `"sriovCapable": true`)
	p.expect(t, "status -o yaml", "vfsMax: 8\n")
	p.expect(t, "status none.yaml", "error: none.yaml: no such file or directory: name a file that is there")
}

// TestLogin: a saved login serves the commands that follow, until logout. The file has no password.
func TestLogin(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	p := newPerson(t)
	p.env = map[string]string{"HOME": p.env["HOME"]}
	writeFile(t, "esxi.yaml", "server: "+m.Server+"\nthumbprint: "+m.Thumbprint+"\n")
	p.expect(t, "status", "error: there is no login for "+m.Server+": run culvert esxi login")
	p.expect(t, "login --user culvert", "error: standard input has no password")
	p.input = "wrong\n"
	p.expect(t, "login --user culvert", "the server does not accept the login: check the user and the password")
	p.input = vcsim.Password + "\n"
	p.expect(t, "login --user culvert", "Logged in to "+m.Server+" as culvert.\n")
	text, err := os.ReadFile(".config/culvert/esxi/" + m.Server + ".json")
	if err != nil || strings.Contains(string(text), vcsim.Password) {
		t.Errorf("the saved login is %s, %v", text, err)
	}
	for range 2 {
		p.expect(t, "status", "ready")
	}
	p.expect(t, "logout")
	p.expect(t, "status", "error: there is no login")
	p.expect(t, "logout", "error: there is no login")
	writeFile(t, "login.yaml", "user: culvert\npassword: secret\n")
	p.expect(t, "status --credentials login.yaml", "ready")
	p.env["HOME"] = ""
	p.expect(t, "status", "error: there is no folder for saved logins: set HOME")
}

// TestRebootEndsLogin: an ESXi host ends the session of a saved login as it restarts. After another
// login, apply finishes.
func TestRebootEndsLogin(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	p := newPerson(t)
	p.env = map[string]string{"HOME": p.env["HOME"]}
	writeFile(t, "esxi.yaml", "server: "+m.Server+"\nthumbprint: "+m.Thumbprint+"\nports: [{nic: vmnic2, vfs: 2}]\nswitches: [{name: a}]\n")
	p.input = vcsim.Password + "\n"
	p.expect(t, "login")
	p.input = "n\n"
	p.expect(t, "apply", "Reboot host esxi01.example.com? [y/N]", "error: the reboot is not allowed: answer y, or give --reboot")
	p.input = ""
	p.expect(t, "apply", "error: the reboot is not allowed: nothing was touched; answer y, or give --reboot")
	p.expect(t, "apply --reboot", "host esxi01.example.com restarts, and the saved login ends with that", "run culvert esxi login again", "left: ~ host esxi01.example.com: reboot")
	p.input = vcsim.Password + "\n"
	p.expect(t, "login")
	p.expect(t, "apply", "~ host esxi01.example.com: leave maintenance mode\n+ vSwitch a: uplinks none, MTU 1500\nHost esxi01.example.com is as esxi.yaml says.\n")
	if m.Boots() != 1 {
		t.Errorf("%d boots", m.Boots())
	}
	m.Power(t, "vm1", true)
	out := p.expect(t, "remove", "REFUSED, and nothing is touched", "a reboot needs maintenance mode, and 1 virtual machine is on", "error: exit status 1")
	if strings.Contains(out, "- vSwitch a\n- ") {
		t.Error("it was touched")
	}
	p.expect(t, "plan --remove -o json", `"op": "-"`, `"text": "vSwitch a"`)
	m.Power(t, "vm1", false)
	writeFile(t, "login.yaml", "user: culvert\npassword: secret\n")
	p.expect(t, "remove --reboot --credentials login.yaml", "Nothing of esxi.yaml is left on host esxi01.example.com.\n")
}

// TestOneAtATime: while apply waits for an answer, a second apply or remove of this machine is refused, also
// with another file for the host. plan and status are not.
func TestOneAtATime(t *testing.T) {
	m := vcsim.New(t, vcsim.Options{})
	p := newPerson(t)
	text := "server: " + m.Server + "\nthumbprint: " + m.Thumbprint + "\nports: [{nic: vmnic2, vfs: 2}]\n"
	writeFile(t, "esxi.yaml", text)
	writeFile(t, "other.yaml", text)
	p.input = "y\n"
	asked := 0
	p.asked = func() {
		asked++
		p.asked = nil
		p.expect(t, "apply", "error: another culvert esxi is at work: it has the list esxi.yaml.made (process ", "): wait until it has ended")
		p.expect(t, "remove other.yaml --reboot", "error: another culvert esxi is at work: it has host esxi01.example.com (process ", "): wait until it has ended")
		p.expect(t, "plan other.yaml", "~ port vmnic2: VFs 0 -> 2")
		p.expect(t, "status", "ready")
	}
	p.expect(t, "apply", "Host esxi01.example.com is as esxi.yaml says.\n")
	p.expect(t, "apply other.yaml", "Host esxi01.example.com is as other.yaml says.\n")
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestRole: each privilege of the role is one that a host knows.
func TestRole(t *testing.T) {
	known := map[string]bool{}
	for _, r := range esx.RoleList {
		for _, p := range r.Privilege {
			known[p] = true
		}
	}
	for _, p := range vsphere.Privileges {
		if !known[p] {
			t.Errorf("no host knows the privilege %s", p)
		}
	}
	newPerson(t).expect(t, "role", strings.Join(vsphere.Privileges, "\n")+"\n")
}

package place

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeSSH puts a program ssh into PATH that runs the command on this host. programs are further
// programs of the other host, by name. The command makes its temporary folders in tmp.
func fakeSSH(t *testing.T, programs map[string]string) (tmp string) {
	t.Helper()
	bin, tmp := t.TempDir(), t.TempDir()
	// sshd hands the command to the user's shell as one string.
	script := `while [ "$1" != -- ]; do shift; done
[ "$2" = root@there ] || { echo "ssh: connect to host $2: no route" >&2; exit 255; }
exec sh -c "$3"`
	all := map[string]string{"ssh": script}
	for name, text := range programs {
		all[name] = text
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", tmp)
	return tmp
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOpenBySSH(t *testing.T) {
	tmp := fakeSSH(t, nil)
	path := inNetns(t)
	for _, netns := range []string{"", path} {
		p, err := Open(t.Context(), Spec{Kind: SSH, Machine: "root@there", Netns: netns}, ownProgram(t))
		if err != nil {
			t.Fatal(err)
		}
		sentBelow(t, p, tmp)
	}
}

// If the machine has culvert-bench in the same version, the agent is that program.
func TestOpenBySSHWithItsOwnProgram(t *testing.T) {
	self := ownProgram(t)
	tmp := fakeSSH(t, map[string]string{"culvert-bench": fmt.Sprintf(`[ "$1" = version ] && exec echo "culvert-bench v1.2.3 (go)"; exec %s "$@"`, self.Path)})
	p, err := Open(t.Context(), Spec{Kind: SSH, Machine: "root@there"}, self)
	if err != nil {
		t.Fatal(err)
	}
	if _, dir, _ := checkHello(t, p); dir != filepath.Dir(self.Path) {
		t.Errorf("the program is in %s", dir)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	empty(t, tmp)
	self.Version = "unknown" // two programs of that version may differ
	if p, err = Open(t.Context(), Spec{Kind: SSH, Machine: "root@there"}, self); err != nil {
		t.Fatal(err)
	}
	if _, dir, _ := checkHello(t, p); filepath.Dir(dir) != tmp {
		t.Errorf("a program of no known version was taken, in %s", dir)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenBySSHSaysWhatIsWrong(t *testing.T) {
	fakeSSH(t, map[string]string{"uname": "echo mips"})
	for machine, want := range map[string]string{
		"root@there": "install that version there",
		"nobody":     "no route",
	} {
		_, err := Open(t.Context(), Spec{Kind: SSH, Machine: machine}, ownProgram(t))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "ssh:"+machine) {
			t.Errorf("%s: %v; want %q in it", machine, err, want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(t.Context(), Spec{Kind: SSH, Machine: "root@there"}, ownProgram(t)); err == nil || !strings.Contains(err.Error(), "install OpenSSH") {
		t.Errorf("no ssh: %v", err)
	}
}

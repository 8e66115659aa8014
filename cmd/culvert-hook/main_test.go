package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/test/rpcserver"
)

// serve runs a culvertd that answers every report by calling answer, and returns its
// socket.
func serve(t *testing.T, answer func(method, text string) (any, error)) string {
	t.Helper()
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, func(srv *rpc.Server) {
		for _, method := range []string{api.MethodGuestStart, api.MethodGuestStop, api.MethodPortCreated, api.MethodPortDeleted} {
			srv.Handle(method, func(_ context.Context, raw json.RawMessage) (any, error) {
				var req api.GuestReport
				if err := json.Unmarshal(raw, &req); err != nil {
					return nil, err
				}
				return answer(method, string(req.XML))
			})
		}
	})
	return socket
}

// A person who runs the hook by hand reads what it is. libvirt's calls get no such text.
func TestHelp(t *testing.T) {
	null, err := os.Open(os.DevNull) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for line, want := range map[string]bool{"--help": true, "-h": true, "--version": true, "": true, "db1": false, "db1 prepare begin -": false, "--help prepare begin -": false} {
		if got := isHelpWanted(strings.Fields(line), null); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
	if !strings.Contains(about, "virsh dumpxml db1 | /etc/libvirt/hooks/qemu.d/culvert db1 prepare begin -") {
		t.Errorf("no example in: %s", about)
	}
}

// The hook fails only if culvertd refuses a start, or cannot read what the guest would start with.
// libvirt ends a running guest whose reconnect fails, and aborts every other operation whose hook
// fails.
func TestOnlyARefusalFails(t *testing.T) {
	refuse := serve(t, func(method, text string) (any, error) {
		return api.GuestAnswer{Refused: method + " no: " + text}, nil
	})
	allow := serve(t, func(method, _ string) (any, error) {
		if method == api.MethodGuestStart {
			return api.GuestAnswer{}, nil
		}
		return nil, errors.New("told of " + method)
	})
	broken := serve(t, func(string, string) (any, error) { return nil, errors.New("the ledger is damaged") })
	left := make(chan struct{}) // closed when all clients are gone
	slow := serve(t, func(string, string) (any, error) {
		<-left
		return api.GuestAnswer{Refused: "too late"}, nil
	})
	t.Cleanup(func() { close(left) })
	none := filepath.Join(t.TempDir(), "none")
	const vm = "<hostdev/>"
	padding := strings.Repeat("x", maxDefinition)
	big, late := vm+padding, padding+vm // the device may come last, behind long metadata
	for name, tc := range map[string]struct {
		args          string
		stdin, socket string
		exit          int
		says          string
	}{
		"held by another":        {"db1 prepare begin -", vm, refuse, 1, "culvert: vm.start no: <hostdev/>\n"},
		"a network's VF is held": {"net port-created begin -", "type='hostdev-pci'", refuse, 1, "culvert: vm.portCreated no: type='hostdev-pci'\n"},
		"over a network of ours": {"db1 prepare begin -", "network='culvert-0000-01-10-2'", refuse, 1, "vm.start no"},
		"free to start":          {"db1 prepare begin -", vm, allow, 0, ""},
		"a guest without VFs":    {"db1 prepare begin -", "<domain/>", none, 0, ""},
		"a port of a bridge":     {"default port-created begin -", "<plug type='bridge'/>", none, 0, ""},
		"culvertd is down":       {"db1 prepare begin -", vm, none, 0, "culvert: guest db1 starts without a look at the ledger: culvertd does not answer"},
		"culvertd cannot say":    {"db1 prepare begin -", vm, broken, 0, "the ledger is damaged"},
		"culvertd is slow":       {"db1 prepare begin -", vm, slow, 0, "starts without a look at the ledger: culvertd did not answer"},
		"too long":               {"db1 prepare begin -", big, allow, 1, "what libvirt says of db1 is longer than 524288 bytes, so culvertd cannot tell which VFs"},
		"too long, device last":  {"db1 prepare begin -", late, allow, 1, "longer than 524288 bytes"},
		"too long, without VFs":  {"db1 prepare begin -", padding + "<domain/>", none, 0, ""},
		"longer than is read":    {"db1 prepare begin -", strings.Repeat(padding, maxInput/maxDefinition) + "<domain/>", allow, 1, "longer than 524288 bytes"},
		"a long port":            {"net port-created begin -", big, allow, 1, "what libvirt says of net is longer"},
		"a long end":             {"db1 release end -", big, allow, 0, "its VFs stay its own until culvert vm detach: what libvirt says is longer than 524288 bytes"},
		"a long one comes back":  {"db1 reconnect begin -", big, refuse, 0, ""},
		"libvirtd comes back":    {"db1 reconnect begin -", vm, refuse, 0, ""},
		"a migration comes in":   {"db1 migrate begin -", vm, refuse, 0, ""},
		"a guest has ended":      {"db1 release end shutdown", vm, allow, 0, "guest db1 has ended; its VFs stay its own until culvert vm detach: told of vm.stop"},
		"a device is put back":   {"net port-deleted begin -", vm, allow, 0, "told of vm.portDeleted"},
		"a network starts":       {"net start begin -", vm, refuse, 0, ""},
		"by hand":                {"", "", refuse, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			p := patience{away: 20 * time.Millisecond, answer: time.Minute}
			if tc.socket == slow {
				p.answer = 500 * time.Millisecond
			}
			exit := runHook(strings.Fields(tc.args), strings.NewReader(tc.stdin), &stderr, tc.socket, p)
			if exit != tc.exit || !strings.Contains(stderr.String(), tc.says) || tc.says == "" && stderr.Len() > 0 {
				t.Errorf("exit %d: %s", exit, stderr.String())
			}
		})
	}
}

// A guest whose definition is marked as moving does not start, with every answer of
// culvertd and without one: the other host may run the guest on the same disk. The
// mark does not make reports fail that a guest ended or was reconnected.
func TestMarkedGuestNeverStarts(t *testing.T) {
	allow := serve(t, func(string, string) (any, error) { return api.GuestAnswer{}, nil })
	none := filepath.Join(t.TempDir(), "s")
	domain := func(metadata, devices string) string {
		return "<domain type='kvm'>\n  <name>db1</name>\n  <metadata>" + metadata + "</metadata>\n  <devices>" + devices + "</devices>\n</domain>"
	}
	const ours = `<culvert:guest xmlns:culvert="https://culvert.dev/guest" `
	long := strings.Repeat("<x/>", maxDefinition/4)
	for name, tc := range map[string]struct {
		args, stdin, says string // empty: it starts
	}{
		"leaves":              {"db1 prepare begin -", domain(ours+`moving-to="host-b"/>`, "<hostdev/>"), "guest db1 is on its way to host host-b"},
		"arrives":             {"db1 prepare begin -", domain(ours+`moving-from="host-a"><culvert:vf device="net1"/></culvert:guest>`, "<hostdev/>"), "guest db1 is on its way here from host host-a"},
		"without VFs":         {"db1 prepare begin -", domain(ours+`moving-to="host-b"/>`, ""), "on its way to host host-b"},
		"another prefix":      {"db1 prepare begin -", domain(`<other xmlns="o:"/><g xmlns='https://culvert.dev/guest' moving-to='b&quot;c'/>`, ""), `on its way to host b"c`},
		"too long to be read": {"db1 prepare begin -", domain(ours+`moving-to="host-b"/>`, long), "on its way to host host-b"},
		"half a definition":   {"db1 prepare begin -", "<domain><name>moving-to</name><metadata>", "may be on its way to another host: its definition cannot be read"},
		"another's mark":      {"db1 prepare begin -", domain(`<a:guest xmlns:a="https://example.com" moving-to="b"/>`, "<hostdev/>"), ""},
		"outside of metadata": {"db1 prepare begin -", domain("", `<culvert:guest xmlns:culvert="https://culvert.dev/guest" moving-to="b"/>`), ""},
		"only a name":         {"db1 prepare begin -", domain("<a:note xmlns:a='a:'>moving-to</a:note>", ""), ""},
		"not moving":          {"db1 prepare begin -", domain(ours+"/>", "<hostdev/>"), ""},
		"has ended":           {"db1 release end -", domain(ours+`moving-to="host-b"/>`, "<hostdev/>"), ""},
		"runs already":        {"db1 reconnect begin -", domain(ours+`moving-to="host-b"/>`, "<hostdev/>"), ""},
	} {
		for _, socket := range []string{none, allow} {
			var stderr bytes.Buffer
			exit := runHook(strings.Fields(tc.args), strings.NewReader(tc.stdin), &stderr, socket, patience{away: 20 * time.Millisecond, answer: time.Minute})
			if refused := exit != 0; refused != (tc.says != "") || !strings.Contains(stderr.String(), tc.says) {
				t.Errorf("%s, culvertd answers %t: exit %d: %s", name, socket == allow, exit, stderr.String())
			}
		}
	}
}

// The hook's report reaches a culvertd that starts while the hook waits.
func TestAwayForAMoment(t *testing.T) {
	socket := serve(t, func(string, string) (any, error) { return api.GuestAnswer{Refused: "heard"}, nil })
	later := filepath.Join(filepath.Dir(socket), "l")
	timer := time.AfterFunc(50*time.Millisecond, func() {
		if err := os.Symlink(socket, later); err != nil {
			t.Error(err)
		}
	})
	defer timer.Stop()
	var stderr bytes.Buffer
	if exit := runHook([]string{"db1", "prepare"}, strings.NewReader("<hostdev/>"), &stderr, later, patience{away: 30 * time.Second, answer: time.Minute}); exit != 1 {
		t.Errorf("exit %d: %s", exit, stderr.String())
	}
}

// TestDiskOfTypeNVMeConcernsCulvert: libvirt takes the PCI function of such a disk from its driver.
func TestDiskOfTypeNVMeConcernsCulvert(t *testing.T) {
	if !concernsCulvert([]byte("<domain><devices><disk type='nvme'><source type='pci'/></disk></devices></domain>")) {
		t.Error("culvertd is not asked")
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
)

// If culvertd does not run, the shim itself answers every invocation with an object of the CNI
// specification: a version, or an error with a code and exit 1.
func FuzzShim(f *testing.F) {
	f.Add("VERSION", []byte(`{"cniVersion":"1.0.0"}`))
	f.Add("ADD", []byte(`{"cniVersion":"\u001b[2J"}`))
	f.Add("STATUS", []byte(`{"cniVersion":[]}`))
	f.Add("", []byte(``))
	f.Add("../x", bytes.Repeat([]byte("["), maxConfig+1))
	socket := filepath.Join(f.TempDir(), "none.sock")
	f.Fuzz(func(t *testing.T, command string, config []byte) {
		var out bytes.Buffer
		exit := shim{command: command, containerID: command, netns: command, ifName: command, args: command, path: command,
			socket: socket, stdin: bytes.NewReader(config), stdout: &out}.runShim()
		if out.Len() > 10_000+len(socket) {
			t.Errorf("an answer of %d bytes", out.Len())
		}
		if command == "VERSION" && exit == 0 {
			var v api.CNIVersion
			if err := json.Unmarshal(out.Bytes(), &v); err != nil || len(v.SupportedVersions) == 0 {
				t.Errorf("%v: %s", err, out.Bytes())
			}
			return
		}
		var e api.CNIError
		if err := json.Unmarshal(out.Bytes(), &e); err != nil || e.Code == 0 || e.Msg == "" || exit != 1 {
			t.Errorf("exit %d, %v: %s", exit, err, out.Bytes())
		}
	})
}

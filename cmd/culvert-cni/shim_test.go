package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if exit := (shim{socket: "/s.sock", stdout: &out}).printHelp(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
	for _, want := range []string{"1.1.0", "/s.sock", "culvert status"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not mention %s", want)
		}
	}
}

func TestUnreadableConfiguration(t *testing.T) {
	var out bytes.Buffer
	s := shim{command: "ADD", stdin: iotest.ErrReader(errors.New("broken pipe")), stdout: &out}
	if exit := s.runShim(); exit != 1 || !strings.Contains(out.String(), `"code": 5`) {
		t.Errorf("exit %d: %s", exit, out.String())
	}
}

package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sideAgent is an agent with its client, and the file to which the commands of the test write.
func sideAgent(t *testing.T) (c *Client, file string, leave func()) {
	t.Helper()
	here, there := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(context.Background(), there, there, Options{Version: "test", Log: slog.New(slog.DiscardHandler)})
	}()
	c, err := NewClient(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	leave = func() {
		c.Close()
		<-ended
	}
	t.Cleanup(func() { c.Close() })
	return c, filepath.Join(t.TempDir(), "log"), leave
}

func readLog(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// An agent runs the command of a side, and the one that undoes it, once: when it is asked, or when its
// conductor is gone.
func TestSettingIsUndone(t *testing.T) {
	for _, asked := range []bool{true, false} {
		c, file, leave := sideAgent(t)
		says, err := c.SetUp(t.Context(), Setting{Side: "B", Do: "echo $CULVERT_SIDE >>" + file + "; echo first; echo v2", Undo: "echo undone $CULVERT_SIDE >>" + file})
		if err != nil || says != "v2" {
			t.Fatalf("%q, %v", says, err)
		}
		if asked {
			if err := c.Undo(t.Context()); err != nil {
				t.Error(err)
			}
			if err := c.Undo(t.Context()); err != nil { // there is nothing left to undo
				t.Error(err)
			}
		}
		leave()
		if got := readLog(t, file); got != "B undone A" {
			t.Errorf("asked %t: the commands wrote %q", asked, got)
		}
	}
}

// The agent undoes a side, and leaves, when its conductor is gone and an answer can never be written: a
// write to a virtio channel waits for the next program that connects.
func TestSettingIsUndoneWithoutAReader(t *testing.T) {
	fromConductor, requests := io.Pipe()
	answers, toConductor := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(context.Background(), fromConductor, toConductor, Options{Version: "test", Log: slog.New(slog.DiscardHandler)})
	}()
	file := filepath.Join(t.TempDir(), "log")
	read, write := bufio.NewScanner(answers), json.NewEncoder(requests)
	for _, r := range []request{{ID: 1, Do: setUp, Setting: &Setting{Side: "B", Do: "echo begun >>" + file, Undo: "echo undone >>" + file}}, {ID: 2, Do: describe}} {
		if !read.Scan() { // the greeting, and the answer before
			t.Fatal(read.Err())
		}
		if err := write.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	requests.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the agent did not leave")
	}
	if got := readLog(t, file); got != "begun undone" {
		t.Errorf("the commands wrote %q", got)
	}
}

// A request to undo may overtake the one to set up a side, whose command then does not run.
func TestSettingAfterUndo(t *testing.T) {
	c, file, leave := sideAgent(t)
	if err := c.Undo(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.SetUp(t.Context(), Setting{Side: "B", Do: "echo late >>" + file, Undo: "echo undone >>" + file}); err == nil || !strings.Contains(err.Error(), "undone already") {
		t.Errorf("a side after the end: %v", err)
	}
	leave()
	if got := readLog(t, file); got != "" {
		t.Errorf("the commands wrote %q", got)
	}
}

// A command that fails, or that runs when the conductor goes, is undone too.
func TestFailedSettingIsUndone(t *testing.T) {
	c, file, leave := sideAgent(t)
	_, err := c.SetUp(t.Context(), Setting{Side: "B", Do: "echo half >>" + file + "; echo no such NIC >&2; exit 3", Undo: "echo undone >>" + file})
	if err == nil || !strings.Contains(err.Error(), "exit status 3: no such NIC") {
		t.Errorf("a command that fails: %v", err)
	}
	leave()
	if got := readLog(t, file); got != "half undone" {
		t.Errorf("the commands wrote %q", got)
	}
	for _, asked := range []bool{true, false} {
		c, file, leave = sideAgent(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = c.SetUp(ctx, Setting{Side: "B", Do: "echo begun >>" + file + "; sleep 600; echo late >>" + file, Undo: "echo undone >>" + file})
		}()
		for readLog(t, file) != "begun" && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		if asked {
			if err := c.Undo(t.Context()); err != nil {
				t.Error(err)
			}
		}
		leave()
		if got := readLog(t, file); got != "begun undone" {
			t.Errorf("asked %t: the commands wrote %q", asked, got)
		}
	}
}

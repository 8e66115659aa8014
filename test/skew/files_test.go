package skew

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/test/skew/story"
)

// The ledger that the oldest culvertd wrote, and the requests that the oldest programs sent, work
// with today's culvertd: all owners keep their VFs, and each request succeeds. The requests end with
// the DEL of all containers and the end of the guest.
func TestOldFiles(t *testing.T) {
	if got := readTestdata(t, "commit.txt"); got != oldest(t) {
		t.Errorf("testdata is of commit %s, and oldest.txt names %s: tools/go test ./test/skew -run OlderPrograms -args -update", got, oldest(t))
	}
	socket := goOnHere(t)
	want := parseLedger(t, []byte(readTestdata(t, "ledger.json")))
	checkStory(t, want)
	compareLedgers(t, "old ledger", want, askLedger(t, socket))
	requests := strings.Split(readTestdata(t, "requests.txt"), "\n")
	if len(requests) < 12 {
		t.Errorf("only %d requests", len(requests))
	}
	for _, request := range requests {
		var answer struct {
			Result json.RawMessage
			Error  *api.Error
		}
		if err := json.Unmarshal([]byte(replay(t, socket, request+"\n")), &answer); err != nil {
			t.Fatal(err)
		}
		var did api.CNIResponse
		_ = json.Unmarshal(answer.Result, &did) // other answers have no exit status
		if answer.Error != nil || did.Exit != 0 {
			t.Errorf("%s\nanswer: %v, %s", request, answer.Error, did.Stdout)
		}
	}
	checkEnd(t, askLedger(t, socket))
}

// A program that is newer than culvertd may send a field that culvertd does not know. culvertd refuses
// each such request, says which of the two to upgrade, and changes nothing.
func TestRequestsOfNewerPrograms(t *testing.T) {
	socket := goOnHere(t)
	before, tried := askLedger(t, socket), 0
	for request := range strings.SplitSeq(readTestdata(t, "requests.txt"), "\n") {
		newer := strings.Replace(request, `"params":{`, `"params":{"frob":true,`, 1)
		if newer == request || strings.Contains(request, `"method":"events"`) {
			continue // the story's events have no parameters
		}
		tried++
		answer := replay(t, socket, newer+"\n")
		for _, want := range []string{`it has the field \"frob\", which this version of Culvert does not know`, "culvertd is older than the program that asks"} {
			if !strings.Contains(answer, want) {
				t.Errorf("%s\nanswer: %s, want %s", newer, answer, want)
			}
		}
	}
	if tried < 8 {
		t.Errorf("only %d requests have parameters", tried)
	}
	compareLedgers(t, "refused requests", before, askLedger(t, socket))
}

// goOnHere runs this tree's node in this process, with the recorded ledger, and returns its socket.
func goOnHere(t *testing.T) (socket string) {
	t.Helper()
	dir := newDir(t)
	unpackLedger(t, filepath.Join(dir, "ledger.db"))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- story.Run(ctx, dir) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "s")
}

func unpackLedger(t *testing.T, path string) {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", "ledger.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	in, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(in)
	if err := errors.Join(err, os.WriteFile(path, raw, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// askLedger returns the ledger of the node, as soon as it answers.
func askLedger(t *testing.T, socket string) ledger {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		var raw json.RawMessage
		err := rpc.Call(ctx, socket, api.MethodLedger, nil, &raw)
		if err == nil {
			return parseLedger(t, raw)
		}
		if !errors.Is(err, rpc.ErrNoDaemon) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// A newer program may send a method or a field that this culvertd does not know. The refusal names it,
// and says which of the two programs to upgrade.
func TestNewerClient(t *testing.T) {
	s := newServer()
	s.Handle("known", func(_ context.Context, params json.RawMessage) (any, error) {
		var want struct{ A int }
		if err := exactjson.Decode(params, &want); err != nil {
			return nil, errors.Join(vf.ErrInvalid, err)
		}
		return want.A, nil
	})
	socket, _ := start(t, s)
	const upgrade = "culvertd is older than the program that asks: install the culvertd that came with that program"
	for request, want := range map[string]string{
		`{"method": "known", "params": {"A": 7}}`:            "",
		`{"method": "frob"}`:                                 `culvertd has no method "frob"`,
		`{"method": "known", "params": {"A": 7, "frob": 1}}`: `it has the field "frob", which this version of Culvert does not know`,
		`{"method": "known", "frob": 1}`:                     `read the request: it has the field "frob", which this version of Culvert does not know`,
	} {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(request + "\n")); err != nil {
			t.Fatal(err)
		}
		var resp api.RPCResponse
		err = json.NewDecoder(bufio.NewReader(c)).Decode(&resp)
		c.Close()
		switch {
		case err != nil:
			t.Errorf("%s: %v", request, err)
		case want == "":
			if resp.Error != nil || string(resp.Result) != "7" {
				t.Errorf("%s: %s, %v", request, resp.Result, resp.Error)
			}
		case resp.Error == nil || !strings.Contains(resp.Error.Message, want) || resp.Error.Details != upgrade:
			t.Errorf("%s: %v, want %s", request, resp.Error, want)
		}
	}
}

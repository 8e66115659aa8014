package guests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/rpcserver"
)

// freeVF asks culvertd again while QEMU has the VF open. A VF that culvertd has taken back by
// itself is free.
func TestFree(t *testing.T) {
	var asked []api.GuestDetachRequest
	var answers []error
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, func(srv *rpc.Server) {
		srv.Handle(api.MethodGuestDetach, func(_ context.Context, raw json.RawMessage) (any, error) {
			var req api.GuestDetachRequest
			err := errors.Join(json.Unmarshal(raw, &req), answers[0])
			asked, answers = append(asked, req), answers[1:]
			return api.GuestDetached{}, err
		})
	})
	h := &Host{culvertd: socket}
	open, gone, broken := fmt.Errorf("%w open by qemu", vf.ErrHeld), fmt.Errorf("no such lease: %w", vf.ErrNotFound), fmt.Errorf("%w", vf.ErrUnable)
	for name, tc := range map[string]struct {
		answers []error
		want    error
	}{
		"free":          {[]error{nil}, nil},
		"open at first": {[]error{open, open, nil}, nil},
		"gone":          {[]error{open, gone}, nil},
		"cannot":        {[]error{broken}, vf.ErrUnable},
	} {
		t.Run(name, func(t *testing.T) {
			asked, answers = nil, tc.answers
			err := h.Do(t.Context(), Free{"uuid", "net1"})
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if len(asked) != len(tc.answers) || asked[0] != (api.GuestDetachRequest{Guest: "uuid", Device: "net1"}) {
				t.Errorf("it asked %v", asked)
			}
		})
	}
}

package pod

import (
	"errors"
	"testing"

	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// A newer shim may send a field that this culvertd does not know.
func TestRequestOfANewerShim(t *testing.T) {
	_, err := New(Config{}).Serve(t.Context(), []byte(`{"command": "ADD", "frob": true}`), nil)
	if !errors.Is(err, vf.ErrInvalid) || !errors.Is(err, exactjson.Unknown{Field: "frob"}) {
		t.Errorf("got %v", err)
	}
}

package strictjson

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// An object that is right reads the same a second time. The error of any other text is a
// vf.ErrInvalid. Each of its problems names its key and is short, however long the value is.
func FuzzParse(f *testing.F) {
	f.Add(`{"in":{"deep":"x"},"many":[{}],"rows":[[{}],[]]}`)
	f.Add(`{"rows":[[null]],"in":[],"n":1e400}`)
	f.Add(`{"name":"a","name":"b","Name":"c"}`)
	f.Add(`{"n":01}`)
	f.Add("{\"\\u0000\":\"\xff\"}")
	f.Add(`{"name":["\u001b[2J"],"\u001b[2J":1,"on":"\u001b[2J","addr":"\n\u001b[2J"}`)
	f.Add("\"\\x80")
	f.Fuzz(func(t *testing.T, raw string) {
		err := read(raw)
		if again := read(raw); (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Fatalf("first %v, then %v", err, again)
		}
		if err == nil {
			if !json.Valid([]byte(raw)) {
				t.Fatal("read, and not JSON")
			}
			return
		}
		var e *Error
		if !errors.Is(err, vf.ErrInvalid) || !errors.As(err, &e) || len(e.Problems) == 0 || len(e.Problems) > MaxProblems {
			t.Fatalf("%T %v", err, err)
		}
		for _, p := range e.Problems {
			if p.Text == "" || len(p.Text) > longestProblem || excerpt.Clean(p.Text) != p.Text {
				t.Errorf("key %q: %d bytes: %q", p.Key, len(p.Text), p.Text)
			}
		}
	})
}

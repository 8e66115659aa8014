package strictjson

import (
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Problem is one thing that is wrong.
type Problem struct {
	Key string
	// Text is the whole message, with the key, the value and what is wanted.
	Text string
	// Unknown is set for a key that is unknown or not served, as opposed to a
	// value that is wrong.
	Unknown bool
}

// Error lists the problems of an object, up to MaxProblems. errors.Is(err, vf.ErrInvalid) holds.
type Error struct{ Problems []Problem }

// MaxProblems is how many problems of an object are kept and listed. A longer list comes from a
// text of another kind, or from an attempt to fill memory.
const MaxProblems = 20

func (e *Error) Error() string {
	texts := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		texts = append(texts, p.Text)
	}
	if len(texts) >= MaxProblems {
		texts = append(texts, "and maybe more, which are not listed")
	}
	return strings.Join(texts, "; ")
}

// Is makes every Error a vf.ErrInvalid.
func (e *Error) Is(target error) bool { return target == vf.ErrInvalid }

// OnlyUnknown reports whether unknown or unserved keys are all that is wrong
// (the CNI specification has a code of its own for them).
func (e *Error) OnlyUnknown() bool {
	for _, p := range e.Problems {
		if !p.Unknown {
			return false
		}
	}
	return true
}

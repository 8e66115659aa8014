package journal

import (
	"errors"
	"testing"
)

// An entry is decoded once, and again when it, or what its key means, changed;
// one that cannot be read never counts as read.
func TestMemo(t *testing.T) {
	decodes := 0
	m := newMemo(func(_, stored []byte) (string, error) {
		decodes++
		if string(stored) == "damaged" {
			return "", errors.New("it is damaged")
		}
		return "<" + string(stored) + ">", nil
	})
	for i, step := range []struct {
		key, stored string
		decodes     int
	}{
		{"a", "1", 1}, {"a", "1", 1}, {"b", "1", 2}, {"a", "2", 3}, {"a", "1", 4}, {"b", "1", 4},
		{"a", "damaged", 5}, {"a", "damaged", 6}, {"a", "1", 6},
	} {
		stored := []byte(step.stored)
		got, err := m.of([]byte(step.key), stored)
		if want := "<" + step.stored + ">"; step.stored == "damaged" && err == nil || step.stored != "damaged" && (err != nil || got != want) {
			t.Errorf("%d: %q, %v", i, got, err)
		}
		if decodes != step.decodes {
			t.Errorf("%d: decoded %d times, want %d", i, decodes, step.decodes)
		}
		stored[0] = 'x' // bbolt's memory is reused
	}
	m.forget([]byte("a"))
	m.forget([]byte("c"))
	if len(m.seen) != 1 {
		t.Errorf("it remembers %v", m.seen)
	}
}

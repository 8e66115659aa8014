package journal_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// TestDamageAtRandom does the work of FuzzDamagedFile without the fuzzing engine, which is slow
// because most of an execution is file I/O. It runs for a second in the suite, and for
// CULVERT_DAMAGE_FOR by hand. The message of a failure has its seed.
func TestDamageAtRandom(t *testing.T) {
	bound := time.Second
	if s := os.Getenv("CULVERT_DAMAGE_FOR"); s != "" {
		var err error
		if bound, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	files := 200
	if testing.Short() { // the race detector makes each one slow
		files = 20
	}
	seed := uint64(time.Now().UnixNano())
	runs, refused := 0, 0
	for end := time.Now().Add(bound); time.Now().Before(end); {
		whole := image(t, int(seed%50))
		before := readContent(whole)
		for range files {
			seed++
			rnd := rand.New(rand.NewPCG(seed, 0))
			spoilt := bytes.Clone(whole)
			for range 1 + rnd.IntN(2) {
				edit := []byte{"xxxxstdip"[rnd.IntN(9)], byte(rnd.IntN(256)), 0, 0, 0, 0, 0, byte(rnd.IntN(256))}
				if rnd.IntN(2) == 0 { // one bit
					edit = []byte{'x', 1, 0, 0, 0, 0, 0, 1 << rnd.IntN(8)}
				}
				at := rnd.IntN(len(whole))
				edit[3], edit[4], edit[5] = byte(at), byte(at>>8), byte(at>>16)
				spoilt = damaged(spoilt, edit)
			}
			runs++
			if acceptable(t, before, spoilt) {
				refused++
				if runs%10 != 0 {
					continue
				}
			}
			opens(t, spoilt)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
	t.Logf("%d damaged files: %d refused, %d isolated or without effect", runs, refused, runs-refused)
}

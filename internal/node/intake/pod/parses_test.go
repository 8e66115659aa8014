package pod_test

import "testing"

// TestCallsInTurn makes calls for a pod with one network of Culvert's. test/layout counts in each of
// its subtests how often the calls parse a text (TestACallParsesItsTextsOnce).
func TestCallsInTurn(t *testing.T) {
	for name, calls := range map[string]int{"two": 2, "three": 3, "four": 4} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("n1", sriov)
			w.asks("n1")
			for i := range calls {
				if i%2 == 0 {
					w.add()
				} else {
					w.del()
				}
			}
		})
	}
}

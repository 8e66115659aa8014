package node

import "testing"

func TestFindGap(t *testing.T) {
	for text, want := range map[string]Answers{
		"1.5\n1.75\n3.75\n4\n":        {Count: 4, Longest: Gap{1.75, 3.75}},
		"1\n2":                        {Count: 2, Longest: Gap{1, 2}},
		"1\n2 (DUP!)\n3 (DUP!)\n4\n5": {Count: 3, Duplicates: 2, Longest: Gap{1, 4}},
	} {
		if got, err := FindGap(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1\n", "1\nx\n", "1\n2 (DUP!)\n"} {
		if got, err := FindGap(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

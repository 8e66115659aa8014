package vf

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumbers(t *testing.T) {
	for _, tc := range []struct {
		in   []int
		want string
	}{
		{nil, ""},
		{[]int{3}, "3"},
		{[]int{0, 1, 2, 3, 8}, "0-3,8"},
		{[]int{0, 2, 3, 5}, "0,2-3,5"},
	} {
		if got := Numbers(tc.in); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestParseNumbers(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []int
		bad  bool
	}{
		{"", nil, false},
		{"0", []int{0}, false},
		{"0-3,8,10-11", []int{0, 1, 2, 3, 8, 10, 11}, false},
		{"3-1", nil, true},
		{"0-", nil, true},
		{"-1", nil, true},
		{"a", nil, true},
		{"0-65535,0-65535", nil, true},
	} {
		got, err := ParseNumbers(tc.text)
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.bad {
			t.Errorf("%q: %v\n%s", tc.text, err, diff)
		}
	}
}

func FuzzParseNumbers(f *testing.F) {
	for _, s := range []string{"", "0", "0-3,8,10-11", "3-1", "0-65535,0-65535"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseNumbers(s)
		if err == nil && (len(list) > 2*mostNumber || slices.Min(append(list, 0)) < 0) {
			t.Errorf("list of %d", len(list))
		}
		if again, err := ParseNumbers(Numbers(list)); err != nil || !slices.Equal(list, again) && slices.IsSorted(list) && len(slices.Compact(slices.Clone(list))) == len(list) {
			t.Errorf("%q is %v, then %v, %v", s, list, again, err)
		}
	})
}

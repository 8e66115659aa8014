package rtnl

import (
	"errors"
	"slices"
)

// MaxPerLink bounds how many addresses and how many routes of one link a List keeps: the
// owner of a VF may give it as many as it likes. A network's configuration has room for
// less (netconf.MaxText), so a VF as it was attached is always read whole.
const MaxPerLink = 4096

// List is the result of a dump.
type List[T any] struct {
	Kept []T
	// More has, by link, the number of values that are not in Kept.
	More map[int]int
}

// bounded is a List that is being read.
type bounded[T any] struct {
	List[T]
	kept map[int]int // by link
}

func (b *bounded[T]) addBounded(link int, v T) {
	if b.kept[link] >= MaxPerLink {
		b.More[link]++
		return
	}
	b.kept[link]++
	b.Kept = append(b.Kept, v)
}

// dumpList returns the values that parse reads from the messages, except those for which its ok is
// false. If the list changes during the read, dumpList reads it again, up to attempts times. It
// keeps one datagram of the kernel's at a time.
func dumpList[T any](c *Conn, r Request, parse func(body []byte) (v T, link int, ok bool, err error)) (List[T], error) {
	var err error
	for range attempts {
		b := bounded[T]{List[T]{More: map[int]int{}}, map[int]int{}}
		err = c.Visit(r, func(body []byte) error {
			v, link, ok, err := parse(body)
			if ok && err == nil {
				b.addBounded(link, v)
			}
			return err
		})
		if err == nil {
			b.Kept = slices.Clip(b.Kept)
			return b.List, nil
		}
		if !errors.Is(err, ErrInterrupted) {
			break
		}
	}
	return List[T]{}, err
}

package pages

import (
	"bytes"
	"io"
)

// section is a part of a file: a page with those that it goes on for, or less.
type section struct {
	source   io.ReaderAt
	at, size int64
}

// read fills b from an offset of the section on.
func (s section) read(b []byte, from int64) error {
	if have, err := s.source.ReadAt(b, s.at+from); have < len(b) {
		return err
	}
	return nil
}

// bytes reads n bytes of the section from an offset on, which must be within it.
func (s section) bytes(from, n int64) ([]byte, error) {
	b := make([]byte, n)
	return b, s.read(b, from)
}

// from is the section without its first n bytes, which it must have.
func (s section) from(n int64) section { return section{s.source, s.at + n, s.size - n} }

// part is n bytes of the section at pos after e; false when they are outside of it.
func (s section) part(e int64, pos uint32, n uint64) (section, bool) {
	from := uint64(e) + uint64(pos)
	if pos < elementSize || n > uint64(s.size) || from > uint64(s.size)-n {
		return section{}, false
	}
	return section{s.source, s.at + int64(from), int64(n)}, true
}

// load reads the section into memory at once.
func (s section) load() (section, error) {
	b, err := s.bytes(0, s.size)
	return section{bytes.NewReader(b), 0, s.size}, err
}

// bitset is a set of page numbers below a bound.
type bitset []uint64

func newBitset(bound uint64) bitset { return make(bitset, bound/64+1) }

func (b bitset) has(n uint64) bool { return n/64 < uint64(len(b)) && b[n/64]&(1<<(n%64)) != 0 }

func (b bitset) add(n uint64) { b[n/64] |= 1 << (n % 64) }

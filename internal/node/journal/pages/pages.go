// Package pages reads a bbolt file without bbolt. It reads a Source, and returns the entries of its
// buckets, with a Fault for everything that is not as bbolt writes it. It never accesses anything
// outside the file, for any content. Its memory does not depend on the file's size, except for a
// bit for each page: it reads one page and one value at a time.
//
// bbolt maps its file and trusts the page numbers and sizes in it. On a file that was cut short, or
// whose page numbers or sizes are wrong, it faults (SIGBUS, SIGSEGV) or panics, in Open as well as
// in its own Check (github.com/etcd-io/bbolt issues 105 and 778). So package journal reads a ledger
// with this package first, and hands bbolt only files without a Fault.
//
// The format is that of bbolt 1.4 (internal/common: page.go, meta.go,
// bucket.go), in the machine's byte order, as bbolt has it.
package pages

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"slices"
)

// Source is the content of a file.
type Source interface {
	io.ReaderAt
	Size() int64
}

// Fault is one thing that is wrong with a file.
type Fault struct {
	Page uint64
	What string
}

func (f Fault) String() string { return fmt.Sprintf("page %d: %s", f.Page, f.What) }

// File holds the readable part of a Source.
type File struct {
	PageSize int
	// Faults has the first maxFaults faults, and then one for all the others.
	Faults  []Fault
	Buckets []string // names, in order
	// Free is how many pages are free, and Largest the bytes of the largest value, in a
	// file without a Fault.
	Free, Largest int64

	source Source
	root   uint64 // of the tree; 0 when no meta can be read
	hwm    uint64 // pages below it are in use or free
	count  uint64 // pages that the file has whole
	whole  bitset // pages of entries that were all read
}

// MaxValue is how many bytes of a value are read at most.
const MaxValue = 1 << 20

// maxFaults bounds the memory that a large damaged file takes; maxDepth is more levels
// than a tree of any size has, and bounds the stack.
const maxFaults, maxDepth = 1000, 64

// Layout, in bytes.
const (
	headerSize  = 16 // id u64, flags u16, count u16, overflow u32
	elementSize = 16 // leaf: flags, pos, ksize, vsize u32; branch: pos, ksize u32, page u64
	bucketSize  = 16 // root page u64, sequence u64; root 0: the page follows
	metaSize    = 64
	sumAt       = metaSize - 8

	magic   = 0xED0CDAED
	version = 2

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10
	bucketEntry  = 0x01

	minPageSize, maxPageSize, usualPageSize = 1 << 10, 1 << 16, 1 << 12

	maxKey = 1 << 15 // bbolt's MaxKeySize
)

var order = binary.NativeEndian

// Read reads a file by the newer of its two metas. If that one is damaged, it follows the other
// one, which shows the content before the last transaction.
func Read(source Source) *File {
	f := &File{source: source, PageSize: usualPageSize}
	m, ok := f.chooseMeta()
	if !ok {
		return f
	}
	f.PageSize, f.root, f.hwm = int(m.pageSize), m.root, m.pgid
	if f.count = uint64(source.Size()) / uint64(m.pageSize); f.count < m.pgid {
		f.addFault(f.count, "the file ends here; it had %d pages of %d bytes", m.pgid, m.pageSize)
	}
	w := f.newWalk(nil)
	w.report = f.addFault
	f.whole = newBitset(f.count)
	w.readTree(m.root, "", limits{})
	w.readFreelist(m.freelist)
	if len(f.Faults) > 0 {
		return f // the pages below them were not reached
	}
	for id := range f.hwm {
		if !w.reached.hasBit(id) {
			f.addFault(id, "it is neither in use nor free")
		}
	}
	return f
}

func (f *File) addFault(page uint64, format string, args ...any) {
	switch n := len(f.Faults); {
	case n < maxFaults:
		f.Faults = append(f.Faults, Fault{page, fmt.Sprintf(format, args...)})
	case n == maxFaults:
		f.Faults = append(f.Faults, Fault{page, "it and others have more faults, which are not listed"})
	}
}

// Items returns the keys and values of a bucket in key order: those of the last
// transaction whose commit is whole, as far as they can be read. The next value overwrites
// the last one. A value with more than MaxValue is cut to its last MaxValue+1 bytes, so that
// its reader refuses it.
func (f *File) Items(bucket string) iter.Seq2[[]byte, []byte] {
	return f.itemsIn(func(in string) bool { return in == bucket })
}

// AllItems returns the keys and values of all buckets, as Items does.
func (f *File) AllItems() iter.Seq2[[]byte, []byte] {
	return f.itemsIn(func(string) bool { return true })
}

func (f *File) itemsIn(isWanted func(bucket string) bool) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		if f.root == 0 {
			return
		}
		var buffer []byte
		w := f.newWalk(func(in string, key []byte, value section) bool {
			if !isWanted(in) {
				return true
			}
			if value.size > MaxValue {
				value = value.skipBytes(value.size - MaxValue - 1)
			}
			buffer = slices.Grow(buffer[:0], int(value.size))[:value.size]
			return value.readFrom(buffer, 0) != nil || yield(key, buffer)
		})
		w.readTree(f.root, "", limits{})
	}
}

// Leftovers returns the entries on pages that no bucket leads to: earlier versions of present
// entries, and entries to which a damaged page led. They are hints and cannot be trusted.
func (f *File) Leftovers() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for id := uint64(2); int64(id+1)*int64(f.PageSize) <= f.source.Size(); id++ {
			if f.whole.hasBit(id) {
				continue
			}
			page, err := section{f.source, int64(id) * int64(f.PageSize), int64(f.PageSize)}.loadSection()
			if err == nil && !yieldLeftovers(page, false, yield) {
				return
			}
		}
	}
}

// yieldLeftovers yields the entries of one page, and those of the small buckets in it. isBelow is set
// for such a bucket, which has no others in a ledger.
func yieldLeftovers(s section, isBelow bool, yield func(key, stored []byte) bool) bool {
	header, err := s.readBytes(0, headerSize)
	if err != nil || order.Uint16(header[8:]) != flagLeaf {
		return true
	}
	n := min(int64(order.Uint16(header[10:])), (s.size-headerSize)/elementSize)
	table, err := s.readBytes(headerSize, n*elementSize)
	if err != nil {
		return true
	}
	room := roomOf(s, n)
	for i := range n {
		key, value, isBucket, ok := leafEntry(s, table, i)
		if ok {
			room -= int64(len(key)) + value.size
		}
		switch {
		case room < 0:
			return true
		case !ok:
		case isBucket && value.size >= bucketSize && !isBelow:
			if !yieldLeftovers(value.skipBytes(bucketSize), true, yield) {
				return false
			}
		case !isBucket:
			if stored, err := value.readBytes(0, value.size); err == nil && !yield(key, stored) {
				return false
			}
		}
	}
	return true
}

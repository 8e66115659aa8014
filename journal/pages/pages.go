// Package pages reads the bytes of a bbolt file without bbolt. A file's image
// goes in, the entries of its buckets come out, with a Fault for everything
// that is not as bbolt writes it. Nothing outside the image is ever touched,
// whatever is in it.
//
// bbolt maps its file and follows what it finds there. On a file that was cut
// short, or whose page numbers or sizes are wrong, it faults (SIGBUS, SIGSEGV)
// or panics, in Open as well as in its own Check (github.com/etcd-io/bbolt
// issues 105 and 778). So package journal reads a ledger with this package
// first, and hands bbolt only files without a Fault.
//
// The format is that of bbolt 1.4 (internal/common: page.go, meta.go,
// bucket.go), in the machine's byte order, as bbolt has it.
package pages

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	Page uint64
	What string
}

func (f Fault) String() string { return fmt.Sprintf("page %d: %s", f.Page, f.What) }

// Item is one entry of a bucket. Key and Value are parts of the image.
type Item struct {
	Bucket     string
	Key, Value []byte
}

// File is what could be read of an image.
type File struct {
	PageSize int
	// Items are those of the last transaction whose commit is whole, as far as
	// they can be read, bucket by bucket in key order.
	Items  []Item
	Faults []Fault

	image   []byte
	reached map[uint64]bool // pages that are in use or free
	hwm     uint64          // pages below it are in use or free
}

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
)

var order = binary.NativeEndian

// Read reads an image: with the newer of its two metas, or the other one where
// that is damaged, which shows what was there one transaction earlier.
func Read(image []byte) *File {
	f := &File{image: image, reached: map[uint64]bool{0: true, 1: true}, PageSize: usualPageSize}
	m, ok := f.meta()
	if !ok {
		return f
	}
	f.PageSize, f.hwm = int(m.pageSize), m.pgid
	if have := uint64(len(image)) / uint64(m.pageSize); have < m.pgid {
		f.fault(have, "the file ends here; it had %d pages of %d bytes", m.pgid, m.pageSize)
	}
	f.tree(m.root, "", limits{})
	f.freelist(m.freelist)
	if len(f.Faults) > 0 {
		return f // what lies behind them was not reached
	}
	for id := range f.hwm {
		if !f.reached[id] {
			f.fault(id, "it is neither in use nor free")
		}
	}
	return f
}

func (f *File) fault(page uint64, format string, args ...any) {
	f.Faults = append(f.Faults, Fault{page, fmt.Sprintf(format, args...)})
}

// limits are what a page's keys must be within: the first is from, where that
// is set, and all are less than below. (bbolt's own check lets the first be
// more than from. But on the next change of that page bbolt looks for the
// first key in the page above, and if it is not there adds the page once more.)
type limits struct{ from, below []byte }

// span returns the bytes of a page with those that it runs over into, and
// marks them as reached.
func (f *File) span(id uint64) (b []byte, ok bool) {
	size := uint64(f.PageSize)
	if id < 2 || id >= f.hwm {
		f.fault(id, "there is no such page, and something points to it")
		return nil, false
	}
	if (id+1)*size > uint64(len(f.image)) {
		return nil, false // told once, by Read
	}
	b = f.image[id*size:]
	if have := order.Uint64(b); have != id {
		f.fault(id, "it says that it is page %d", have)
		return nil, false
	}
	more := uint64(order.Uint32(b[12:]))
	if id+more >= f.hwm || (id+more+1)*size > uint64(len(f.image)) {
		f.fault(id, "it goes on for %d pages, which are not there", more)
		return nil, false
	}
	for i := id; i <= id+more; i++ {
		if f.reached[i] {
			f.fault(i, "it is used twice")
			return nil, false
		}
	}
	for i := id; i <= id+more; i++ {
		f.reached[i] = true
	}
	return b[:(more+1)*size], true
}

// tree reads what is in and below a page; bucket is empty for the list of
// buckets.
func (f *File) tree(id uint64, bucket string, l limits) {
	b, ok := f.span(id)
	if !ok {
		return
	}
	switch order.Uint16(b[8:]) {
	case flagLeaf:
		f.leaf(id, b, bucket, l)
	case flagBranch:
		f.branch(id, b, bucket, l)
	default:
		f.fault(id, "its kind is %#x, which is not of a page with entries", order.Uint16(b[8:]))
	}
}

type child struct {
	key  []byte
	page uint64
}

func (f *File) branch(id uint64, b []byte, bucket string, l limits) {
	var children []child
	n := f.elements(id, b)
	for i := range n {
		e := headerSize + i*elementSize
		key, ok := part(b, e, order.Uint32(b[e:]), order.Uint32(b[e+4:]))
		if !ok {
			f.fault(id, "entry %d points outside of it", i)
			continue
		}
		children = append(children, child{key, order.Uint64(b[e+8:])})
	}
	if n == 0 {
		f.fault(id, "nothing is below it")
	}
	var previous []byte
	for i, c := range children {
		f.inOrder(id, i, c.key, previous, l)
		previous = c.key
		within := limits{c.key, l.below}
		if i+1 < len(children) {
			within.below = children[i+1].key
		}
		f.tree(c.page, bucket, within)
	}
}

// leaf reads a page of entries.
func (f *File) leaf(id uint64, b []byte, bucket string, l limits) {
	var previous []byte
	for i := range f.elements(id, b) {
		key, value, isBucket, ok := leafEntry(b, i)
		if !ok {
			f.fault(id, "entry %d points outside of it", i)
			continue
		}
		f.inOrder(id, i, key, previous, l)
		previous = key
		switch {
		case isBucket != (bucket == ""):
			f.fault(id, "entry %d (%q) is of the wrong kind", i, key)
		case !isBucket:
			f.Items = append(f.Items, Item{bucket, key, value})
		case len(value) < bucketSize:
			f.fault(id, "bucket %q has no place", key)
		case order.Uint64(value) == 0:
			f.inline(id, string(key), value[bucketSize:])
		default:
			f.tree(order.Uint64(value), string(key), limits{})
		}
	}
}

// inline reads a small bucket, whose only page is inside of its entry.
func (f *File) inline(id uint64, bucket string, b []byte) {
	if len(b) < headerSize || order.Uint16(b[8:]) != flagLeaf {
		f.fault(id, "bucket %q is not whole", bucket)
		return
	}
	f.leaf(id, b, bucket, limits{})
}

// elements is how many entries of a page can be looked at.
func (f *File) elements(id uint64, b []byte) int {
	n, room := int(order.Uint16(b[10:])), (len(b)-headerSize)/elementSize
	if n > room {
		f.fault(id, "it says that it has %d entries, which is more than it has room for", n)
		return 0
	}
	return n
}

func leafEntry(b []byte, i int) (key, value []byte, isBucket, ok bool) {
	e := headerSize + i*elementSize
	flags, pos, ksize, vsize := order.Uint32(b[e:]), order.Uint32(b[e+4:]), order.Uint32(b[e+8:]), order.Uint32(b[e+12:])
	both, ok := part(b, e, pos, uint64(ksize)+uint64(vsize))
	if !ok || flags > bucketEntry || ksize == 0 {
		return nil, nil, false, false
	}
	return both[:ksize:ksize], both[ksize:], flags == bucketEntry, true
}

// part is what an element that starts at e points to.
func part[N uint32 | uint64](b []byte, e int, pos uint32, n N) ([]byte, bool) {
	from := uint64(e) + uint64(pos)
	if pos < elementSize || from+uint64(n) > uint64(len(b)) {
		return nil, false
	}
	return b[from : from+uint64(n)], true
}

func (f *File) inOrder(id uint64, i int, key, previous []byte, l limits) {
	wrong := l.below != nil && bytes.Compare(key, l.below) >= 0
	if i > 0 {
		wrong = wrong || bytes.Compare(key, previous) <= 0
	} else {
		wrong = wrong || l.from != nil && !bytes.Equal(key, l.from)
	}
	if wrong {
		f.fault(id, "key %q is not in its place", key)
	}
}

// freelist marks the pages that are free, each of which must be in use nowhere
// else: bbolt would write over it.
func (f *File) freelist(id uint64) {
	b, ok := f.span(id)
	if !ok {
		return
	}
	if kind := order.Uint16(b[8:]); kind != flagFreelist {
		f.fault(id, "its kind is %#x, where the list of free pages should be", kind)
		return
	}
	n, b := uint64(order.Uint16(b[10:])), b[headerSize:]
	if n == 0xFFFF { // more: the first says how many
		n, b = order.Uint64(b), b[8:]
	}
	if n > uint64(len(b))/8 {
		f.fault(id, "its list of free pages is longer than it")
		return
	}
	for i := range n {
		free := order.Uint64(b[i*8:])
		if free < 2 || free >= f.hwm || f.reached[free] {
			f.fault(id, "it says that page %d is free, which cannot be", free)
			continue
		}
		f.reached[free] = true
	}
}

// Leftovers returns the entries of pages of entries that no bucket leads to:
// earlier versions of what is there, and what a damaged page led to. They are
// hints, no truth. Bucket is empty.
func (f *File) Leftovers() []Item {
	inUse := map[*byte]bool{}
	for _, i := range f.Items {
		inUse[&i.Key[0]] = true
	}
	var out []Item
	var leaf func(b []byte)
	leaf = func(b []byte) {
		if len(b) < headerSize || order.Uint16(b[8:]) != flagLeaf {
			return
		}
		for i := range min(int(order.Uint16(b[10:])), (len(b)-headerSize)/elementSize) {
			key, value, isBucket, ok := leafEntry(b, i)
			switch {
			case !ok || inUse[&key[0]]:
			case isBucket && len(value) >= bucketSize:
				leaf(value[bucketSize:])
			case !isBucket:
				out = append(out, Item{"", key, value})
			}
		}
	}
	for at := 2 * f.PageSize; at+f.PageSize <= len(f.image); at += f.PageSize {
		leaf(f.image[at : at+f.PageSize])
	}
	return out
}

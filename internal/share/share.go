// Package share bounds what is kept of objects that tenants write, without one tenant's objects
// pushing out those of another who has fewer.
package share

// Budget bounds the total size of entries. Each entry belongs to an owner, such as a namespace. If an
// entry does not fit, the owner with the most gives way. Methods must not be called concurrently.
type Budget struct {
	most   int
	total  int
	owners map[string]*owner
}

type owner struct {
	total int
	sizes map[string]int // by key
}

// Entry names an entry.
type Entry struct{ Owner, Key string }

// New returns an empty Budget for a total size of at most most.
func New(most int) *Budget { return &Budget{most: most, owners: map[string]*owner{}} }

// Put adds an entry or replaces the earlier one of its name, and reports whether it fits. dropped are
// the entries that gave way: the largest ones of the owner with the most. An entry does not fit if
// its own owner would have the most; then none gives way.
func (b *Budget) Put(e Entry, size int) (fits bool, dropped []Entry) {
	b.Drop(e)
	sizes := map[Entry]int{} // of dropped
	for b.total+size > b.most {
		name, most := b.findLargest()
		own := 0
		if o := b.owners[e.Owner]; o != nil {
			own = o.total
		}
		if most == nil || own+size >= most.total {
			for _, d := range dropped {
				b.addEntry(d, sizes[d])
			}
			return false, nil
		}
		out := Entry{name, most.findLargest()}
		sizes[out] = most.sizes[out.Key]
		b.Drop(out)
		dropped = append(dropped, out)
	}
	b.addEntry(e, size)
	return true, dropped
}

func (b *Budget) addEntry(e Entry, size int) {
	own := b.owners[e.Owner]
	if own == nil {
		own = &owner{sizes: map[string]int{}}
		b.owners[e.Owner] = own
	}
	own.sizes[e.Key] = size
	own.total += size
	b.total += size
}

// Drop removes an entry, and reports whether it was there.
func (b *Budget) Drop(e Entry) bool {
	own := b.owners[e.Owner]
	if own == nil {
		return false
	}
	size, there := own.sizes[e.Key]
	if !there {
		return false
	}
	delete(own.sizes, e.Key)
	own.total -= size
	b.total -= size
	if len(own.sizes) == 0 {
		delete(b.owners, e.Owner)
	}
	return true
}

// Has reports whether an entry is there.
func (b *Budget) Has(e Entry) bool {
	own := b.owners[e.Owner]
	if own == nil {
		return false
	}
	_, there := own.sizes[e.Key]
	return there
}

// findLargest returns the owner with the most; nil if there is none. Among equals it returns the first by
// name, so that the outcome does not depend on chance.
func (b *Budget) findLargest() (name string, most *owner) {
	for n, o := range b.owners {
		if most == nil || o.total > most.total || o.total == most.total && n < name {
			name, most = n, o
		}
	}
	return name, most
}

// findLargest returns the key of the owner's largest entry, the first by name among equals.
func (o *owner) findLargest() (key string) {
	for k, size := range o.sizes {
		if key == "" || size > o.sizes[key] || size == o.sizes[key] && k < key {
			key = k
		}
	}
	return key
}

package journal

import "github.com/culvert-net/culvert/vf"

const freshPrefix = "fresh "

func freshKey(pf vf.PFID) []byte { return []byte(freshPrefix + pf.String()) }

// Fresh returns what the PF held for its VFs, the MAC aside, when they had just
// been made and nobody had touched them; ok is false when Culvert never made
// any, or when what it remembered is damaged.
func (t *Tx) Fresh(pf vf.PFID) (a vf.Admin, ok bool) {
	stored := t.tx.Bucket(bucketMeta).Get(freshKey(pf))
	if stored == nil {
		return a, false
	}
	a, err := open[vf.Admin](bucketMeta, freshKey(pf), stored)
	return a, err == nil
}

// SetFresh remembers it.
func (t *Tx) SetFresh(pf vf.PFID, a vf.Admin) error {
	a.MAC = vf.MAC{}
	return t.put(bucketMeta, freshKey(pf), a)
}

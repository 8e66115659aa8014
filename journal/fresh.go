package journal

import "github.com/culvert-net/culvert/vf"

func freshKey(pf vf.PFID) []byte { return []byte("fresh " + pf.String()) }

// Fresh returns what the PF held for its VFs, the MAC aside, when they had just
// been made and nobody had touched them; ok is false when Culvert never made
// any.
func (t *Tx) Fresh(pf vf.PFID) (a vf.Admin, ok bool, err error) {
	raw := t.tx.Bucket(bucketMeta).Get(freshKey(pf))
	if raw == nil {
		return a, false, nil
	}
	a, err = decode[vf.Admin](raw)
	return a, err == nil, err
}

// SetFresh remembers it.
func (t *Tx) SetFresh(pf vf.PFID, a vf.Admin) error {
	a.MAC = vf.MAC{}
	return t.put(bucketMeta, freshKey(pf), a)
}

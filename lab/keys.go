package lab

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// A keyPair is an SSH key made for one lab.
type keyPair struct {
	signer  ssh.Signer
	private []byte // OpenSSH's format
	public  []byte // a line of authorized_keys
}

func newKeyPair(comment string) (keyPair, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("make the key %s: %w", comment, err)
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return keyPair{}, fmt.Errorf("encode the key %s: %w", comment, err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return keyPair{}, fmt.Errorf("use the key %s: %w", comment, err)
	}
	return keyPair{signer, pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(signer.PublicKey())}, nil
}

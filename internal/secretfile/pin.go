package secretfile

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

// PinOf returns the pin of a certificate: the SHA-256 of its public key (SubjectPublicKeyInfo), in hexadecimal digits,
// as openssl's dgst and sha256sum write it.
func PinOf(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// ErrPinAndCA is the error of files with pins and an authority.
var ErrPinAndCA = errors.New("ca, pin: leave one of them out; a pinned key is trusted whatever authority has signed it")

// ValidPin reports what is wrong with a pin. It quotes none: a secret may stand in its place.
func ValidPin(pin string) error {
	const form = "pin: use 64 hexadecimal digits"
	digits, err := hex.DecodeString(pin)
	switch {
	case err == nil && len(digits) == sha256.Size:
		return nil
	case strings.Contains(pin, ":"):
		return errors.New(form + " without colons; it is the SHA-256 of the public key, where fingerprints are of the certificate")
	case len(pin) == 43, len(pin) == 44, strings.HasPrefix(pin, "sha256/"):
		return errors.New(form + ", not base64")
	}
	return errors.New(form + ", the SHA-256 of the public key of the server's certificate; the command check prints it")
}

var errNoPin = errors.New("the public key of the server is none of the pins")

// pinned has the configuration trust a server by its public key alone. The handshake proves that the server has the
// private key; VerifyConnection is asked at resumptions too.
func pinned(config *tls.Config, pins []string) error {
	allowed := make([]string, len(pins))
	for i, pin := range pins {
		if err := ValidPin(pin); err != nil {
			return err
		}
		allowed[i] = strings.ToLower(pin)
	}
	config.InsecureSkipVerify = true //nolint:gosec // VerifyConnection compares the key instead
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) > 0 && slices.Contains(allowed, PinOf(state.PeerCertificates[0])) {
			return nil
		}
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: errNoPin}
	}
	return nil
}

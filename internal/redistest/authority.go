package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Authority signs certificates for tests. Its files are in PEM form.
type Authority struct {
	CA string // the file of its own certificate

	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns a new authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir()}
	template := a.template(t, "test authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	assert.Must(t, err)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.CA = a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

// Issue signs a certificate of 127.0.0.1 and that name, good for servers and clients, and returns its files.
func (a *Authority) Issue(t testing.TB, name string) (cert, key string) {
	t.Helper()
	pair := newKey(t)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(pair)
	assert.Must(t, err)
	key = a.write(t, name+".key", "PRIVATE KEY", pkcs8)
	return a.IssueFor(t, name, key, time.Now().Add(time.Hour)), key
}

// IssueFor is [Authority.Issue] for a key that exists, until a moment, which may have passed.
func (a *Authority) IssueFor(t testing.TB, name, key string, until time.Time) (cert string) {
	t.Helper()
	block, _ := pem.Decode(assert.NoError(os.ReadFile(key))(t))
	pair := assert.NoError(x509.ParsePKCS8PrivateKey(block.Bytes))(t).(*ecdsa.PrivateKey) //nolint:forcetypeassert,errcheck // see Issue
	template := a.template(t, name)
	template.NotBefore, template.NotAfter = time.Now().Add(-2*time.Hour), until
	template.DNSNames, template.IPAddresses = []string{name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der := assert.NoError(x509.CreateCertificate(rand.Reader, template, a.cert, &pair.PublicKey, a.key))(t)
	return a.write(t, fmt.Sprintf("%s-%x.pem", name, template.SerialNumber), "CERTIFICATE", der)
}

// PinOf returns the SHA-256 of a key's public half, in hexadecimal digits.
func PinOf(t testing.TB, key string) string {
	t.Helper()
	block, _ := pem.Decode(assert.NoError(os.ReadFile(key))(t))
	pair := assert.NoError(x509.ParsePKCS8PrivateKey(block.Bytes))(t).(*ecdsa.PrivateKey) //nolint:forcetypeassert,errcheck // see Issue
	return fmt.Sprintf("%x", sha256.Sum256(assert.NoError(x509.MarshalPKIXPublicKey(&pair.PublicKey))(t)))
}

// ServeTLS returns the arguments of [Start] for a server that also listens with TLS, and its address. The server
// has a certificate of this authority for "redis.test" and 127.0.0.1. Clients need no certificate.
func (a *Authority) ServeTLS(t testing.TB) (address string, args []string) {
	t.Helper()
	address = FreeAddr(t)
	_, port, err := net.SplitHostPort(address)
	assert.Must(t, err)
	cert, key := a.Issue(t, "redis.test")
	return address, a.Arguments(port, cert, key)
}

// Arguments returns those of a server that listens with TLS on a port.
func (a *Authority) Arguments(port, cert, key string) []string {
	return []string{"--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", a.CA, "--tls-auth-clients", "no"}
}

func (*Authority) template(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	assert.Must(t, err)
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func (a *Authority) write(t testing.TB, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	assert.Must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.Must(t, err)
	return key
}

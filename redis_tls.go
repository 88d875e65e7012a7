package redisratelimit

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
)

// RedisTLS says how to trust Redis and how to be trusted by it.
type RedisTLS struct {
	// The PEM file of the authorities that sign Redis's certificate. Default: the system's.
	CA string `json:"ca,omitempty"`

	// The PEM file of this client's certificate, for mutual TLS. Goes with `key`. Default: none.
	Cert string `json:"cert,omitempty"`

	// The PEM file of the certificate's key.
	Key string `json:"key,omitempty"`

	// The name that Redis's certificate must have. Default: the host of the address.
	ServerName string `json:"server_name,omitempty"`
}

// validServerName refuses a URL, which the errors of a handshake would repeat.
func validServerName(name string) error {
	if strings.ContainsAny(name, "@/") {
		return errors.New("server_name: use the name that Redis's certificate has; a URL stands behind the word redis itself")
	}
	return nil
}

// config reads the files. The digest changes whenever one of them does, so that a reload with
// renewed certificates makes a new client.
func (t *RedisTLS) config() (config *tls.Config, digest string, err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS12}
	names := [4]string{t.CA, t.Cert, t.Key, t.ServerName}
	for i, option := range []string{"ca", "cert", "key", "server_name"} {
		if names[i], err = resolveText(option, names[i]); err != nil {
			return nil, "", err
		}
	}
	ca, cert, key := names[0], names[1], names[2]
	if err := validServerName(names[3]); err != nil {
		return nil, "", err
	}
	config.ServerName = names[3]
	hash := sha256.New()
	fmt.Fprintf(hash, "%q", names)
	if ca != "" {
		pem, err := readConfigured("ca", ca)
		if err != nil {
			return nil, "", err
		}
		hash.Write(pem)
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, "", fmt.Errorf("ca: %s holds no certificate in PEM form", humanize.Shown(ca))
		}
	}
	if (cert == "") != (key == "") {
		return nil, "", errors.New("cert and key go together")
	}
	if cert != "" {
		certPEM, certErr := readConfigured("cert", cert)
		keyPEM, keyErr := readConfigured("key", key)
		if err := cmp.Or(certErr, keyErr); err != nil {
			return nil, "", err
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, "", fmt.Errorf("cert, key: %w", err)
		}
		for _, der := range pair.Certificate {
			hash.Write(der)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, hex.EncodeToString(hash.Sum(nil)), nil
}

// readConfigured reads the file of an option. Its error shows the path unless that looks like a URL.
func readConfigured(option, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if cause := (&fs.PathError{}); errors.As(err, &cause) {
		err = cause.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: reading %s: %w", option, humanize.Shown(path), err)
	}
	return text, nil
}

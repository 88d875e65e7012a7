package secretfile

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
)

// TLS is whom a TLS client trusts, and how it is trusted: paths of PEM files; empty: the system's authorities, and no
// certificate.
type TLS struct {
	CA, Cert, Key string

	// ServerName is the name that the server's certificate must have; empty: its host. With pins it is only sent.
	ServerName string

	// Pins are of the public keys that are trusted, whatever else their certificates say; see [PinOf]. None: a
	// certificate is trusted by its authority, name and time.
	Pins []string
}

// ValidServerName refuses a URL, which the errors of a handshake would repeat.
func ValidServerName(name string) error {
	if strings.ContainsAny(name, "@/") {
		return errors.New("server_name: use the name that Redis's certificate has; a URL stands behind the word redis itself")
	}
	return nil
}

// Load reads the files. Its errors begin with the option at fault. Each new connection loads them, so
// that renewed certificates need no reload.
func (f TLS) Load() (*tls.Config, error) {
	if err := ValidServerName(f.ServerName); err != nil {
		return nil, err
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("cert and key go together")
	}
	if f.CA != "" && len(f.Pins) > 0 {
		return nil, ErrPinAndCA
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := readPEM("ca", f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s holds no certificate in PEM form", Redact(f.CA))
		}
	}
	if len(f.Pins) > 0 {
		if err := pinned(config, f.Pins); err != nil {
			return nil, err
		}
	}
	if f.Cert != "" {
		certPEM, certErr := readPEM("cert", f.Cert)
		keyPEM, keyErr := readPEM("key", f.Key)
		if err := cmp.Or(certErr, keyErr); err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("cert, key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// maxFile is the most bytes that are read of a file. A bundle of authorities has some 250 kB.
const maxFile = 16 << 20

// readPEM reads the file of an option. Its error shows the path unless that looks like a URL.
func readPEM(option, path string) ([]byte, error) {
	text, err := Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: reading %s: %w", option, Redact(path), err)
	}
	return text, nil
}

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// authority is a certificate authority that speaks ACME, trusts everybody and checks nothing.
type authority struct {
	key         *ecdsa.PrivateKey
	nonces      atomic.Int64
	certificate atomic.Pointer[[]byte]
}

func newAuthority(r *run) http.Handler {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	r.check(err)
	return &authority{key: key}
}

func (a *authority) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	site := "http://" + q.Host
	order := map[string]any{
		"status": "ready", "identifiers": []any{map[string]string{"type": "dns", "value": "lab.example.com"}},
		"authorizations": []string{site + "/authorization"}, "finalize": site + "/finalize",
		"expires": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}
	if a.certificate.Load() != nil {
		order["status"], order["certificate"] = "valid", site+"/certificate"
	}
	answer := map[string]map[string]any{
		"/directory": {
			"newNonce": site + "/nonce", "newAccount": site + "/account", "newOrder": site + "/order",
			"revokeCert": site + "/revoke", "keyChange": site + "/key", "meta": map[string]any{},
		},
		"/nonce":         {},
		"/account":       {"status": "valid"},
		"/order":         order,
		"/order/1":       order,
		"/authorization": {"status": "valid", "identifier": map[string]string{"type": "dns", "value": "lab.example.com"}, "challenges": []any{}},
	}[q.URL.Path]
	w.Header().Set("Replay-Nonce", fmt.Sprintf("nonce%d", a.nonces.Add(1)))
	w.Header().Set("Content-Type", "application/json")
	switch q.URL.Path {
	case "/account", "/order":
		w.Header().Set("Location", site+q.URL.Path+"/1")
		w.WriteHeader(http.StatusCreated)
	case "/finalize":
		if err := a.issue(readAll(q)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		order["status"], order["certificate"] = "valid", site+"/certificate"
		w.Header().Set("Location", site+"/order/1")
		answer = order
	case "/certificate":
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		_, _ = w.Write(*a.certificate.Load()) // the client may have left
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // likewise
}

// issue makes the certificate that a signed request of ACME asks for, and its chain.
func (a *authority) issue(body string) error {
	var signed struct{ Payload string }
	var asked struct{ CSR string }
	if err := json.Unmarshal([]byte(body), &signed); err != nil {
		return err
	}
	payload, err := base64.RawURLEncoding.DecodeString(signed.Payload)
	if err == nil {
		err = json.Unmarshal(payload, &asked)
	}
	if err != nil {
		return err
	}
	der, err := base64.RawURLEncoding.DecodeString(asked.CSR)
	if err != nil {
		return err
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lab authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "lab.example.com"}, DNSNames: request.DNSNames,
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
	}
	var chain strings.Builder
	for _, c := range []struct {
		certificate *x509.Certificate
		key         any
	}{{leaf, request.PublicKey}, {root, &a.key.PublicKey}} {
		der, err := x509.CreateCertificate(rand.Reader, c.certificate, root, c.key, a.key)
		if err != nil {
			return err
		}
		_ = pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a builder takes all
	}
	text := []byte(chain.String())
	a.certificate.Store(&text)
	return nil
}

func legoJob(r *run) outcome {
	exit := r.command("lego", "--server", r.url+"/directory", "--accept-tos", "--email", "lab@example.com", "--domains", "lab.example.com",
		"--http", "--path", "lego", "run")
	return counted(exit, r.found("lego/certificates/lab.example.com.crt"), 1, "certificates")
}

func certbotJob(r *run) outcome {
	exit := r.command("certbot", "certonly", "--standalone", "-n", "--agree-tos", "--register-unsafely-without-email",
		"--server", r.url+"/directory", "-d", "lab.example.com", "--config-dir", "etc", "--work-dir", "lib", "--logs-dir", "log")
	return counted(exit, r.found("etc/live/lab.example.com/fullchain.pem"), 1, "certificates")
}

// acmes are clients of ACME. The limit is met by the order.
func acmes() []*client {
	return []*client{
		{
			name: "lego", program: "lego", install: "lego", version: []string{"lego", "--version"}, limit: "3 3s", backend: newAuthority,
			job: legoJob,
		},
		{
			name: "certbot", program: "certbot", install: "certbot", version: []string{"certbot", "--version"}, limit: "3 3s", backend: newAuthority,
			job: certbotJob, note: "certbot 2.1 hides the reason that newer ones print: an `AttributeError` for any problem document",
		},
	}
}

// Package authority makes the certificates of one run of the emulator: a
// certificate authority of its own, and one certificate for all of its listeners,
// signed by that.
//
//	authority, valid as long as its certificate; its key is forgotten once it has signed
//	  └── certificate for localhost, 127.0.0.1, ::1 and the given hosts and addresses
//
// Whoever trusts the authority trusts this one certificate and nothing else, ever,
// since nobody can sign with it any more.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// Lifetime is how long the certificates are valid.
	Lifetime = 30 * 24 * time.Hour
	// tolerance is how far a client's clock may be behind.
	tolerance = 24 * time.Hour
)

// Authority is an authority that has signed its one certificate.
type Authority struct {
	root        []byte // DER
	certificate tls.Certificate
}

// New makes an authority and its certificate for localhost and for hosts: names,
// IP addresses, or either with a port.
//
// A host with a port is put into the certificate twice: without the port, and as
// it stands. The Service Bus library for Go looks for the latter if its connection
// string has a port, which no certificate would have otherwise.
func New(hosts []string, now time.Time) (*Authority, error) {
	names, addresses, err := subjects(hosts)
	if err != nil {
		return nil, err
	}
	rootKey, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rootSerial, err3 := serialNumber()
	serial, err4 := serialNumber()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	root := &x509.Certificate{
		SerialNumber:          rootSerial,
		Subject:               pkix.Name{CommonName: "oneeffect emulator, for this run only"},
		NotBefore:             now.Add(-tolerance),
		NotAfter:              now.Add(Lifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	if err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	if root, err = x509.ParseCertificate(rootDER); err != nil { // with the key id that the certificate is to name
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "localhost"},
		NotBefore:             root.NotBefore,
		NotAfter:              root.NotAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              names,
		IPAddresses:           addresses,
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, rootKey)
	if err != nil {
		return nil, fmt.Errorf("make the certificate: %w", err)
	}
	return &Authority{
		root:        rootDER,
		certificate: tls.Certificate{Certificate: [][]byte{leafDER, rootDER}, PrivateKey: key},
	}, nil
}

// serialNumber returns a number that no other certificate has, since clients that
// keep certificates take two of one issuer with the same number for a forgery.
func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}

// subjects sorts hosts into what certificates know.
func subjects(hosts []string) (names []string, addresses []net.IP, err error) {
	var mistakes []error
	add := func(host string) {
		ip := net.ParseIP(host)
		switch {
		case ip == nil && !slices.Contains(names, strings.ToLower(host)):
			names = append(names, strings.ToLower(host))
		case ip != nil && !ip.IsUnspecified() && !slices.ContainsFunc(addresses, ip.Equal): // 0.0.0.0 is no address that anybody connects to
			addresses = append(addresses, ip)
		}
	}
	for _, host := range slices.Concat([]string{"localhost", "127.0.0.1", "::1"}, hosts) {
		if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) || host == "" {
			mistakes = append(mistakes, fmt.Errorf("%q is neither a host's name nor its address", host))
			continue
		}
		bare, _, err := net.SplitHostPort(host)
		if err == nil && bare != "" {
			add(bare)
		}
		add(host)
	}
	return names, addresses, errors.Join(mistakes...)
}

// Server returns the settings of a TLS server with the certificate. Each call
// returns settings of their own. They negotiate no protocol above TLS.
func (a *Authority) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.certificate}}
}

// PEM returns the authority's own certificate, for those who are to trust it.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.root})
}

// WriteFile writes PEM to a file. Who waits for the file to appear finds all of it there.
func (a *Authority) WriteFile(path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".ca-*")
	if err != nil {
		return fmt.Errorf("write the authority's certificate: %w", err)
	}
	defer os.Remove(file.Name()) // which is gone if all went well
	_, err1 := file.Write(a.PEM())
	err2 := file.Chmod(0o644) // it is public
	if err := errors.Join(err1, err2, file.Close()); err != nil {
		return fmt.Errorf("write the authority's certificate: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("write the authority's certificate: %w", err)
	}
	return nil
}

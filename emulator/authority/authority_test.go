package authority_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/authority"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// leaf returns the certificate, and a pool with the authority that signed it.
func leaf(t *testing.T, hosts ...string) (*x509.Certificate, *x509.CertPool) {
	t.Helper()
	a, err := authority.New(hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(a.Server().Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.PEM()) {
		t.Fatalf("the authority is no certificate: %s", a.PEM())
	}
	return certificate, pool
}

func TestTheCertificateIsGoodForTheHostsItIsMadeFor(t *testing.T) {
	certificate, pool := leaf(t, "Emulator.test", "127.0.0.9:5671", "[::2]:443", "bus.test:443", "0.0.0.0:5672", ":5672")
	for _, test := range []struct {
		host string
		good bool
	}{
		{"localhost", true},
		{"127.0.0.1", true},
		{"::1", true},
		{"emulator.test", true},
		{"EMULATOR.TEST", true},
		{"127.0.0.9", true},
		{"127.0.0.9:5671", true}, // what the Service Bus library for Go takes for a host name
		{"::2", true},
		{"[::2]:443", true},
		{"bus.test", true},
		{"127.0.0.9:443", false},
		{"127.0.0.2", false},
		{"0.0.0.0", false},
		{"other.test", false},
	} {
		_, err := certificate.Verify(x509.VerifyOptions{DNSName: test.host, Roots: pool, CurrentTime: now})
		if (err == nil) != test.good {
			t.Errorf("%s: %v, want it good: %v", test.host, err, test.good)
		}
	}
}

func TestTheCertificateIsValidForThirtyDaysAndADayBefore(t *testing.T) {
	certificate, pool := leaf(t)
	const day = 24 * time.Hour
	for _, test := range []struct {
		after time.Duration
		good  bool
	}{
		{-25 * time.Hour, false}, {-23 * time.Hour, true}, {0, true}, {30*day - time.Minute, true}, {30*day + time.Minute, false},
	} {
		_, err := certificate.Verify(x509.VerifyOptions{DNSName: "localhost", Roots: pool, CurrentTime: now.Add(test.after)})
		if (err == nil) != test.good {
			t.Errorf("after %v: %v, want it good: %v", test.after, err, test.good)
		}
	}
}

func TestTheCertificateIsNoAuthorityAndEachRunHasItsOwn(t *testing.T) {
	certificate, _ := leaf(t)
	if certificate.IsCA || certificate.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("the certificate may sign others")
	}
	_, other := leaf(t)
	if _, err := certificate.Verify(x509.VerifyOptions{DNSName: "localhost", Roots: other, CurrentTime: now}); err == nil {
		t.Error("the authority of another run takes it")
	}
}

func TestAServerWithTheCertificateIsTrustedByWhoReadsTheFile(t *testing.T) {
	a, err := authority.New(nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	for range 2 { // the second time it is there already
		if err := a.WriteFile(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	for version, refused := range map[uint16]bool{tls.VersionTLS11: true, tls.VersionTLS12: false, tls.VersionTLS13: false} {
		here, there := net.Pipe()
		server := tls.Server(there, a.Server())
		served := make(chan error, 1)
		go func() { served <- server.Handshake() }()
		client := tls.Client(here, &tls.Config{
			RootCAs: pool, ServerName: "localhost", MinVersion: version, MaxVersion: version, NextProtos: []string{"h2", "http/1.1"},
		})
		err := client.Handshake()
		if (err != nil) != refused {
			t.Errorf("TLS version %x: %v, want it refused: %v", version, err, refused)
		}
		if got := client.ConnectionState().NegotiatedProtocol; got != "" {
			t.Errorf("TLS version %x: %q was negotiated above it", version, got)
		}
		_ = here.Close() // a pipe has no room for goodbyes
		if err := <-served; refused && err == nil {
			t.Errorf("TLS version %x: the server took it", version)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v (%v), want the file alone", entries, err)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	_, err := authority.New([]string{"bus.test", "two words", "", "grün.test"}, now)
	for _, want := range []string{`"two words"`, `""`, `"grün.test"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	a, err := authority.New(nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.WriteFile("/no/such/folder/ca.pem"); err == nil || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("%v does not name the folder", err)
	}
	folder := t.TempDir()
	if err := a.WriteFile(folder); err == nil || !strings.Contains(err.Error(), folder) {
		t.Errorf("%v does not name the folder that is in the way", err)
	}
}

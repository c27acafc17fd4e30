package access

import (
	"net"
	"strings"
	"testing"
)

func TestOffLoopbackNothingIsOfferedWithoutSignIn(t *testing.T) {
	entra := Settings{Issuer: "https://login.microsoftonline.com/t/v2.0", Audience: "a", RolesClaim: "roles"}
	for _, test := range []struct {
		listen string
		s      Settings
		want   string // part of the error; "": none
	}{
		{"127.0.0.1:8080", Settings{}, ""},
		{"localhost:0", Settings{}, ""},
		{"[::1]:8080", Settings{}, ""},
		{"0.0.0.0:8080", Settings{}, "-oidc-issuer and -oidc-audience"},
		{"[::]:8080", Settings{}, "not a loopback address"},
		{":8080", Settings{}, "not a loopback address"},
		{"example:8080", Settings{}, "not a loopback address"},
		{"localhost.example:8080", Settings{}, "not a loopback address"},
		{"8080", Settings{}, "host:port"},
		{"8080", entra, "host:port"},
		{"0.0.0.0:8080", entra, ""},
		{":8080", entra, ""},
		{"127.0.0.1:8080", entra, ""},
		{"0.0.0.0:8080", Settings{Issuer: entra.Issuer, RolesClaim: "roles"}, "without -oidc-audience"},
		{"0.0.0.0:8080", Settings{Audience: "a", RolesClaim: "roles"}, "without -oidc-issuer"},
		{"127.0.0.1:8080", Settings{Audience: "a", RolesClaim: "roles"}, "without -oidc-issuer"},
		{"0.0.0.0:8080", Settings{Issuer: entra.Issuer, Audience: "a"}, "-oidc-roles-claim"},
		{"0.0.0.0:8080", Settings{Issuer: "http://issuer.example", Audience: "a", RolesClaim: "r"}, "https URL"},
		{"0.0.0.0:8080", Settings{Issuer: "issuer.example", Audience: "a", RolesClaim: "r"}, "https URL"},
		{"0.0.0.0:8080", Settings{Issuer: "https://u:secret@issuer.example", Audience: "a", RolesClaim: "r"}, "https URL"},
		{"0.0.0.0:8080", Settings{Issuer: "https://issuer.example?p=x", Audience: "a", RolesClaim: "r"}, "https URL"},
	} {
		err := test.s.Check(test.listen)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s with %+v: %v, want %q", test.listen, test.s, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a password is in the error: %v", err)
		}
	}
	if _, err := New(Options{Address: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 4), Port: 8080}}); err == nil {
		t.Error("a name that led off loopback was taken")
	}
}

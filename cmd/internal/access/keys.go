package access

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"
)

const (
	every       = time.Hour        // how often keys are read again
	believed    = 24 * time.Hour   // how long what was read is believed, if nothing newer can be
	pause       = 10 * time.Second // between a reading and one that a token's unknown key asks for
	readTimeout = 10 * time.Second // of one reading, discovery and keys
	firstRetry  = time.Second
	lastRetry   = time.Minute
	maxWaiting  = 256     // requests that wait for a reading at one time
	maxDocument = 1 << 20 // bytes of what the issuer answers
	maxKeys     = 64      // of one issuer
)

// keys are the issuer's, as they were last read. One goroutine reads them (keep):
// by the hour, soon again after a failure, and when a request asks for it.
//
// The library's own set of remote keys is not used: it would read once for every
// token that nobody signed, and believe for ever what it has read.
type keys struct {
	issuer string
	client *http.Client
	log    *slog.Logger
	wanted chan struct{} // a request asks for a reading; holds one
	ended  chan struct{} // closed when nobody reads any more

	mu       sync.Mutex
	endpoint oauth2.Endpoint // where browsers sign in, as the issuer said last
	set      keySet          // nil: none was read yet
	read     time.Time       // when set was
	tried    time.Time       // when the last reading ended, well or not
	failed   bool            // the last reading
	next     chan struct{}   // closed when the reading under way, or to come, has ended
	waiting  int
}

func newKeys(issuer string, transport http.RoundTripper, log *slog.Logger) *keys {
	return &keys{
		issuer: issuer, log: log,
		client: &http.Client{
			Transport: bounded{transport},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the issuer sends elsewhere, which is not followed: give its own URL")
			},
		},
		wanted: make(chan struct{}, 1), ended: make(chan struct{}), next: make(chan struct{}),
	}
}

// known reports whether there are keys to believe.
func (k *keys) known() bool {
	set, _ := k.current()
	return set != nil
}

// current is the set to believe, and whether the last reading failed.
func (k *keys) current() (keySet, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.read) > believed {
		return nil, k.failed
	}
	return k.set, k.failed
}

// verify finds the key that signed a token. If none did, the issuer may have a new
// one; if that cannot be found out, nothing is known of the token.
func (k *keys) verify(ctx context.Context, jwt string) ([]byte, error) {
	set, _ := k.current()
	if set == nil {
		return nil, errNoKeys
	}
	claims, err := set.verify(ctx, jwt)
	if err == nil {
		return claims, nil
	}
	if err := k.renewed(ctx); err != nil {
		return nil, err
	}
	set, failed := k.current()
	if set == nil {
		return nil, errNoKeys
	}
	claims, err = set.verify(ctx, jwt)
	if err != nil && failed {
		return nil, errNoKeys
	}
	return claims, err
}

// renewed returns when keys were read a moment ago: within the pause, or now.
func (k *keys) renewed(ctx context.Context) error {
	k.mu.Lock()
	if time.Since(k.tried) < pause {
		k.mu.Unlock()
		return nil
	}
	if k.waiting >= maxWaiting {
		k.mu.Unlock()
		return errNoKeys
	}
	k.waiting++
	next := k.next
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.waiting--
	}()
	select {
	case k.wanted <- struct{}{}:
	default: // another request has asked
	}
	select {
	case <-next:
		return nil
	case <-k.ended:
	case <-ctx.Done():
	}
	return errNoKeys
}

// keep reads the keys until ctx ends.
func (k *keys) keep(ctx context.Context) {
	defer close(k.ended)
	retry := firstRetry
	for {
		began := time.Now()
		set, err := k.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := every
		if err != nil {
			wait, retry = retry, min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		k.publish(ctx, set, err, began, wait)
		if !k.rest(ctx, wait) {
			return
		}
	}
}

// rest waits for the time of the next reading, or for a request that may ask for one
// earlier. It reports false when ctx has ended.
func (k *keys) rest(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-k.wanted:
			k.mu.Lock()
			soon := time.Since(k.tried) < pause // it asked before the reading that has just ended
			k.mu.Unlock()
			if !soon {
				return true
			}
		}
	}
}

// publish makes known how a reading went, and lets those go on who wait for it.
func (k *keys) publish(ctx context.Context, set keySet, err error, began time.Time, wait time.Duration) {
	k.mu.Lock()
	first, recovered := k.set == nil, k.failed
	k.tried, k.failed = time.Now(), err != nil
	if err == nil {
		k.set, k.read = set, began
	}
	close(k.next)
	k.next = make(chan struct{})
	k.mu.Unlock()
	switch {
	case err != nil && first:
		k.log.LogAttrs(ctx, slog.LevelWarn, "nobody can sign in: the issuer's keys were not read yet", slog.String("issuer", k.issuer), slog.Duration("wait", wait), slog.Any("err", err))
	case err != nil:
		k.log.LogAttrs(ctx, slog.LevelWarn, "the issuer's keys were not read again: those of before are believed for a day", slog.String("issuer", k.issuer), slog.Duration("wait", wait), slog.Any("err", err))
	case first || recovered:
		k.log.LogAttrs(ctx, slog.LevelInfo, "the issuer's keys were read", slog.String("issuer", k.issuer), slog.Int("keys", len(set[""].PublicKeys)))
	}
}

// fetch reads the discovery document and then the keys that it points to.
func (k *keys) fetch(ctx context.Context) (keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	if !strings.HasPrefix(document.Keys, "https://") {
		return nil, errors.New("discover: jwks_uri is no https URL, and keys that somebody on the way can change are worth nothing")
	}
	k.mu.Lock()
	k.endpoint = provider.Endpoint()
	k.mu.Unlock()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, document.Keys, nil)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	return parseKeys(body)
}

// parseKeys takes the public keys that can verify one of our algorithms, and leaves
// out what it does not know: an issuer may publish more than that.
func parseKeys(body []byte) (keySet, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, fmt.Errorf("the keys are no JSON Web Key Set: %w", err)
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("the issuer publishes %d keys, %d are read", len(document.Keys), maxKeys)
	}
	set := keySet{"": {}}
	for _, text := range document.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(text, &key) != nil || key.Use != "" && key.Use != "sig" {
			continue
		}
		switch key.Key.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey:
			set.add("", key.Key)
			if key.KeyID != "" {
				set.add(key.KeyID, key.Key)
			}
		}
	}
	if len(set[""].PublicKeys) == 0 {
		return nil, errors.New("among the issuer's keys is no public RSA or EC key for signatures")
	}
	return set, nil
}

// keySet is an issuer's public keys by their ids; under "", all of them.
type keySet map[string]*oidc.StaticKeySet

func (s keySet) add(id string, key crypto.PublicKey) {
	if s[id] == nil {
		s[id] = &oidc.StaticKeySet{}
	}
	s[id].PublicKeys = append(s[id].PublicKeys, key)
}

// verify tries the keys of the id that a token's header names, all if it names none.
// The id saves work and proves nothing: a signature does.
func (s keySet) verify(ctx context.Context, jwt string) ([]byte, error) {
	first, _, _ := strings.Cut(jwt, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return nil, errNotSigned
	}
	var header struct {
		Key string `json:"kid"`
	}
	if err := json.Unmarshal(text, &header); err != nil || s[header.Key] == nil {
		return nil, errNotSigned
	}
	return s[header.Key].VerifySignature(ctx, jwt)
}

// bounded is a way to the issuer on which an answer is either whole and good, or an
// error: what reads it looks at neither its length nor, in a log, its text.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 400 {
		_ = response.Body.Close() // nothing of it is wanted
		return nil, fmt.Errorf("it answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxDocument)
	return response, nil
}

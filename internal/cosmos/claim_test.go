package cosmos_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
)

// text is a record in words, to compare and to show.
func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	all := []error{
		message.ErrExists, message.ErrNotFound, message.ErrConflict,
		message.ErrTransient, message.ErrUnknown, message.ErrRefused,
	}
	for _, other := range all {
		if !errors.Is(want, other) && errors.Is(err, other) {
			t.Errorf("%v is %v, and %v as well", err, want, other)
		}
	}
}

func sample(id string) claim.Claim {
	at := time.Date(2026, 11, 30, 17, 0, 0, 123456789, time.UTC)
	return claim.Claim{
		ID: id, Status: claim.InProgress, Run: 1, Fence: 1, Owner: "worker-1/5f3a/77aa", W: "91bd",
		LeaseSeconds: 300, TaskType: "customer.create", Keyed: true, Fingerprint: "sha256:00",
		FirstCallAt: at, Starts: 1, Attempts: []claim.Attempt{{Fence: 1, Owner: "worker-1/5f3a/77aa", At: at}},
		TTL: 2592000, Version: 1,
	}
}

func TestAClaimIsReadAsItWasWrittenAndReplacedOnlyUnchanged(t *testing.T) { // C1, C4
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mine, theirs := w.db.Claims().Record("82f3"), w.db.Claims().Record("82f3")
		_, err := mine.Read(t.Context())
		wantError(t, err, message.ErrNotFound)

		first := sample("82f3")
		etag, err := mine.Create(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		_, err = theirs.Create(t.Context(), sample("82f3"))
		wantError(t, err, message.ErrExists)
		stored, err := theirs.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if stored.ETag != etag {
			t.Errorf("read under %s, created under %s", stored.ETag, etag)
		}
		if got, want := text(t, stored.Claim), text(t, first); got != want {
			t.Errorf("read %s\nwant %s", got, want)
		}

		second := stored.Claim
		second.Fence, second.W = 2, "77e1"
		newer, err := theirs.Replace(t.Context(), second, stored.ETag)
		if err != nil {
			t.Fatal(err)
		}
		if newer == etag {
			t.Errorf("a replaced claim kept its ETag %s", etag)
		}
		first.Released = true
		_, err = mine.Replace(t.Context(), first, etag)
		wantError(t, err, message.ErrConflict)
		stored, err = mine.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := text(t, stored.Claim), text(t, second); got != want || stored.ETag != newer {
			t.Errorf("after the conflict %s stands under %s\nwant %s under %s", got, stored.ETag, want, newer)
		}
	})
}

func TestReplacingWithoutAVersionIsRefusedAndNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.db.Claims().Record("82f3").Replace(t.Context(), sample("82f3"), "")
		wantError(t, err, message.ErrRefused)
		w.wire.wantOperations(t, 0)
	})
}

func TestReplacingWhatIsGoneFindsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.db.Claims().Record("82f3").Replace(t.Context(), sample("82f3"), `"any"`)
		wantError(t, err, message.ErrNotFound)
	})
}

func TestWhatTheStoreAddsStaysThereAndWhatLaterVersionsAddIsKept(t *testing.T) { // K6
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := sample("82f3")
		c.Attempts = nil
		c.Unknown = jsontext.Value(`{"later":{"print":{"resultRef":"/letters/1"}}}`)
		record := w.db.Claims().Record("82f3")
		if _, err := record.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		stored, err := record.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(stored.Claim.Unknown), string(c.Unknown); got != want {
			t.Errorf("unknown members are %s, want %s", got, want)
		}
		w.wire.forget()
		stored.Claim.W = "next"
		if _, err := record.Replace(t.Context(), stored.Claim, stored.ETag); err != nil {
			t.Fatal(err)
		}
		answer, err := w.sdk("claims").ReadItem(t.Context(), azcosmos.NewPartitionKeyString("82f3"), "82f3", nil)
		if err != nil {
			t.Fatal(err)
		}
		var document map[string]jsontext.Value
		if err := json.Unmarshal(answer.Value, &document); err != nil {
			t.Fatal(err)
		}
		for member, want := range map[string]string{
			"later": `{"print":{"resultRef":"/letters/1"}}`, "attempts": `[]`,
			"firstCallAt": `"2026-11-30T17:00:00.123456789Z"`, "notBefore": ``, "w": `"next"`,
		} {
			if got := string(document[member]); got != want {
				t.Errorf("member %s is stored as %q, want %q", member, got, want)
			}
		}
	})
}

func TestAgeIsTheStoresDateLessItsTimestamp(t *testing.T) { // C6, K4
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		record := w.db.Claims().Record("82f3")
		etag, err := record.Create(t.Context(), sample("82f3"))
		if err != nil {
			t.Fatal(err)
		}
		wantAge := func(want time.Duration) {
			t.Helper()
			stored, err := record.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if stored.Age != want {
				t.Errorf("age is %v, want %v", stored.Age, want)
			}
		}
		wantAge(0)
		time.Sleep(90 * time.Second)
		wantAge(90 * time.Second)
		w.hub.Jump(4 * time.Minute) // the store's clock alone: no clock of ours moves
		wantAge(330 * time.Second)
		if _, err := record.Replace(t.Context(), sample("82f3"), etag); err != nil {
			t.Fatal(err)
		}
		wantAge(0)
		w.hub.Jump(-10 * time.Second)
		wantAge(-10 * time.Second)
	})
}

func TestAnAnswerWithoutADateIsRefused(t *testing.T) { // C6, K4
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.db.Claims().Record("82f3").Create(t.Context(), sample("82f3")); err != nil {
			t.Fatal(err)
		}
		db := w.open(func(o *cosmos.Options) { o.Transport = dateless{w.wire} })
		defer db.Close()
		_, err := db.Claims().Record("82f3").Read(t.Context())
		wantError(t, err, message.ErrRefused)
	})
}

func TestALostAnswerIsUnknownAndTheWriteStands(t *testing.T) { // C9, K1, K2
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rule := w.arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "create", Entity: "claims"}, When: "after", Do: "hold"})
		wait := w.whileHeld(rule, control.Release{Action: "drop"})
		record := w.db.Claims().Record("82f3")
		_, err := record.Create(t.Context(), sample("82f3"))
		wait()
		wantError(t, err, message.ErrUnknown)
		w.wire.wantOperations(t, 1) // never sent again by the SDK
		stored, err := record.Read(t.Context())
		if err != nil {
			t.Fatalf("the write does not stand: %v", err)
		}

		rule = w.arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "replace", Key: "82f3"}, When: "after", Do: "hold"})
		wait = w.whileHeld(rule, control.Release{Action: "answer", Status: 503})
		stored.Claim.W = "renewed"
		_, err = record.Replace(t.Context(), stored.Claim, stored.ETag)
		wait()
		wantError(t, err, message.ErrUnknown)
		if stored, err = record.Read(t.Context()); err != nil || stored.Claim.W != "renewed" {
			t.Errorf("w is %q and the error %v, want the write that was answered with 503", stored.Claim.W, err)
		}
	})
}

func TestAWriteThatWasCutOffBeforeIsUnknownAndNothingStands(t *testing.T) { // C9, K1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rule := w.arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "create"}, When: "before", Do: "hold"})
		wait := w.whileHeld(rule, control.Release{Action: "drop"})
		record := w.db.Claims().Record("82f3")
		_, err := record.Create(t.Context(), sample("82f3"))
		wait()
		wantError(t, err, message.ErrUnknown)
		w.wire.wantOperations(t, 1)
		_, err = record.Read(t.Context())
		wantError(t, err, message.ErrNotFound)
	})
}

func TestAnOperationEndsWithinItsTimeout(t *testing.T) { // H5, K3
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rule := w.arm(control.Rule{Match: control.Match{Service: "cosmos", Entity: "claims"}, Do: "hold"})
		record := w.db.Claims().Record("82f3")
		asked := time.Now()
		_, err := record.Create(t.Context(), sample("82f3"))
		wantError(t, err, message.ErrUnknown)
		if took := time.Since(asked); took != 10*time.Second {
			t.Errorf("the create took %v, want its timeout of 10s", took)
		}
		if err := w.hub.WaitPeerGone(t.Context(), rule); err != nil {
			t.Fatal(err)
		}
		if err := w.hub.Disarm(rule); err != nil {
			t.Fatal(err)
		}
		_, err = record.Read(t.Context())
		wantError(t, err, message.ErrNotFound)
	})
}

func TestThrottlingIsRetriedAndThenTransient(t *testing.T) { // K1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		throttled := control.Rule{
			Match: control.Match{Service: "cosmos", Entity: "claims"}, Do: "answer", Status: 429,
			RetryAfter: control.Duration(50 * time.Millisecond), Times: 3,
		}
		rule := w.arm(throttled)
		record := w.db.Claims().Record("82f3")
		etag, err := record.Create(t.Context(), sample("82f3"))
		if err != nil {
			t.Fatalf("three refusals in a row were not got over: %v", err)
		}
		if err := w.hub.Disarm(rule); err != nil {
			t.Fatal(err)
		}

		w.wire.forget()
		throttled.Times = 0
		w.arm(throttled)
		_, err = record.Replace(t.Context(), sample("82f3"), etag)
		wantError(t, err, message.ErrTransient)
		w.wire.wantOperations(t, 4)
	})
}

// Whoever slows the process down hears of every refusal, not of those alone that
// are still one after the SDK's retries.
func TestEveryThrottledAttemptIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		told := 0
		db := w.open(func(o *cosmos.Options) { o.Throttled = func() { told++ } })
		defer db.Close()
		w.arm(control.Rule{
			Match: control.Match{Service: "cosmos", Entity: "claims"}, Do: "answer", Status: 429,
			RetryAfter: control.Duration(50 * time.Millisecond), Times: 3,
		})
		if _, err := db.Claims().Record("82f3").Create(t.Context(), sample("82f3")); err != nil {
			t.Fatal(err)
		}
		if told != 3 {
			t.Errorf("told %d times, want 3", told)
		}
	})
}

func TestThrottlingUntilTimeIsUpIsTransient(t *testing.T) { // K1
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.arm(control.Rule{
			Match: control.Match{Service: "cosmos", Entity: "claims"}, Do: "answer", Status: 429,
			RetryAfter: control.Duration(20 * time.Second),
		})
		_, err := w.db.Claims().Record("82f3").Create(t.Context(), sample("82f3"))
		wantError(t, err, message.ErrTransient) // every attempt was refused, so nothing is in doubt
	})
}

func TestAReadPassesOnTheSessionOfTheLastAnswerRefusalsIncluded(t *testing.T) { // K5
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.db.Claims().Record("82f3")
		etag, err := first.Create(t.Context(), sample("82f3"))
		if err != nil {
			t.Fatal(err)
		}
		record := w.db.Claims().Record("82f3")
		session := func() string {
			t.Helper()
			w.wire.forget()
			if _, err := record.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			return w.wire.wantOperations(t, 1)[0].Header.Get("X-Ms-Session-Token")
		}
		_, err = record.Create(t.Context(), sample("82f3"))
		wantError(t, err, message.ErrExists)
		afterConflict := session()
		if afterConflict == "" {
			t.Error("the read after a 409 passed on no session token")
		}
		if _, err := first.Replace(t.Context(), sample("82f3"), etag); err != nil {
			t.Fatal(err)
		}
		_, err = record.Replace(t.Context(), sample("82f3"), etag)
		wantError(t, err, message.ErrConflict)
		if afterMismatch := session(); afterMismatch == "" || afterMismatch == afterConflict {
			t.Errorf("the read after a 412 passed on %q, after the 409 before it %q", afterMismatch, afterConflict)
		}
		w.wire.forget()
		if _, err := w.db.Claims().Record("82f3").Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if token := w.wire.wantOperations(t, 1)[0].Header.Get("X-Ms-Session-Token"); token != "" {
			t.Errorf("a conversation began with the session %q of another one", token)
		}
	})
}

func TestWritesDoNotAskForTheirContentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.db.Claims().Record("82f3").Create(t.Context(), sample("82f3")); err != nil {
			t.Fatal(err)
		}
		for _, r := range w.wire.wantOperations(t, 1) {
			if got := r.Header.Get("Prefer"); got != "return=minimal" {
				t.Errorf("Prefer is %q, want return=minimal", got)
			}
			if agent := r.Header.Get("User-Agent"); len(agent) < 9 || agent[:9] != "worker-1 " {
				t.Errorf("User-Agent is %q, want the application id first", agent)
			}
		}
	})
}

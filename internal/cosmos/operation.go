package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/internal/message"
)

const (
	headerSession   = "X-Ms-Session-Token"
	headerSubstatus = "X-Ms-Substatus"
	headerActivity  = "X-Ms-Activity-Id"
)

// operation is one call to the service, with the attempts that the SDK makes of it.
type operation struct {
	name   string // verb and object, for errors
	id     string // of the object, where the name does not say it
	write  bool
	create bool // a write that finds nothing, so that a 404 is about its container

	session string // token of the last answer, refusals included (K5)
	reached bool   // an attempt was made
	lost    bool   // an attempt may have been applied and nobody said so
	dated   bool   // the last answer has a Date

	measured        bool
	container, verb string  // as telemetry has them
	status          int     // of the last answer; 0: there was none
	charge          float64 // request units of all answers
	throttled       int64   // answers that were 429
}

type operationKey struct{}

// attempted takes down what one attempt showed. A read is known by its last
// attempt. A write stays in doubt once it is, and is given an error that no layer
// of the SDK will retry (K2).
func (o *operation) attempted(response *http.Response, err error) error {
	o.reached = true
	doubt := err != nil && !neverSent(err)
	o.status = 0
	if err == nil {
		o.status = response.StatusCode
		if o.measured {
			units, _ := strconv.ParseFloat(response.Header.Get(headerCharge), 64) // none: nothing was charged
			o.charge += units
		}
		if o.status == http.StatusTooManyRequests {
			o.throttled++
		}
		if token := response.Header.Get(headerSession); token != "" {
			o.session = token
		}
		doubt = !definite(response.StatusCode)
		o.dated = response.Header.Get("Date") != ""
	}
	o.lost = doubt || o.write && o.lost
	if err != nil && doubt && o.write {
		return lostWrite{err}
	}
	return err
}

// rolledBack takes down what a batch was rolled back for, which stands in the body of
// its 207, and says whether that is throttling. No policy of the SDK looks there.
func (o *operation) rolledBack(r refusal) (throttled bool) {
	o.status = r.status
	if throttled = r.status == http.StatusTooManyRequests; throttled {
		o.throttled++
	}
	return throttled
}

// definite tells statuses that say: not applied. Success is none of them, since
// an operation that ends in an error although it was answered with success could
// not read the answer; 207 is a batch that was rolled back.
func definite(status int) bool {
	switch status {
	case http.StatusMultiStatus:
		return true
	case http.StatusRequestTimeout, http.StatusGone:
		return false
	}
	return status >= 400 && status < 500
}

// neverSent recognises the failures of looking up a name and of dialling: there
// was no connection to send anything on. All others may have come after the
// request was written, ETIMEDOUT and EHOSTUNREACH of a standing connection too.
func neverSent(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	broken, ok := errors.AsType[*net.OpError](err)
	return ok && broken.Op == "dial"
}

// lostWrite hides an error from the SDK's retry policies, which replay writes
// after some errors of a standing connection.
type lostWrite struct{ cause error }

func (e lostWrite) Error() string { return e.cause.Error() }

// NonRetriable is what azcore's retry policy asks an error for.
func (e lostWrite) NonRetriable() {}

// what is the operation in words.
func (o *operation) what() string {
	if o.id == "" {
		return o.name
	}
	return o.name + " " + o.id
}

// do carries out one operation within its bound.
func (d *Database) do(ctx context.Context, o *operation, send func(context.Context, *connection) error) error {
	c, err := d.connect(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", o.what(), err)
	}
	ctx, cancel := message.Within(ctx, d.options.Timeout)
	defer cancel()
	began, measured := d.meters.begin(ctx, o)
	err = send(context.WithValue(ctx, operationKey{}, o), c)
	if rolledBack, ok := errors.AsType[refusal](err); ok && o.rolledBack(rolledBack) && d.options.Throttled != nil {
		d.options.Throttled()
	}
	if measured {
		d.meters.measure(ctx, o, began)
	}
	if err != nil && !c.discovered.Load() {
		d.forget(ctx, c)
	}
	return o.translate(err)
}

// onItems is do for an operation on the items of a container.
func (d *Database) onItems(ctx context.Context, o *operation, container string, send func(context.Context, *azcosmos.ContainerClient) error) error {
	o.container = container
	return d.do(ctx, o, func(ctx context.Context, c *connection) error { return send(ctx, c.items[container]) })
}

// versioned makes a success without an ETag an error: the write stands, but nobody
// could name its version, so it is to be read back like a lost one.
func versioned(etag azcore.ETag, err error) error {
	if err == nil && etag == "" {
		return errors.New("the answer names no version")
	}
	return err
}

// Package downstream is the adapter to the systems that do the work: one HTTP
// request for one message.Call. A handler is declared in handlers.yaml and needs
// no Go; what it declares about its downstream computes every retry and takeover.
//
//	handlers.yaml ──ReadHandlers──▶ Declared ──Handler──▶ message.Handler
//	message.Call  ──one request──▶ reply ──status rules──▶ message.Outcome
//
//	D1  A call sends at most one request. Redirects are not followed and nothing is
//	    sent again, neither by us nor by net/http.
//	D2  A keyless call carries no Idempotency-Key and no X-Idempotency-Key, since
//	    net/http sends such a request again by itself; it uses a connection of its
//	    own, since a kept-alive one may be dead, and its first failure is final.
//	D3  Not applied is said only of what is known not to have been sent, or was
//	    refused with a status that says so. All else without a reply is unknown.
//	D4  A reply is read to a limit and within the call's timeout. What is beyond
//	    does not change what its status says.
//	D5  A file of handlers is read whole: every mistake is named at once, with its line.
package downstream

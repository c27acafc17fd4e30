package process

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

// A request that outlasts the grace is cut off: its context ends, its client has no
// answer, and Serve says so.
func TestNoRequestGoesOnWhenTheGraceIsOver(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun, told, asked := make(chan struct{}), make(chan struct{}), make(chan struct{})
	hold := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(told)
	})
	go func() {
		defer close(asked)
		if answer, err := http.Get("http://" + listener.Addr().String()); err == nil {
			_ = answer.Body.Close()
			t.Errorf("it was answered %s", answer.Status)
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, hold, time.Millisecond) }()
	<-begun
	stop()
	if err := <-ended; err == nil {
		t.Error("a request was cut off, and nobody says so")
	}
	<-told
	<-asked
}

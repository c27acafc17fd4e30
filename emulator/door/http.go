package door

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// shutdownGrace is how long requests under way may take to finish at the end.
const shutdownGrace = time.Second

// serveHTTP serves the connections that are handed over until the context ends,
// then lets the requests under way finish for a moment. It has no limit on the
// time of a whole request: a long poll or a held call may take minutes.
//
// work counts every connection, and every request by itself: a request that has
// become a WebSocket is no connection of the HTTP server any more.
func (d *Door) serveHTTP(ctx context.Context, requests *handover, work *sync.WaitGroup) {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			work.Add(1)
			defer work.Done()
			d.HTTP.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(d.Log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				work.Add(1)
				if ctx.Err() != nil {
					_ = c.Close() // came too late for Shutdown to see it
				}
			case http.StateClosed, http.StateHijacked:
				work.Done()
			}
		},
	}
	work.Go(func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close() // what is still open is cut
		}
	})
	_ = server.Serve(requests) // ends with Shutdown, and with nothing else
}

// handover is the listener of the HTTP server. It accepts what the door gives it.
type handover struct {
	address net.Addr
	given   chan net.Conn
	end     func()
	ended   chan struct{}
}

var _ net.Listener = (*handover)(nil)

func newHandover(address net.Addr) *handover {
	ended := make(chan struct{})
	return &handover{
		address: address,
		given:   make(chan net.Conn),
		end:     sync.OnceFunc(func() { close(ended) }),
		ended:   ended,
	}
}

// give hands a connection over. It is closed if nobody takes it any more.
func (h *handover) give(c net.Conn) {
	select {
	case h.given <- c:
	case <-h.ended:
		_ = c.Close() // the HTTP server has ended
	}
}

func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.given:
		return c, nil
	case <-h.ended:
		return nil, net.ErrClosed
	}
}

func (h *handover) Close() error   { h.end(); return nil }
func (h *handover) Addr() net.Addr { return h.address }

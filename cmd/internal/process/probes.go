package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"
)

// probeLimit bounds the look that a probe takes.
const probeLimit = 2 * time.Second

// Probes adds /livez, and /readyz: nothing that is looked at has an error, and this
// process is not about to end, which running tells.
func Probes(running context.Context, mux *http.ServeMux, log *slog.Logger, looks ...func(context.Context) error) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), probeLimit)
		defer cancel()
		errs := []error{running.Err()}
		if running.Err() == nil {
			for _, look := range looks {
				errs = append(errs, look(ctx))
			}
		}
		if err := errors.Join(errs...); err != nil {
			log.LogAttrs(ctx, slog.LevelWarn, "not ready", slog.Any("err", err))
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
}

// Profile serves the profiles of this process until ctx ends, if it was asked for by
// -pprof, and only to this machine: a profile shows memory.
func (s *Settings) Profile(ctx context.Context, log *slog.Logger) error {
	if s.profile == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.profile)
	if err != nil {
		return fmt.Errorf("listen for profiles: %w (choose another address with -pprof)", err)
	}
	at, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil || !at.Addr().IsLoopback() {
		return errors.Join(fmt.Errorf("-pprof %s is no loopback address: a profile shows memory; give 127.0.0.1:6060 and reach it through a tunnel", s.profile), listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	log.LogAttrs(ctx, slog.LevelInfo, "profiles", slog.String("address", "http://"+at.String()+"/debug/pprof/"))
	return Serve(ctx, listener, mux, time.Second)
}

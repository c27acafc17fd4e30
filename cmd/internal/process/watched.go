package process

import (
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"oneeffect/internal/telemetry"
)

// Watched has a handler's requests made spans and measurements. Where neither goes
// anywhere, none is made: a request then brings its caller's trace, which goes on in
// whatever comes of it, and nothing else is done for it.
func Watched(t telemetry.Providers, name string, next http.Handler, o ...otelhttp.Option) http.Handler {
	if t.Unwatched() {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(t.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
		})
	}
	return otelhttp.NewHandler(next, name, append(o, otelhttp.WithTracerProvider(t.Traces), otelhttp.WithMeterProvider(t.Metrics), otelhttp.WithPropagators(t.Propagator))...)
}

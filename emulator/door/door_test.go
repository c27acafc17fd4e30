package door_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/door"
)

func TestEachProtocolReachesItsServerFromItsFirstByte(t *testing.T) { // D2
	for _, road := range roads {
		for _, piece := range []int{1, 3, 8, 100} { // bytes written at once
			t.Run(fmt.Sprintf("AMQP %s in pieces of %d", road, piece), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					const hello = "AMQP\x03\x01\x00\x00 and what follows"
					c, _ := w.come(road)
					go func() {
						for rest := hello; rest != ""; {
							n := min(piece, len(rest))
							if _, err := io.WriteString(c, rest[:n]); err != nil {
								return
							}
							rest = rest[n:]
						}
					}()
					if got := w.read(c, len(hello)); got != hello {
						t.Errorf("AMQP got %q", got)
					}
				})
			})
		}
		for _, method := range []string{"GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			t.Run(method+" "+road, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					r, err := http.NewRequestWithContext(t.Context(), method, "https://localhost/a/b", strings.NewReader("body"))
					if err != nil {
						t.Fatal(err)
					}
					if road == "plainly" {
						r.URL.Scheme = "http"
					}
					answer, err := w.client(road).Do(r)
					if err != nil {
						t.Fatal(err)
					}
					defer answer.Body.Close()
					got, err := io.ReadAll(answer.Body)
					if want := "HTTP/1.1 " + method + " /a/b body " + road; string(got) != want || err != nil {
						t.Errorf("HTTP got %q (%v), want %q", got, err, want)
					}
				})
			})
		}
	}
}

// No client of net/http sends these as it sends the others: what answers HEAD has no body to say so, CONNECT asks for no
// path, and PRI is how HTTP/2 begins with those who do not ask.
func TestOddMethodsReachTheServerOfHTTPToo(t *testing.T) { // D2
	for method, request := range map[string]string{
		"HEAD":    "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"CONNECT": "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n",
		"PRI":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := make(chan string, 1)
				d, _ := served(t)
				d.HTTP = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Method })
				w := start(t, d, newPipes())
				c, _ := w.come("plainly")
				w.send(c, request)
				w.read(c, len("HTTP/1.1 "))
				select {
				case got := <-asked:
					if got != method {
						t.Errorf("the server was asked to %s", got)
					}
				default:
					t.Error("something else answered")
				}
			})
		})
	}
}

func TestWhatIsNoneOfTheProtocolsIsToldSo(t *testing.T) { // D1
	for name, test := range map[string]struct{ first, got string }{
		"a byte that nothing begins with": {"*", "2a"},
		"Kafka":                           {"\x00\x00\x00\x2c\x00\x12\x00\x03", "00 00 00 2c 00 12 00 03"},
		"almost AMQP":                     {"AMQX", "41 4d 51 58"},
		"a method of nobody":              {"BREW /tea", "42 52 45 57"},
		"TLS inside TLS":                  {"\x16\x03\x01", "16 03 01"},
	} {
		for _, road := range roads {
			if road == "plainly" && strings.HasPrefix(name, "TLS") {
				continue
			}
			t.Run(name+" "+road, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					c, _ := w.come(road)
					begun := time.Now()
					w.send(c, test.first)
					got := w.wantCut(c)
					if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "AMQP 1.0, TLS and HTTP/1.1") || !strings.Contains(got, test.got) {
						t.Errorf("it was told %q", got)
					}
					if took := time.Since(begun); took > time.Second {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}

func TestADoorSpeaksOnlyWhatItHasAServerFor(t *testing.T) {
	for _, first := range []string{"AMQP\x00\x01\x00\x00", "\x16\x03\x01\x02\x00"} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := served(t)
			d.AMQP, d.TLS = nil, nil
			w := start(t, d, newPipes())
			c, _ := w.come("plainly")
			w.send(c, first)
			if got := w.wantCut(c); !strings.Contains(got, "This port speaks HTTP/1.1. ") {
				t.Errorf("it was told %q", got)
			}
		})
	}
}

func TestAPeerThatDoesNotSayWhatItSpeaksIsCut(t *testing.T) { // D1
	for name, hesitate := range map[string]func(w *world) net.Conn{
		"says nothing":       func(w *world) net.Conn { return w.dial() },
		"stops at AM":        func(w *world) net.Conn { c := w.dial(); w.send(c, "AM"); return c },
		"stops at OPTIONS":   func(w *world) net.Conn { c := w.dial(); w.send(c, "OPTIONS"); return c },
		"stops in the hello": func(w *world) net.Conn { c := w.dial(); w.send(c, "\x16\x03\x01\x02\x00\x01"); return c },
		"sends byte by byte": func(w *world) net.Conn {
			c := w.dial()
			go func() {
				for _, b := range "OPT" {
					time.Sleep(3 * time.Second)
					if _, err := io.WriteString(c, string(b)); err != nil {
						return
					}
				}
			}()
			return c
		},
		"is silent under TLS": func(w *world) net.Conn { c, _ := w.come("over TLS"); return c },
		"stops at A under TLS": func(w *world) net.Conn {
			c, _ := w.come("over TLS")
			w.send(c, "A")
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				begun := time.Now()
				if got := w.wantCut(hesitate(w)); strings.Contains(got, "HTTP") {
					t.Errorf("it was told %q", got)
				}
				if took := time.Since(begun); took != 10*time.Second {
					t.Errorf("it was cut after %v", took)
				}
			})
		})
	}
}

func TestAHesitantPeerKeepsNobodyElseWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		begun := time.Now()
		for range 100 {
			w.send(w.dial(), "\x16\x03\x01")
		}
		c, _ := w.come("plainly")
		w.send(c, "AMQP")
		if w.read(c, 4) != "AMQP" || time.Since(begun) > 0 {
			t.Errorf("it took %v", time.Since(begun))
		}
	})
}

func TestOncePatienceHasEndedWellAConnectionMayBeSilent(t *testing.T) {
	for _, road := range roads {
		inBubble(t, func(t *testing.T, w *world) {
			c, _ := w.come(road)
			w.send(c, "AMQP")
			w.read(c, 4)
			time.Sleep(time.Hour)
			w.send(c, "still here")
			if got := w.read(c, 10); got != "still here" {
				t.Errorf("%s: %q", road, got)
			}
		})
	}
}

func TestAHandlerThatAbortsCutsTheConnection(t *testing.T) { // D3
	for _, road := range roads {
		inBubble(t, func(t *testing.T, w *world) {
			c, _ := w.come(road) // which has offered HTTP/2, where it is TLS
			w.send(c, "GET /abort HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if got := w.wantCut(c); got != "" {
				t.Errorf("%s: %q came", road, got)
			}
		})
	}
}

func TestThereIsRoomForSoManyConnectionsAndOthersWait(t *testing.T) { // D4
	inBubble(t, func(t *testing.T, w *world) {
		var cuts []func()
		for i := range door.Connections {
			c, cut := w.come("plainly")
			first := "AMQP"
			if i == 0 {
				first = "GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n"
			}
			w.send(c, first)
			cuts = append(cuts, cut)
		}
		synctest.Wait()
		for _, leaves := range cuts[:2] { // one that spoke HTTP, and one that spoke AMQP
			came := make(chan struct{})
			go func() {
				defer close(came)
				w.send(w.dial(), "AMQP")
			}()
			synctest.Wait()
			select {
			case <-came:
				t.Error("one more came in than there is room for")
			default:
			}
			leaves()
			<-came
		}
	})
}

func TestNothingIsLeftWhateverTheConnectionsWereAtWhenItEnds(t *testing.T) { // D5; the bubble fails if a goroutine is left
	for name, busy := range map[string]func(w *world){
		"nothing":            func(*world) {},
		"silence":            func(w *world) { w.dial() },
		"half a hello":       func(w *world) { w.send(w.dial(), "\x16\x03\x01\x02\x00\x01") },
		"silence under TLS":  func(w *world) { w.come("over TLS") },
		"AMQP":               func(w *world) { c, _ := w.come("plainly"); w.send(c, "AMQP"); w.read(c, 4) },
		"AMQP over TLS":      func(w *world) { c, _ := w.come("over TLS"); w.send(c, "AMQP"); w.read(c, 4) },
		"half a request":     func(w *world) { w.send(w.dial(), "GET /held HTT") },
		"a request":          func(w *world) { w.send(w.dial(), "GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n") },
		"a request over TLS": func(w *world) { c, _ := w.come("over TLS"); w.send(c, "GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n") },
		"a WebSocket":        func(w *world) { w.webSocket("plainly", "amqp") },
		"a secure WebSocket": func(w *world) { w.webSocket("over TLS", "amqp") },
		"a refusal":          func(w *world) { c := w.dial(); w.send(c, "*"); w.read(c, 4) },
		"all of a refusal unread": func(w *world) {
			w.send(w.dial(), "*")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				busy(w)
				synctest.Wait()
				begun := time.Now()
				w.shut()
				if took := time.Since(begun); took > 7*time.Second { // net/http gives a second, TLS five to say goodbye
					t.Errorf("it took %v to end", took)
				}
			})
		})
	}
}

func TestWhatPassesWithTheListenerIsWaitedForAndWhatDoesNotIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := served(t)
		l := newPipes()
		for range 3 {
			l.fails <- &net.OpError{Op: "accept", Err: syscall.EMFILE}
		}
		w := start(t, d, l)
		begun := time.Now()
		c, _ := w.come("plainly")
		w.send(c, "AMQP")
		w.read(c, 4)
		if took := time.Since(begun); took != 35*time.Millisecond {
			t.Errorf("it took %v to recover", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d, _ := served(t)
		l := newPipes()
		broken := errors.New("broken")
		l.fails <- broken
		ctx, end := context.WithCancelCause(t.Context())
		d.Serve(ctx, l, func(err error) { end(err) })
		if cause := context.Cause(ctx); !errors.Is(cause, broken) {
			t.Errorf("it said %v", cause)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener is still open: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // it ends while it waits
		d, _ := served(t)
		l := newPipes()
		for range cap(l.fails) {
			l.fails <- syscall.ENFILE
		}
		w := start(t, d, l)
		synctest.Wait()
		w.shut()
	})
}

package servicebus_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

// inFlight is how many calls of the SDK are under way at once.
const inFlight = 64

// places are where the emulator of a benchmark keeps its messages.
func places(b *testing.B, run func(b *testing.B, folder string)) {
	b.Run("in memory", func(b *testing.B) { run(b, "") })
	b.Run("kept", func(b *testing.B) { run(b, b.TempDir()) })
}

// benchClient is the real SDK against an emulator, both in this process, over loopback TCP.
func benchClient(b *testing.B, folder string) *azservicebus.Client {
	server, err := servicebus.New(control.New(), servicebus.Config{Data: folder, Namespace: broker.Config{
		Queues: []broker.QueueConfig{{Name: "tasks", LockDuration: 5 * time.Minute, TimeToLive: time.Hour}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { _ = server.ServeConn(context.Background(), c) })
		}
	})
	client, err := azservicebus.NewClientFromConnectionString(connectionString, &azservicebus.ClientOptions{
		NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = client.Close(context.Background())
		_ = l.Close()
		_ = server.Close()
		conns.Wait()
	})
	return client
}

// sendAll sends n messages of 1 KB.
func sendAll(b *testing.B, s *azservicebus.Sender, n int) {
	var next atomic.Int64
	var senders sync.WaitGroup
	body := make([]byte, 1024)
	for range inFlight {
		senders.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := s.SendMessage(b.Context(), &azservicebus.Message{Body: body}, nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
}

func BenchmarkSend(b *testing.B) { places(b, benchSend) }

func benchSend(b *testing.B, folder string) {
	s, err := benchClient(b, folder).NewSender("tasks", nil)
	if err != nil {
		b.Fatal(err)
	}
	sendAll(b, s, 1)
	b.ResetTimer()
	sendAll(b, s, b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func BenchmarkReceiveComplete(b *testing.B) { places(b, benchReceiveComplete) }

func benchReceiveComplete(b *testing.B, folder string) {
	client := benchClient(b, folder)
	s, err := client.NewSender("tasks", nil)
	if err != nil {
		b.Fatal(err)
	}
	r, err := client.NewReceiverForQueue("tasks", nil)
	if err != nil {
		b.Fatal(err)
	}
	sendAll(b, s, b.N)
	b.ResetTimer()
	var completions sync.WaitGroup
	slots := make(chan struct{}, inFlight)
	for received := 0; received < b.N; {
		got, err := r.ReceiveMessages(b.Context(), min(inFlight, b.N-received), nil)
		if err != nil {
			b.Fatal(err)
		}
		received += len(got)
		for _, m := range got {
			slots <- struct{}{}
			completions.Go(func() {
				defer func() { <-slots }()
				if err := r.CompleteMessage(b.Context(), m, nil); err != nil {
					b.Error(err)
				}
			})
		}
	}
	completions.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

package amqp

// Delivery is one message on its way over a link, in either direction.
type Delivery struct {
	Link    *Link
	ID      uint32 // delivery-id, unique among the unsettled ones of its session and direction
	Tag     []byte
	Format  uint32
	Settled bool   // was sent settled
	Message []byte // of an incoming delivery: the encoded message; the handler's from now on
	Data    any    // the handler's own: set it in Outgoing, or in Handler.Transfer
}

// Settle tells the peer the outcome and forgets the delivery. It answers ErrGone if that was done before or the link has ended.
func (d *Delivery) Settle(state State) error { panic("todo") }

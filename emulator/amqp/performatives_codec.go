package amqp

func (p *Open) appendTo(dst []byte) ([]byte, error) {
	w := compose(dst, descOpen)
	w.text(p.ContainerID)
	w.address(p.Hostname)
	w.optUint(p.MaxFrameSize)
	opt(&w, p.ChannelMax)
	w.optUint(p.IdleTimeOut)
	w.symbols(p.OutgoingLocales)
	w.symbols(p.IncomingLocales)
	w.symbols(p.OfferedCapabilities)
	w.symbols(p.DesiredCapabilities)
	w.mapping(p.Properties)
	return w.done()
}

func (p *Open) decodeFrom(f *fieldReader) {
	id := read[string](f, "a string")
	f.need(id.Set, "container-id")
	*p = Open{
		ContainerID:         id.Value,
		Hostname:            f.text(),
		MaxFrameSize:        f.uint(),
		ChannelMax:          read[uint16](f, "a ushort"),
		IdleTimeOut:         f.uint(),
		OutgoingLocales:     f.symbols(),
		IncomingLocales:     f.symbols(),
		OfferedCapabilities: f.symbols(),
		DesiredCapabilities: f.symbols(),
		Properties:          f.mapping(),
	}
}

func (p *Begin) appendTo(dst []byte) ([]byte, error) {
	w := compose(dst, descBegin)
	opt(&w, p.RemoteChannel)
	w.uint(p.NextOutgoingID)
	w.uint(p.IncomingWindow)
	w.uint(p.OutgoingWindow)
	w.optUint(p.HandleMax)
	w.symbols(p.OfferedCapabilities)
	w.symbols(p.DesiredCapabilities)
	w.mapping(p.Properties)
	return w.done()
}

func (p *Begin) decodeFrom(f *fieldReader) {
	remote := read[uint16](f, "a ushort")
	next, in, out := f.uint(), f.uint(), f.uint()
	f.need(next.Set, "next-outgoing-id")
	f.need(in.Set, "incoming-window")
	f.need(out.Set, "outgoing-window")
	*p = Begin{
		RemoteChannel:       remote,
		NextOutgoingID:      next.Value,
		IncomingWindow:      in.Value,
		OutgoingWindow:      out.Value,
		HandleMax:           f.uint(),
		OfferedCapabilities: f.symbols(),
		DesiredCapabilities: f.symbols(),
		Properties:          f.mapping(),
	}
}

func (p *Attach) appendTo(dst []byte) ([]byte, error) {
	w := compose(dst, descAttach)
	w.text(p.Name)
	w.uint(p.Handle)
	w.boolean(bool(p.Role))
	opt(&w, asOptional[uint8](p.SndSettleMode))
	opt(&w, asOptional[uint8](p.RcvSettleMode))
	w.source(p.Source)
	if p.Coordinator {
		w.count++
		w.buf = appendEmpty(w.buf, descCoordinator)
	} else {
		w.target(p.Target)
	}
	w.mapping(p.Unsettled)
	w.boolean(p.IncompleteUnsettled)
	w.optUint(p.InitialDeliveryCount)
	opt(&w, p.MaxMessageSize)
	w.symbols(p.OfferedCapabilities)
	w.symbols(p.DesiredCapabilities)
	w.mapping(p.Properties)
	return w.done()
}

func (p *Attach) decodeFrom(f *fieldReader) {
	name := read[string](f, "a string")
	handle, role := f.uint(), f.boolean()
	f.need(name.Set, "name")
	f.need(handle.Set, "handle")
	f.need(role.Set, "role")
	*p = Attach{
		Name:          name.Value,
		Handle:        handle.Value,
		Role:          Role(role.Value),
		SndSettleMode: asOptional[SenderSettleMode](read[uint8](f, "a ubyte")),
		RcvSettleMode: asOptional[ReceiverSettleMode](read[uint8](f, "a ubyte")),
		Source:        f.source(),
	}
	p.Target, p.Coordinator = f.target()
	p.Unsettled = f.mapping()
	p.IncompleteUnsettled = f.boolean().Value
	p.InitialDeliveryCount = f.uint()
	p.MaxMessageSize = read[uint64](f, "a ulong")
	p.OfferedCapabilities = f.symbols()
	p.DesiredCapabilities = f.symbols()
	p.Properties = f.mapping()
}

func (p *Flow) appendTo(dst []byte) ([]byte, error) {
	w := compose(dst, descFlow)
	w.optUint(p.NextIncomingID)
	w.uint(p.IncomingWindow)
	w.uint(p.NextOutgoingID)
	w.uint(p.OutgoingWindow)
	w.optUint(p.Handle)
	w.optUint(p.DeliveryCount)
	w.optUint(p.LinkCredit)
	w.optUint(p.Available)
	w.boolean(p.Drain)
	w.boolean(p.Echo)
	w.mapping(p.Properties)
	return w.done()
}

func (p *Flow) decodeFrom(f *fieldReader) {
	nextIn := f.uint()
	in, nextOut, out := f.uint(), f.uint(), f.uint()
	f.need(in.Set, "incoming-window")
	f.need(nextOut.Set, "next-outgoing-id")
	f.need(out.Set, "outgoing-window")
	*p = Flow{
		NextIncomingID: nextIn,
		IncomingWindow: in.Value,
		NextOutgoingID: nextOut.Value,
		OutgoingWindow: out.Value,
		Handle:         f.uint(),
		DeliveryCount:  f.uint(),
		LinkCredit:     f.uint(),
		Available:      f.uint(),
		Drain:          f.boolean().Value,
		Echo:           f.boolean().Value,
		Properties:     f.mapping(),
	}
}

func (p *Transfer) appendTo(dst []byte) ([]byte, error) {
	w := compose(dst, descTransfer)
	w.uint(p.Handle)
	w.optUint(p.DeliveryID)
	w.binary(p.DeliveryTag)
	w.optUint(p.MessageFormat)
	if p.Settled.Set {
		w.boolean(p.Settled.Value)
	} else {
		w.null()
	}
	w.boolean(p.More)
	opt(&w, asOptional[uint8](p.RcvSettleMode))
	w.state(p.State)
	w.boolean(p.Resume)
	w.boolean(p.Aborted)
	w.boolean(p.Batchable)
	return w.done()
}

func (p *Transfer) decodeFrom(f *fieldReader) {
	handle := f.uint()
	f.need(handle.Set, "handle")
	*p = Transfer{
		Handle:        handle.Value,
		DeliveryID:    f.uint(),
		DeliveryTag:   f.binary(),
		MessageFormat: f.uint(),
		Settled:       f.boolean(),
		More:          f.boolean().Value,
		RcvSettleMode: asOptional[ReceiverSettleMode](read[uint8](f, "a ubyte")),
		State:         f.state(),
		Resume:        f.boolean().Value,
		Aborted:       f.boolean().Value,
		Batchable:     f.boolean().Value,
	}
}

func (p *Disposition) appendTo(dst []byte) ([]byte, error) {
	w := compose(dst, descDisposition)
	w.boolean(bool(p.Role))
	w.uint(p.First)
	w.optUint(p.Last)
	w.boolean(p.Settled)
	w.state(p.State)
	w.boolean(p.Batchable)
	return w.done()
}

func (p *Disposition) decodeFrom(f *fieldReader) {
	role, first := f.boolean(), f.uint()
	f.need(role.Set, "role")
	f.need(first.Set, "first")
	*p = Disposition{
		Role:      Role(role.Value),
		First:     first.Value,
		Last:      f.uint(),
		Settled:   f.boolean().Value,
		State:     f.state(),
		Batchable: f.boolean().Value,
	}
}

func (p *Detach) appendTo(dst []byte) ([]byte, error) {
	w := compose(dst, descDetach)
	w.uint(p.Handle)
	w.boolean(p.Closed)
	w.fault(p.Error)
	return w.done()
}

func (p *Detach) decodeFrom(f *fieldReader) {
	handle := f.uint()
	f.need(handle.Set, "handle")
	*p = Detach{Handle: handle.Value, Closed: f.boolean().Value, Error: f.fault()}
}

func (p *End) appendTo(dst []byte) ([]byte, error) {
	w := compose(dst, descEnd)
	w.fault(p.Error)
	return w.done()
}

func (p *End) decodeFrom(f *fieldReader) { *p = End{Error: f.fault()} }

func (p *Close) appendTo(dst []byte) ([]byte, error) {
	w := compose(dst, descClose)
	w.fault(p.Error)
	return w.done()
}

func (p *Close) decodeFrom(f *fieldReader) { *p = Close{Error: f.fault()} }

package amqp

// source writes null for nil.
func (w *fieldWriter) source(s *Source) {
	if s == nil {
		w.null()
		return
	}
	w.count++
	x := compose(w.buf, descSource)
	x.address(s.Address)
	x.optUint(s.Durable)
	x.name(s.ExpiryPolicy)
	x.optUint(s.Timeout)
	x.boolean(s.Dynamic)
	x.mapping(s.DynamicNodeProperties)
	x.name(s.DistributionMode)
	x.mapping(s.Filter)
	x.state(s.DefaultOutcome)
	x.symbols(s.Outcomes)
	x.symbols(s.Capabilities)
	w.keep(x.done())
}

func (f *fieldReader) source() *Source {
	code, ok := f.composite()
	if !ok {
		return nil
	}
	if code != descSource {
		f.wrong(codeDescribed, "a source")
		return nil
	}
	g := f.d.fields()
	s := &Source{
		Address:               g.text(),
		Durable:               g.uint(),
		ExpiryPolicy:          g.symbol(),
		Timeout:               g.uint(),
		Dynamic:               g.boolean().Value,
		DynamicNodeProperties: g.mapping(),
		DistributionMode:      g.symbol(),
		Filter:                g.mapping(),
		DefaultOutcome:        g.state(),
		Outcomes:              g.symbols(),
		Capabilities:          g.symbols(),
	}
	f.err = g.done()
	return s
}

// target writes null for nil, unless the target is the transaction coordinator.
func (w *fieldWriter) target(t *Target) {
	if t == nil {
		w.null()
		return
	}
	w.count++
	x := compose(w.buf, descTarget)
	x.address(t.Address)
	x.optUint(t.Durable)
	x.name(t.ExpiryPolicy)
	x.optUint(t.Timeout)
	x.boolean(t.Dynamic)
	x.mapping(t.DynamicNodeProperties)
	x.symbols(t.Capabilities)
	w.keep(x.done())
}

func (f *fieldReader) target() (t *Target, coordinator bool) {
	code, ok := f.composite()
	if !ok {
		return nil, false
	}
	g := f.d.fields()
	switch code {
	case descTarget:
		t = &Target{
			Address:               g.text(),
			Durable:               g.uint(),
			ExpiryPolicy:          g.symbol(),
			Timeout:               g.uint(),
			Dynamic:               g.boolean().Value,
			DynamicNodeProperties: g.mapping(),
			Capabilities:          g.symbols(),
		}
	case descCoordinator:
		coordinator = true
	default:
		f.wrong(codeDescribed, "a target")
		return nil, false
	}
	f.err = g.done()
	return t, coordinator
}

// address writes null for an empty address.
func (w *fieldWriter) address(a string) {
	if a == "" {
		w.null()
		return
	}
	w.text(a)
}

package amqp

func (Accepted) appendState(dst []byte) ([]byte, error) {
	return appendEmpty(dst, descAccepted), nil
}

func (Released) appendState(dst []byte) ([]byte, error) {
	return appendEmpty(dst, descReleased), nil
}

func (s Rejected) appendState(dst []byte) ([]byte, error) {
	w := compose(dst, descRejected)
	w.fault(s.Error)
	return w.done()
}

func (s Modified) appendState(dst []byte) ([]byte, error) {
	w := compose(dst, descModified)
	w.boolean(s.DeliveryFailed)
	w.boolean(s.UndeliverableHere)
	w.mapping(s.MessageAnnotations)
	return w.done()
}

func (s Received) appendState(dst []byte) ([]byte, error) {
	w := compose(dst, descReceived)
	w.uint(s.SectionNumber)
	w.any(s.SectionOffset)
	return w.done()
}

func (s OtherState) appendState(dst []byte) ([]byte, error) {
	return Append(dst, s.Described)
}

// state writes null for nil.
func (w *fieldWriter) state(s State) {
	if s == nil {
		w.null()
		return
	}
	w.count++
	w.keep(s.appendState(w.buf))
}

func (f *fieldReader) state() State {
	start := f.d.off
	code, ok := f.composite()
	if !ok {
		return nil
	}
	var s State
	var g fieldReader
	switch code {
	case descAccepted:
		s, g = Accepted{}, f.d.fields()
	case descReleased:
		s, g = Released{}, f.d.fields()
	case descRejected:
		g = f.d.fields()
		s = Rejected{Error: g.fault()}
	case descModified:
		g = f.d.fields()
		s = Modified{
			DeliveryFailed:     g.boolean().Value,
			UndeliverableHere:  g.boolean().Value,
			MessageAnnotations: g.mapping(),
		}
	case descReceived:
		g = f.d.fields()
		s = Received{SectionNumber: g.uint().Value, SectionOffset: read[uint64](&g, "a ulong").Value}
	default:
		f.d.off = start
		f.left++
		v, _ := f.any().(Described)
		return OtherState{v}
	}
	f.err = g.done()
	return s
}

// fault writes an error, null for nil.
func (w *fieldWriter) fault(e *Error) {
	if e == nil {
		w.null()
		return
	}
	w.count++
	x := compose(w.buf, descError)
	x.any(e.Condition)
	x.text(e.Description)
	x.mapping(e.Info)
	w.keep(x.done())
}

func (f *fieldReader) fault() *Error {
	code, ok := f.composite()
	if !ok {
		return nil
	}
	if code != descError {
		f.wrong(codeDescribed, "an error")
		return nil
	}
	g := f.d.fields()
	condition := read[Symbol](&g, "a symbol")
	g.need(condition.Set, "condition")
	e := &Error{Condition: condition.Value, Description: g.text(), Info: g.mapping()}
	f.err = g.done()
	return e
}

package amqp

import "bytes"

// descriptor reads the descriptor of a described value whose first byte has been read.
func (d *decoder) descriptor() (uint64, error) {
	c, err := d.code()
	if err != nil {
		return 0, err
	}
	switch c {
	case codeUlong0, codeSmallUlong, codeUlong, codeSymbol8, codeSymbol32:
	default:
		return 0, d.malformed("descriptor with constructor 0x%02x", byte(c))
	}
	if c == codeSmallUlong {
		b, err := d.take(1)
		if err != nil {
			return 0, err
		}
		return uint64(b[0]), nil
	}
	v, err := d.data(c, maxDepth)
	if err != nil {
		return 0, err
	}
	if s, ok := v.(Symbol); ok {
		return descriptorNamed(s), nil
	}
	return v.(uint64), nil
}

// described reads the 0x00 and the descriptor of a described value.
func (d *decoder) described() (uint64, error) {
	c, err := d.code()
	if err != nil {
		return 0, err
	}
	if c != codeDescribed {
		return 0, d.malformed("constructor 0x%02x where a described value belongs", byte(c))
	}
	return d.descriptor()
}

// fieldReader reads the fields of a composite in their order. The first
// failure sticks: later fields read as absent, and done returns it.
type fieldReader struct {
	d     *decoder
	left  int
	outer int
	err   error
}

// fields enters the list of a composite whose descriptor has been read.
func (d *decoder) fields() fieldReader {
	f := fieldReader{d: d, outer: d.end}
	c, err := d.code()
	switch {
	case err != nil:
		f.err = err
	case c == codeList8 || c == codeList32:
		f.left, f.outer, f.err = d.enter(c)
		if f.err == nil && f.left > d.end-d.off {
			f.err = d.fail(ErrTooMany)
		}
	case c == codeList0:
		d.end = d.off
	default:
		f.err = d.malformed("composite with constructor 0x%02x", byte(c))
	}
	return f
}

// done leaves the composite. Fields that a later version may have added are skipped.
func (f *fieldReader) done() error {
	if f.err != nil {
		return f.err
	}
	f.d.off, f.d.end = f.d.end, f.outer
	return nil
}

// next starts on the next field; false if it is null or absent.
func (f *fieldReader) next() (Code, bool) {
	if f.err != nil || f.left == 0 {
		return codeNull, false
	}
	f.left--
	c, err := f.d.code()
	if err != nil {
		f.err = err
		return codeNull, false
	}
	return c, c != codeNull
}

func (f *fieldReader) wrong(c Code, want string) {
	if f.err == nil {
		f.err = f.d.malformed("constructor 0x%02x where %s belongs", byte(c), want)
	}
}

// need records that a mandatory field is absent.
func (f *fieldReader) need(present bool, name string) {
	if !present && f.err == nil {
		f.err = f.d.malformed("the mandatory field %s is absent", name)
	}
}

// read is the general way to read a field of one Go type.
func read[T any](f *fieldReader, want string) (o Optional[T]) {
	c, ok := f.next()
	if !ok {
		return o
	}
	if c == codeDescribed {
		f.wrong(c, want)
		return o
	}
	v, err := f.d.data(c, 1)
	if err != nil {
		f.err = err
		return o
	}
	if o.Value, o.Set = v.(T); !o.Set {
		f.wrong(c, want)
	}
	return o
}

// uint reads without the detour over an interface value: it is the most frequent field.
func (f *fieldReader) uint() (o Optional[uint32]) {
	c, ok := f.next()
	if !ok {
		return o
	}
	var b []byte
	switch c {
	case codeUint0:
		return Some[uint32](0)
	case codeSmallUint:
		b, f.err = f.d.take(1)
	case codeUint:
		b, f.err = f.d.take(4)
	default:
		f.wrong(c, "a uint")
	}
	if f.err != nil {
		return o
	}
	for _, x := range b {
		o.Value = o.Value<<8 | uint32(x)
	}
	o.Set = true
	return o
}

func (f *fieldReader) boolean() (o Optional[bool]) {
	c, ok := f.next()
	switch {
	case !ok:
		return o
	case c == codeTrue || c == codeFalse:
		return Some(c == codeTrue)
	case c != codeBoolean:
		f.wrong(c, "a boolean")
		return o
	}
	v, err := f.d.fixed(c)
	if err != nil {
		f.err = err
		return o
	}
	return Some(v.(bool))
}

// binary reads without that detour, too. The bytes are the caller's.
func (f *fieldReader) binary() []byte {
	c, ok := f.next()
	if !ok {
		return nil
	}
	if c != codeBinary8 && c != codeBinary32 {
		f.wrong(c, "a binary")
		return nil
	}
	n, err := f.d.size(c)
	if err != nil {
		f.err = err
		return nil
	}
	var b []byte
	b, f.err = f.d.take(n)
	return bytes.Clone(b)
}

func (f *fieldReader) text() string   { return read[string](f, "a string").Value }
func (f *fieldReader) symbol() Symbol { return read[Symbol](f, "a symbol").Value }
func (f *fieldReader) mapping() Map   { return read[Map](f, "a map").Value }

// symbols reads a field of "multiple" symbols: one of them, or an array.
func (f *fieldReader) symbols() []Symbol {
	switch v := read[any](f, "symbols").Value.(type) {
	case nil:
		return nil
	case Symbol:
		return []Symbol{v}
	case Array:
		if s, ok := Slice[Symbol](v); ok {
			return s
		}
	}
	f.wrong(codeNull, "symbols")
	return nil
}

// any reads a field of any type.
func (f *fieldReader) any() any {
	c, ok := f.next()
	if !ok {
		return nil
	}
	if c == codeDescribed {
		f.d.off--
		v, err := f.d.value(1)
		f.err = err
		return v
	}
	v, err := f.d.data(c, 1)
	f.err = err
	return v
}

// composite starts on a field that is a described list and returns its descriptor; false if it is null.
func (f *fieldReader) composite() (uint64, bool) {
	c, ok := f.next()
	if !ok {
		return 0, false
	}
	if c != codeDescribed {
		f.wrong(c, "a described value")
		return 0, false
	}
	code, err := f.d.descriptor()
	f.err = err
	return code, err == nil
}

// fieldWriter writes the fields of a composite. Every field is written, null
// ones too: some clients read fields by position without asking how many there are.
type fieldWriter struct {
	buf   []byte
	mark  int
	count int
	err   error
}

func compose(dst []byte, descriptor byte) fieldWriter {
	dst, mark := begin(append(dst, byte(codeDescribed), byte(codeSmallUlong), descriptor), codeList8)
	return fieldWriter{buf: dst, mark: mark}
}

func (w *fieldWriter) done() ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	return end(w.buf, w.mark, w.count), nil
}

// appendEmpty appends a composite without fields.
func appendEmpty(dst []byte, descriptor byte) []byte {
	return append(dst, byte(codeDescribed), byte(codeSmallUlong), descriptor, byte(codeList0))
}

func (w *fieldWriter) null() {
	w.count++
	w.buf = append(w.buf, byte(codeNull))
}

func (w *fieldWriter) uint(v uint32) {
	w.count++
	w.buf = appendUint(w.buf, v)
}

func (w *fieldWriter) optUint(v Optional[uint32]) {
	if !v.Set {
		w.null()
		return
	}
	w.uint(v.Value)
}

func (w *fieldWriter) boolean(v bool) {
	w.count++
	w.buf = appendBool(w.buf, v)
}

func (w *fieldWriter) text(v string) {
	w.count++
	w.buf = appendString(w.buf, v)
}

// name writes a symbol, null if it is empty.
func (w *fieldWriter) name(v Symbol) {
	if v == "" {
		w.null()
		return
	}
	w.count++
	w.buf = appendSymbol(w.buf, v)
}

// binary writes null for nil.
func (w *fieldWriter) binary(v []byte) {
	if v == nil {
		w.null()
		return
	}
	w.count++
	w.buf = appendBinary(w.buf, v)
}

// mapping writes null for nil.
func (w *fieldWriter) mapping(m Map) {
	if m == nil {
		w.null()
		return
	}
	w.any(m)
}

func (w *fieldWriter) symbols(s []Symbol) {
	if len(s) == 0 {
		w.null()
		return
	}
	w.any(ArrayOf(s...))
}

func (w *fieldWriter) any(v any) {
	w.count++
	w.keep(Append(w.buf, v))
}

// keep takes over the buffer of an appending function; a failure sticks.
func (w *fieldWriter) keep(buf []byte, err error) {
	if err != nil {
		w.err = err
		return
	}
	w.buf = buf
}

// opt writes an optional field of any scalar type.
func opt[T any](w *fieldWriter, o Optional[T]) {
	if !o.Set {
		w.null()
		return
	}
	w.any(o.Value)
}

// asOptional converts between an optional number and its named type.
func asOptional[To, From ~uint8](o Optional[From]) Optional[To] {
	return Optional[To]{To(o.Value), o.Set}
}

// decodeComposite decodes one described list that fills the input.
func decodeComposite(b []byte, want uint64, fields func(*fieldReader)) error {
	d := decoder{b: b, end: len(b)}
	code, err := d.described()
	if err != nil {
		return err
	}
	if code != want {
		return d.malformed("descriptor 0x%02x where 0x%02x belongs", code, want)
	}
	f := d.fields()
	fields(&f)
	if err := f.done(); err != nil {
		return err
	}
	if d.off < len(b) {
		return d.malformed("%d bytes after the last field", len(b)-d.off)
	}
	return nil
}

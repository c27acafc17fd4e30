package cosmos

// aggregated makes the one result of an aggregate query.
func (s *evaluation) aggregated(all items) page {
	var p page
	totals := make([]total, len(s.aggregates))
	for d := range all(0) {
		p.examined++
		for _, r := range s.rows(d) {
			for i, a := range s.aggregates {
				totals[i].take(eval(a.of, r))
			}
		}
	}
	r := row{}
	for i, a := range s.aggregates {
		r.totals = append(r.totals, totals[i].result(a.name))
	}
	if v, ok := s.project(r); ok {
		p.add(appendValue(nil, v))
	}
	return p
}

// total accumulates one aggregate.
type total struct {
	count      int64
	sum        number
	least      value
	most       value
	notNumbers bool
}

func (t *total) take(v value) {
	if isUndefined(v) {
		return
	}
	if t.count == 0 {
		t.sum, t.least, t.most = integerOf(0), v, v
	}
	t.count++
	if n, ok := v.(number); ok {
		t.sum, _ = sum(t.sum, n).(number)
	} else {
		t.notNumbers = true
	}
	if order(v, t.least) < 0 {
		t.least = v
	}
	if order(v, t.most) > 0 {
		t.most = v
	}
}

func (t *total) result(name string) value {
	switch {
	case name == "COUNT":
		return integerOf(t.count)
	case t.count == 0 && name == "SUM":
		return integerOf(0)
	case t.count == 0:
		return undefined{}
	case name == "MIN":
		return t.least
	case name == "MAX":
		return t.most
	case t.notNumbers:
		return undefined{}
	case name == "SUM":
		return t.sum
	}
	return numberOf(t.sum.f / float64(t.count))
}

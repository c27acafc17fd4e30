package rule

// Correlation matches messages whose properties are equal to all of these.
type Correlation struct {
	System map[string]string // by their names, in the case of systemProperties
	User   map[string]any
}

// Match reports whether every property is there and equal.
func (f Correlation) Match(m Message) (bool, error) {
	for name, want := range f.System {
		got, ok := m.System(name)
		if !ok || !equal(got, want) {
			return false, nil
		}
	}
	for name, want := range f.User {
		got, ok := m.User(name)
		if !ok || missing(got) || !equal(got, want) {
			return false, nil
		}
	}
	return true, nil
}

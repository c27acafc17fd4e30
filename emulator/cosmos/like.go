package cosmos

// evalLike matches % (any text), _ (any character) and [set]; the escape makes
// the next character stand for itself.
func evalLike(e like, r row) value {
	of, ok := eval(e.of, r).(string)
	pattern, ok2 := eval(e.pattern, r).(string)
	if !ok || !ok2 {
		return undefined{}
	}
	if !r.work.spend(len(of) + len(pattern)) {
		return undefined{}
	}
	return likeMatches(r.work, []rune(of), likePattern(pattern, e.escape))
}

// likePart is one element of a LIKE pattern.
type likePart struct {
	many bool            // %
	is   func(rune) bool // nil with many
	cost int             // what it takes to ask that
}

func likePattern(pattern, escape string) []likePart {
	runes := []rune(pattern)
	var parts []likePart
	for i := 0; i < len(runes); i++ {
		c := runes[i]
		switch {
		case escape != "" && string(c) == escape && i+1 < len(runes):
			i++
			parts = append(parts, likePart{is: exactly(runes[i])})
		case c == '%':
			parts = append(parts, likePart{many: true})
		case c == '_':
			parts = append(parts, likePart{is: func(rune) bool { return true }})
		case c == '[':
			end := i + 1
			for end < len(runes) && runes[end] != ']' {
				end++
			}
			if end == len(runes) {
				parts = append(parts, likePart{is: exactly(c)})
				continue
			}
			parts = append(parts, likePart{is: anyOf(runes[i+1 : end]), cost: (end - i) / 16})
			i = end
		default:
			parts = append(parts, likePart{is: exactly(c)})
		}
	}
	return parts
}

func exactly(want rune) func(rune) bool { return func(c rune) bool { return c == want } }

// anyOf is a [set]: characters, ranges like a-f, and ^ in front for all others.
func anyOf(set []rune) func(rune) bool {
	negated := len(set) > 0 && set[0] == '^'
	if negated {
		set = set[1:]
	}
	return func(c rune) bool {
		for i := 0; i < len(set); i++ {
			if i+2 < len(set) && set[i+1] == '-' {
				if set[i] <= c && c <= set[i+2] {
					return !negated
				}
				i += 2
			} else if set[i] == c {
				return !negated
			}
		}
		return negated
	}
}

func likeMatches(w *work, text []rune, parts []likePart) bool {
	t, p := 0, 0
	star, mark := -1, 0 // the last % seen, and where its match ends so far
	for t < len(text) {
		cost := 1
		if p < len(parts) {
			cost += parts[p].cost
		}
		if !w.spend(cost) {
			return false
		}
		switch {
		case p < len(parts) && parts[p].many:
			star, mark = p, t
			p++
		case p < len(parts) && parts[p].is(text[t]):
			t++
			p++
		case star >= 0:
			mark++
			t, p = mark, star+1
		default:
			return false
		}
	}
	for p < len(parts) && parts[p].many {
		p++
	}
	return p == len(parts)
}

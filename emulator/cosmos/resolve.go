package cosmos

import (
	"fmt"
	"slices"
)

// resolve refuses names that no FROM binds, names bound twice, and what a select
// list beside aggregates or GROUP BY may not hold. A subquery sees the names
// around it.
func (p *parser) resolve(s *selection, outer []string) error {
	bound, err := p.resolveFrom(s, slices.Clip(outer))
	if err != nil {
		return err
	}
	switch {
	case s.star && len(s.from) == 0:
		return &syntaxError{0, len(p.text), "SC2040", "'SELECT *' is not valid if FROM clause is omitted."}
	case s.star && len(s.from) > 1:
		return &syntaxError{0, len(p.text), "SC2040", "'SELECT *' is only valid with a single input set."}
	}
	all := []expression{s.where}
	for _, c := range s.columns {
		all = append(all, c.of)
	}
	for _, g := range s.groupBy {
		all = append(all, g.by)
	}
	for _, o := range s.orderBy {
		if err := p.orderable(s, o); err != nil {
			return err
		}
		all = append(all, o.by)
	}
	for _, e := range all {
		if err := p.resolveIn(e, bound); err != nil {
			return err
		}
	}
	return p.resolveGroups(s)
}

// resolveFrom gives the names that FROM binds, behind those around it.
func (p *parser) resolveFrom(s *selection, outer []string) (bound []string, err error) {
	bound = outer
	for _, src := range s.from {
		sees := append(slices.Clip(bound), documentName)
		if src.query != nil {
			err = p.resolve(src.query, sees)
		} else {
			err = p.resolveIn(src.path, sees)
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(bound[len(outer):], src.alias) {
			return nil, &syntaxError{0, len(p.text), codeUnresolved, fmt.Sprintf("The input alias '%s' is specified more than once in the FROM clause.", src.alias)}
		}
		bound = append(slices.Clip(bound), src.alias)
	}
	return bound, nil
}

func (p *parser) resolveIn(e expression, bound []string) (err error) {
	walk(e, func(e expression) bool {
		switch e := e.(type) {
		case subquery:
			if err == nil {
				err = p.resolve(e.of, bound)
			}
		case variable:
			if err == nil && !slices.Contains(bound, e.name) {
				t := p.used[e.name]
				err = &syntaxError{t.start, t.end, codeUnresolved, fmt.Sprintf("Identifier '%s' could not be resolved.", e.name)}
			}
		}
		return err == nil
	})
	return err
}

// orderable refuses an order that no index of documents gives.
func (p *parser) orderable(s *selection, o ordering) error {
	start, end := p.tokens[o.at.start].start, p.tokens[o.at.end-1].end
	alias, _, _ := pathOf(o.by)
	i := slices.IndexFunc(s.from, func(src source) bool { return src.alias == alias })
	if i > 0 || i == 0 && (s.from[0].iterate || s.from[0].query != nil) {
		return &syntaxError{start, end, "SC2102", "Order-by over correlated collections is not supported."}
	}
	if len(s.aggregates) > 0 {
		return &syntaxError{start, end, codeUnsupported, fmt.Sprintf("This emulator does not support ORDER BY together with an aggregate near '%s'.", p.text[start:end])}
	}
	return nil
}

// resolveGroups holds the select list to what is one value for a whole group.
func (p *parser) resolveGroups(s *selection) error {
	if len(s.aggregates) == 0 && len(s.groupBy) == 0 {
		return nil
	}
	if s.star {
		return &syntaxError{0, len(p.text), "SC2103", "'SELECT *' is not valid together with GROUP BY."}
	}
	for _, c := range s.columns {
		if err := p.onlyGroups(s, c.of); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) onlyGroups(s *selection, e expression) (stray error) {
	walk(e, func(e expression) bool {
		if _, ok := e.(*aggregate); ok || slices.ContainsFunc(s.groupBy, func(g grouping) bool { return same(g.by, e) }) {
			return false
		}
		switch e := e.(type) {
		case variable:
			t := p.used[e.name]
			stray = &syntaxError{t.start, t.end, "SC2103", fmt.Sprintf("Property reference '%s' is invalid in the select list because it is not contained in either an aggregate function or the GROUP BY clause.", e.name)}
		case subquery:
			stray = &syntaxError{0, len(p.text), codeUnsupported, "This emulator does not support a subquery beside an aggregate or GROUP BY."}
		}
		return stray == nil
	})
	return stray
}

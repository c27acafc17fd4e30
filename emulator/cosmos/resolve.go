package cosmos

import "fmt"

// resolve refuses names that no FROM binds, names bound twice, and what the
// select list of an aggregate query may not hold.
func (p *parser) resolve(s *selection) error {
	bound := map[string]bool{}
	for i, src := range s.from {
		names := bound
		if i == 0 {
			names = map[string]bool{documentName: true}
		}
		if err := p.resolveIn(src.path, names); err != nil {
			return err
		}
		if bound[src.alias] {
			return &syntaxError{0, len(p.text), codeUnresolved, fmt.Sprintf("The input alias '%s' is specified more than once in the FROM clause.", src.alias)}
		}
		bound[src.alias] = true
	}
	if s.star && len(s.from) > 1 {
		return &syntaxError{0, len(p.text), "SC2040", "'SELECT *' is only valid with a single input set."}
	}
	all := []expression{s.where}
	for _, c := range s.columns {
		all = append(all, c.of)
	}
	for _, o := range s.orderBy {
		all = append(all, o.by)
	}
	for _, e := range all {
		if err := p.resolveIn(e, bound); err != nil {
			return err
		}
	}
	if len(s.aggregates) == 0 {
		return nil
	}
	if len(s.orderBy) > 0 {
		return p.unsupported("ORDER BY together with an aggregate")
	}
	for _, c := range s.columns {
		if err := p.onlyAggregates(c.of); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) resolveIn(e expression, bound map[string]bool) error {
	var unresolved error
	walk(e, func(e expression) bool {
		if v, ok := e.(variable); ok && !bound[v.name] && unresolved == nil {
			unresolved = &syntaxError{0, len(p.text), codeUnresolved, fmt.Sprintf("Identifier '%s' could not be resolved.", v.name)}
		}
		return unresolved == nil
	})
	return unresolved
}

func (p *parser) onlyAggregates(e expression) error {
	var stray error
	walk(e, func(e expression) bool {
		if _, ok := e.(*aggregate); ok {
			return false
		}
		if v, ok := e.(variable); ok && stray == nil {
			stray = &syntaxError{0, len(p.text), "SC2103", fmt.Sprintf("Property reference '%s' is invalid in the select list because it is not contained in an aggregate function.", v.name)}
		}
		return stray == nil
	})
	return stray
}

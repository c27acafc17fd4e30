package cosmos

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The plan of a query across partitions, for clients with a query engine of their
// own: what each partition is to be asked, and what the client has to do with the
// answers. The queries it asks for are made of the parts of the given one.

// servePlan answers a request that has the header x-ms-cosmos-is-query-plan-request.
func (s *Server) servePlan(c *call, spec querySpec) reply {
	definition, f := s.keyDefinition(c)
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	key, f := definition.parse(c.header("X-Ms-Documentdb-Partitionkey"))
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	plan, f := spec.plan(definition, key)
	if f == nil {
		f = spec.selection.understood(c.header("X-Ms-Cosmos-Supported-Query-Features"))
	}
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	return s.record(c, reply{status: http.StatusOK, body: appendValue(nil, plan)})
}

// keyDefinition gives that of the container as it is now.
func (s *Server) keyDefinition(c *call) (keyDefinition, *failure) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	k, f := s.store.find(c.target)
	if f != nil {
		return keyDefinition{}, f
	}
	return k.settings.key, nil
}

// planOrNone is the plan that stands beside the gateway's refusal. Without members
// it tells a client to ask for it, and so to learn why there is none.
func (q querySpec) planOrNone(d keyDefinition) *object {
	if plan, f := q.plan(d, nil); f == nil {
		return plan
	}
	return &object{}
}

// planner makes parts of a plan.
type planner struct {
	*selection
	text   string
	tokens []token
}

// plan makes the plan of a query, of one confined by a header if key is not nil.
func (q querySpec) plan(d keyDefinition, key partitionKey) (*object, *failure) {
	tokens, err := lex(q.text)
	if err != nil {
		return nil, queryFailure(err)
	}
	p := planner{q.selection, q.text, tokens}
	if f := p.plannable(); f != nil {
		return nil, f
	}
	info := &object{}
	info.set("distinctType", p.distinctType())
	info.set("top", countOrNull(p.top))
	info.set("offset", countOrNull(p.offset))
	info.set("limit", value(nil))
	if p.offset >= 0 {
		info.set("limit", integerOf(int64(p.limit)))
	}
	p.addOrder(info)
	p.addGroups(info)
	info.set("rewrittenQuery", p.rewritten())
	info.set("hasSelectValue", p.value)
	info.set("dCountInfo", value(nil))
	info.set("hasNonStreamingOrderBy", false)
	plan := &object{}
	plan.set("partitionedQueryExecutionInfoVersion", integerOf(2))
	plan.set("queryInfo", info)
	plan.set("queryRanges", []any{q.selection.effectiveRange(d, key)})
	return plan, nil
}

// plannable refuses what the client's engine could not put together.
func (p planner) plannable() *failure {
	hidden := len(p.from) > 0 && strings.HasPrefix(p.from[0].alias, "\x00")
	ordered := p.distinct && len(p.orderBy) > 0
	grouped := len(p.aggregates) > 0 || len(p.groupBy) > 0
	switch {
	case ordered && p.distinctType() != "Ordered":
		return badRequest("A query across partitions with DISTINCT has to be ordered by exactly what it selects.")
	case p.distinct && grouped:
		return badRequest("A query across partitions cannot have both DISTINCT and aggregates or GROUP BY.")
	case hidden && len(p.orderBy) > 0:
		return badRequest("A query across partitions with ORDER BY needs a name for the subquery in FROM.")
	}
	for _, c := range p.columns {
		_, is := c.of.(*aggregate)
		has := false
		walk(c.of, func(e expression) bool {
			_, aggregated := e.(*aggregate)
			has = has || aggregated
			return !has
		})
		if has && !is {
			return badRequest("Compositions of aggregates and other expressions are not allowed.")
		}
	}
	return nil
}

// distinctType is Ordered if equal results come one after the other.
func (p planner) distinctType() string {
	switch {
	case !p.distinct:
		return "None"
	case len(p.orderBy) == 0 || p.star || len(p.columns) != len(p.orderBy):
		return "Unordered"
	}
	for _, c := range p.columns {
		if !slices.ContainsFunc(p.orderBy, func(o ordering) bool { return same(o.by, c.of) }) {
			return "Unordered"
		}
	}
	return "Ordered"
}

func countOrNull(n int) value {
	if n < 0 {
		return nil
	}
	return integerOf(int64(n))
}

func (p planner) addOrder(info *object) {
	directions, expressions := []any{}, []any{}
	for _, o := range p.orderBy {
		direction := "Ascending"
		if o.descending {
			direction = "Descending"
		}
		directions = append(directions, direction)
		expressions = append(expressions, p.of(o.at))
	}
	info.set("orderBy", directions)
	info.set("orderByExpressions", expressions)
}

// aggregateTypes are the names that plans have for the aggregates.
var aggregateTypes = map[string]string{
	"COUNT": "Count", "COUNTIF": "CountIf", "SUM": "Sum", "MIN": "Min", "MAX": "Max", "AVG": "Average",
}

// addGroups says how results are to be grouped: with VALUE one aggregate, without
// it one for each column that is none of the group's own.
func (p planner) addGroups(info *object) {
	expressions, aliases, aggregates, types := []any{}, []any{}, []any{}, &object{}
	for _, g := range p.groupBy {
		expressions = append(expressions, p.of(g.at))
	}
	if len(p.aggregates) > 0 || len(p.groupBy) > 0 {
		for _, c := range p.columns {
			a, is := c.of.(*aggregate)
			switch {
			case p.value && is:
				aggregates = append(aggregates, aggregateTypes[a.name])
			case p.value:
			case is:
				aliases = append(aliases, c.name)
				types.set(c.name, aggregateTypes[a.name])
			default:
				aliases = append(aliases, c.name)
				types.set(c.name, nil)
			}
		}
	}
	info.set("groupByExpressions", expressions)
	info.set("groupByAliases", aliases)
	info.set("aggregates", aggregates)
	info.set("groupByAliasToAggregateType", types)
}

// orderFilter is what clients replace by where an order goes on, or by true.
const orderFilter = "{documentdb-formattableorderbyquery-filter}"

// rewritten is the query that each partition is asked, "" if it is the given one.
func (p planner) rewritten() string {
	grouped := len(p.aggregates) > 0 || len(p.groupBy) > 0
	ordered := len(p.orderBy) > 0
	if !grouped && !ordered && !p.distinct && p.top < 0 && p.offset < 0 {
		return ""
	}
	var q strings.Builder
	q.WriteString("SELECT ")
	if p.distinct && !ordered { // what has an order, the client makes distinct
		q.WriteString("DISTINCT ")
	}
	cut := !grouped && (!p.distinct || !ordered) // the first results are among the first of each partition
	if p.top >= 0 && cut {
		fmt.Fprintf(&q, "TOP %d ", p.top)
	}
	switch {
	case grouped:
		q.WriteString(p.groupedList())
	case ordered:
		q.WriteString(p.orderedList())
	default:
		q.WriteString(p.list())
	}
	if len(p.from) > 0 {
		q.WriteString("\nFROM " + p.of(p.fromAt))
	}
	q.WriteString(p.filter(ordered))
	if len(p.groupBy) > 0 {
		q.WriteString("\nGROUP BY " + commas(p.groupBy, func(g grouping) string { return p.of(g.at) }))
	}
	if ordered {
		q.WriteString("\nORDER BY " + commas(p.orderBy, func(o ordering) string {
			if o.descending {
				return p.of(o.at) + " DESC"
			}
			return p.of(o.at) + " ASC"
		}))
	}
	if p.offset >= 0 && cut {
		fmt.Fprintf(&q, "\nOFFSET 0 LIMIT %d", p.offset+p.limit)
	}
	return q.String()
}

func (p planner) filter(ordered bool) string {
	var all []string
	if own := p.of(p.whereAt); own != "" {
		all = append(all, "("+own+")")
	}
	if ordered && p.value { // beside its keys, a result that is none would be one
		all = append(all, "(IS_DEFINED("+p.of(p.columns[0].at)+"))")
	}
	if ordered {
		all = append(all, "("+orderFilter+")")
	}
	if len(all) == 0 {
		return ""
	}
	return "\nWHERE " + strings.Join(all, " AND ")
}

// list is the select list as it is, each column under its name.
func (p planner) list() string {
	switch {
	case p.star:
		return "*"
	case p.value:
		return "VALUE " + p.of(p.columns[0].at)
	}
	return "VALUE " + p.payload(func(c column) string { return p.of(c.at) })
}

// payload makes an object of the columns; with VALUE it is what they are.
func (p planner) payload(of func(column) string) string {
	if p.value {
		return of(p.columns[0])
	}
	return "{" + commas(p.columns, func(c column) string { return textOf(c.name) + ": " + of(c) }) + "}"
}

// orderedList puts beside each result what it is ordered by.
func (p planner) orderedList() string {
	payload := p.from[0].alias
	if !p.star {
		payload = p.payload(func(c column) string { return p.of(c.at) })
	}
	keys := commas(p.orderBy, func(o ordering) string { return `{"item": ` + p.of(o.at) + "}" })
	return p.from[0].alias + "._rid, [" + keys + "] AS orderByItems, " + payload + " AS payload"
}

// groupedList asks for aggregates in a form in which those of several partitions
// can be put together.
func (p planner) groupedList() string {
	payload := p.payload(func(c column) string {
		a, is := c.of.(*aggregate)
		switch {
		case is && p.value:
			return "[" + p.partial(a) + "]"
		case is:
			return p.partial(a)
		}
		return p.of(c.at)
	})
	if len(p.groupBy) == 0 {
		if p.value {
			return "VALUE " + payload
		}
		return payload + " AS payload"
	}
	keys := commas(p.groupBy, func(g grouping) string { return `{"item": ` + p.of(g.at) + "}" })
	return "[" + keys + "] AS groupByItems, " + payload + " AS payload"
}

func (p planner) partial(a *aggregate) string {
	of := p.of(a.at)
	whole := a.name + "(" + of + ")"
	switch a.name {
	case "AVG":
		return `{"item": {"sum": SUM(` + of + `), "count": COUNT(` + of + `)}}`
	case "MIN", "MAX":
		return `{"item": ` + whole + `, "item2": {` + strconv.Quote(strings.ToLower(a.name)) + ": " + whole + `, "count": COUNT(` + of + ")}}"
	}
	return `{"item": ` + whole + "}"
}

// of is a part of the query's text, without its comments.
func (p planner) of(at span) string {
	var b strings.Builder
	for i := at.start; i < at.end; i++ {
		if i > at.start && p.tokens[i].start > p.tokens[i-1].end {
			b.WriteByte(' ')
		}
		b.WriteString(p.text[p.tokens[i].start:p.tokens[i].end])
	}
	return b.String()
}

func commas[T any](list []T, text func(T) string) string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = text(one)
	}
	return strings.Join(texts, ", ")
}

// understood refuses a plan that the client says it does not understand.
func (s *selection) understood(features string) *failure {
	known := map[string]bool{}
	for name := range strings.SplitSeq(features, ",") {
		known[strings.TrimSpace(name)] = true
	}
	for _, need := range []struct {
		feature string
		needed  bool
	}{
		{"OrderBy", len(s.orderBy) > 0},
		{"MultipleOrderBy", len(s.orderBy) > 1},
		{"Top", s.top >= 0},
		{"OffsetAndLimit", s.offset >= 0},
		{"Distinct", s.distinct},
		{"GroupBy", len(s.groupBy) > 0},
		{"Aggregate", len(s.aggregates) > 0},
		{"NonValueAggregate", len(s.aggregates) > 0 && !s.value},
		{"MultipleAggregates", len(s.aggregates) > 1},
		{"CountIf", slices.ContainsFunc(s.aggregates, func(a *aggregate) bool { return a.name == "COUNTIF" })},
	} {
		if need.needed && !known[need.feature] {
			return badRequest("Query contains 1 or more unsupported features. Upgrade your SDK to a version that does support the requested features:\r\n"+
				"Query contained %s, which the calling client does not support.", need.feature)
		}
	}
	return nil
}

// effectiveRange is where the results of a query can be: at one logical partition,
// below the first components of a hierarchical key, or anywhere.
func (s *selection) effectiveRange(d keyDefinition, key partitionKey) value {
	low, high, point := firstEffective, lastEffective, false
	if key == nil {
		key = s.demandedKey(d)
		if end := slices.IndexFunc(key, isUndefined); end >= 0 {
			key = key[:end]
		}
	}
	if text, ok := d.effective(key); ok && len(key) > 0 {
		low, high, point = text, text, true
		if len(key) < len(d.paths) {
			high, point = text+lastEffective, false
		}
	}
	o := &object{}
	o.set("min", low)
	o.set("max", high)
	o.set("isMinInclusive", true)
	o.set("isMaxInclusive", point)
	return o
}

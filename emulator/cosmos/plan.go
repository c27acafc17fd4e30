package cosmos

import (
	"net/http"
	"slices"
)

// What the gateway serves. A query that is confined to one logical partition is
// served whole. One that is not gets filters and projections only: the rest
// (order, aggregates, …) is for a client with a query engine of its own, to which
// the refusal gives the plan, see queryplan.go. The Go SDK has none.

// gatewayRefusal is the service's text; clients and people search for it.
const gatewayRefusal = "The provided cross partition query can not be directly served by the gateway. " +
	"This is a first chance (internal) exception that all newer clients will know how to handle gracefully. " +
	"This exception is traced, but unless you see it bubble up as an exception (which only happens on older SDK clients), then you can safely ignore this message."

const crossPartitionDisabled = "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, " +
	"specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception."

// spans reports whether a query needs more than filters and projections.
func (s *selection) spans() bool {
	return len(s.orderBy) > 0 || len(s.aggregates) > 0 || len(s.groupBy) > 0 || s.distinct || s.top >= 0 || s.offset >= 0
}

// gateway refuses what the gateway would not serve.
func (s *selection) gateway(confined, enabled bool) *failure {
	switch {
	case confined:
		return nil
	case !enabled:
		return badRequest("%s", crossPartitionDisabled)
	case s.spans():
		return &failure{http.StatusBadRequest, crossPartitionQuery, gatewayRefusal}
	}
	return nil
}

// confinement finds the one logical partition that the filter leaves, if it
// demands a value of every path of the partition key.
func (s *selection) confinement(key keyDefinition) partitionKey {
	if found := s.demandedKey(key); !slices.ContainsFunc(found, isUndefined) {
		return found
	}
	return nil
}

// demandedKey gives what the filter demands of each path of the partition key.
func (s *selection) demandedKey(key keyDefinition) partitionKey {
	found := make(partitionKey, len(key.paths))
	for i := range found {
		found[i] = undefined{}
	}
	if s.where == nil || len(s.from) == 0 || s.from[0].path != nil || s.from[0].query != nil {
		return found
	}
	demands(s.where, func(e expression, v value) {
		alias, path, ok := pathOf(e)
		if !ok || alias != s.from[0].alias {
			return
		}
		for i, want := range key.paths {
			if slices.Equal(path, want) {
				found[i] = v
			}
		}
	})
	return found
}

// demands calls with each expression that must equal a literal for the filter to
// hold. Two different demands on one path leave nothing, whichever is taken.
func demands(where expression, demand func(e expression, v value)) {
	switch e := where.(type) {
	case infix:
		switch e.operator {
		case "AND":
			demands(e.left, demand)
			demands(e.right, demand)
		case "=":
			if l, ok := e.right.(literal); ok && isPrimitive(l.v) {
				demand(e.left, l.v)
			}
			if l, ok := e.left.(literal); ok && isPrimitive(l.v) {
				demand(e.right, l.v)
			}
		}
	case membership:
		if l, ok := e.list[0].(literal); ok && len(e.list) == 1 && isPrimitive(l.v) {
			demand(e.of, l.v)
		}
	case invocation:
		if e.name == "IS_NULL" {
			demand(e.arguments[0], nil)
		}
	}
}

// indexed refuses an order that the container's index does not give.
func (s *selection) indexed(set settings) *failure {
	var keys []compositePath
	for _, o := range s.orderBy {
		_, path, _ := pathOf(o.by)
		if _, above, ok := pathOf(s.from[0].path); ok {
			path = append(above, path...)
		}
		if !set.indexes(path) {
			return badRequest("The index path corresponding to the specified order-by item is excluded.")
		}
		keys = append(keys, compositePath{joinPath(path), o.descending})
	}
	if len(keys) < 2 {
		return nil
	}
	for _, index := range set.composites {
		if fits(keys, index, false) || fits(keys, index, true) {
			return nil
		}
	}
	return badRequest("The order by query does not have a corresponding composite index that it can be served from.")
}

// fits compares an order with a composite index, which also serves its reverse.
func fits(keys, index []compositePath, reversed bool) bool {
	return slices.EqualFunc(keys, index, func(k, i compositePath) bool {
		path, ok := parsePath(i.path)
		return ok && k.path == joinPath(path) && k.descending == (i.descending != reversed)
	})
}

func joinPath(path []string) string {
	text := ""
	for _, name := range path {
		text += "/" + string(appendText(nil, name))
	}
	return text
}

package cosmos

import (
	"net/http"
	"slices"
	"strings"
)

// settings are what of a container's definition has consequences. They are
// immutable: a replaced definition brings new ones.
type settings struct {
	key        keyDefinition
	ttl        int64 // 0: items do not expire; -1: those with a ttl of their own do
	uniqueKeys [][][]string
	unindexed  bool
	excluded   []indexPath
	included   []indexPath
	composites [][]compositePath
}

// indexPath is a path of an indexing policy: of everything below it, or with
// exact of the value there alone.
type indexPath struct {
	steps []string
	exact bool
}

type compositePath struct {
	path       string
	descending bool
}

// expired tells by the hub's clock. A container without a default time to live
// ignores those of its items.
func (s settings) expired(d *document, now clock) bool {
	if s.ttl == 0 || !now.expiry {
		return false
	}
	ttl := d.ttl
	if ttl == 0 || !now.own || ttl < 0 && !now.never {
		ttl = s.ttl
	}
	return ttl > 0 && now.seconds >= d.ts+ttl
}

// readSettings checks a container's definition.
func readSettings(body *object) (settings, *failure) {
	var s settings
	var f *failure
	if s.key, f = readKeyDefinition(body); f != nil {
		return s, f
	}
	if v, ok := body.get("defaultTtl"); ok && v != nil {
		if !validTTL(v) {
			return s, badRequest("The input ttl '%s' is invalid. Ensure to provide a nonzero positive integer less than or equal to '2147483647', or -1.", textOf(v))
		}
		s.ttl, _ = v.(number).integer()
	}
	if s.uniqueKeys, f = readUniqueKeys(body); f != nil {
		return s, f
	}
	if f := s.readIndexing(body); f != nil {
		return s, f
	}
	return s, nil
}

func readKeyDefinition(body *object) (keyDefinition, *failure) {
	v, _ := body.get("partitionKey")
	definition, ok := v.(*object)
	if !ok {
		return keyDefinition{}, badRequest("The partition key definition is missing: this container needs partitionKey with paths and kind.")
	}
	paths, _ := definition.get("paths")
	list, _ := paths.([]any)
	// Clients that do not know of kinds, the older ones for JavaScript among them, send
	// none, and their containers have always been hashed.
	if kind, ok := definition.get("kind"); !ok || kind == nil {
		definition.set("kind", "Hash")
	}
	kind := definition.text("kind")
	switch {
	case kind != "Hash" && kind != "MultiHash":
		return keyDefinition{}, badRequest("The partition key kind %q is neither Hash nor MultiHash.", kind)
	case kind == "Hash" && len(list) != 1:
		return keyDefinition{}, badRequest("A partition key of kind Hash has exactly one path, not %d.", len(list))
	case len(list) < 1 || len(list) > 3:
		return keyDefinition{}, badRequest("A partition key of kind MultiHash has one to three paths, not %d.", len(list))
	}
	key := keyDefinition{version: 1}
	if v, ok := definition.get("version"); ok {
		n, _ := wholeNumber(v)
		if n != 1 && n != 2 {
			return key, badRequest("The partition key version %s is neither 1 nor 2.", textOf(v))
		}
		key.version = n
	}
	for _, p := range list {
		text, _ := p.(string)
		path, ok := parsePath(text)
		if !ok || slices.Contains(systemProperties, path[0]) {
			return key, badRequest("The partition key path %s is not one of names behind slashes.", textOf(p))
		}
		key.paths = append(key.paths, path)
	}
	return key, nil
}

func readUniqueKeys(body *object) ([][][]string, *failure) {
	v, _ := body.get("uniqueKeyPolicy")
	policy, ok := v.(*object)
	if !ok {
		return nil, nil
	}
	list, _ := policy.get("uniqueKeys")
	keys, _ := list.([]any)
	var all [][][]string
	for _, k := range keys {
		one, _ := k.(*object)
		if one == nil {
			return nil, badRequest("A unique key is %s, want an object with paths.", kindName(k))
		}
		v, _ := one.get("paths")
		texts, _ := v.([]any)
		var paths [][]string
		for _, p := range texts {
			text, _ := p.(string)
			path, ok := parsePath(text)
			if !ok {
				return nil, badRequest("The unique key path %s is not one of names behind slashes.", textOf(p))
			}
			paths = append(paths, path)
		}
		if len(paths) == 0 {
			return nil, badRequest("A unique key has no paths.")
		}
		all = append(all, paths)
	}
	return all, nil
}

func (s *settings) readIndexing(body *object) *failure {
	v, _ := body.get("indexingPolicy")
	policy, ok := v.(*object)
	if !ok {
		return nil
	}
	switch mode := strings.ToLower(policy.text("indexingMode")); mode {
	case "", "consistent":
	case "none":
		s.unindexed = true
	default:
		return badRequest("The indexing mode %q is neither consistent nor none.", mode)
	}
	var f *failure
	if s.included, f = readIndexPaths(policy, "includedPaths"); f != nil {
		return f
	}
	if s.excluded, f = readIndexPaths(policy, "excludedPaths"); f != nil {
		return f
	}
	composites, _ := policy.get("compositeIndexes")
	list, _ := composites.([]any)
	for _, v := range list {
		entries, _ := v.([]any)
		var one []compositePath
		for _, e := range entries {
			o, ok := e.(*object)
			if !ok {
				return badRequest("A composite index holds %s, want objects with path and order.", kindName(e))
			}
			one = append(one, compositePath{o.text("path"), strings.EqualFold(o.text("order"), "descending")})
		}
		s.composites = append(s.composites, one)
	}
	return nil
}

func readIndexPaths(policy *object, name string) ([]indexPath, *failure) {
	v, _ := policy.get(name)
	list, _ := v.([]any)
	var paths []indexPath
	for _, e := range list {
		o, ok := e.(*object)
		if !ok {
			return nil, badRequest("%s of the indexing policy holds %s, want objects with path.", name, kindName(e))
		}
		text := o.text("path")
		var p indexPath
		switch {
		case strings.HasSuffix(text, "/*"):
			text = strings.TrimSuffix(text, "/*")
		case strings.HasSuffix(text, "/?"):
			text = strings.TrimSuffix(text, "/?")
			p.exact = true
		default:
			return nil, badRequest("The indexing path %q could not be accepted: it must end in /? or /*.", text)
		}
		if text != "" {
			if p.steps, ok = parsePath(text); !ok {
				return nil, badRequest("The indexing path %q could not be accepted.", text)
			}
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// indexes reports whether the value at a path is indexed: the most precise path
// of the policy decides.
func (s settings) indexes(path []string) bool {
	if s.unindexed {
		return false
	}
	if len(s.included) == 0 && len(s.excluded) == 0 {
		return true
	}
	return precision(s.included, path) > precision(s.excluded, path)
}

// precision is the length of the longest policy path that covers a path, -1 if
// none does; an exact one is more precise than one of the same length with *.
func precision(policy []indexPath, path []string) int {
	best := -1
	for _, p := range policy {
		if p.exact {
			if slices.Equal(p.steps, path) {
				best = max(best, 2*len(p.steps)+1)
			}
		} else if len(p.steps) <= len(path) && slices.Equal(p.steps, path[:len(p.steps)]) {
			best = max(best, 2*len(p.steps))
		}
	}
	return best
}

// replaceable refuses what a container's definition cannot change to.
func (s settings) replaceable(next settings) *failure {
	same := slices.EqualFunc(s.key.paths, next.key.paths, slices.Equal[[]string]) && s.key.version == next.key.version
	if !same {
		return badRequest("Partition key paths, kind and version of a container cannot be changed.")
	}
	sameKeys := slices.EqualFunc(s.uniqueKeys, next.uniqueKeys, func(a, b [][]string) bool {
		return slices.EqualFunc(a, b, slices.Equal[[]string])
	})
	if !sameKeys {
		return badRequest("The unique keys of a container cannot be changed.")
	}
	return nil
}

// validName checks the id of a database or container.
func validName(body *object) (string, *failure) {
	id := body.text("id")
	switch {
	case id == "":
		return "", badRequest("The id is missing or empty.")
	case len(id) > 255:
		return "", badRequest("The id is %d bytes long, want at most 255.", len(id))
	case strings.ContainsAny(id, `/\?#`) || strings.HasSuffix(id, " "):
		return "", badRequest(`The id %q must not hold any of / \ ? # nor end in a blank.`, id)
	}
	return id, nil
}

// notFound words the absence of a resource that a request is about.
func notFound() *failure {
	return refuse(http.StatusNotFound, "Resource Not Found. Entity with the specified id does not exist in the system.")
}

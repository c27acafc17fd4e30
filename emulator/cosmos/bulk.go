package cosmos

import "net/http"

// serveBulk applies the operations of a batch that is not atomic: each by itself,
// in its own logical partition, in their order. One that fails has changed
// nothing; those behind it are applied if the request says to go on.
func (s *Server) serveBulk(c *call) reply {
	operations, f := s.batchOf(c)
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	k, missing := s.store.find(c.target)
	if f == nil {
		f = missing
	}
	if f != nil {
		return s.record(c, reply{failure: f})
	}
	if ranged := c.header("X-Ms-Documentdb-Partitionkeyrangeid"); ranged != "" && ranged != onlyRange {
		return s.record(c, reply{failure: goneRange(ranged), session: k.sessionToken()})
	}
	rep := reply{status: http.StatusOK}
	goesOn := isTrue(c.header("X-Ms-Cosmos-Batch-Continue-On-Error"))
	outcomes := make([]outcome, len(operations))
	results := make([]any, len(operations))
	for i, op := range operations {
		if rep.status != http.StatusOK && !goesOn {
			outcomes[i] = outcome{status: http.StatusFailedDependency}
		} else {
			outcomes[i] = s.applyAlone(k, op)
		}
		if outcomes[i].failure != nil {
			rep.status = http.StatusMultiStatus
		}
		rep.charge += outcomes[i].charge
		results[i] = outcomes[i].result(op, c.minimal())
	}
	rep.charge = cents(rep.charge)
	rep.session = k.sessionToken()
	rep.told = batchEvent(operations, outcomes, true)
	rep.body = appendValue(nil, results)
	return s.record(c, rep)
}

// applyAlone applies one operation to the logical partition that it names.
func (s *Server) applyAlone(k *container, op operation) outcome {
	key, f := k.settings.key.parse(op.partition)
	if f == nil && key == nil {
		f = badRequest("PartitionKey value must be supplied for this operation.")
	}
	if f != nil {
		return outcome{status: f.status, failure: f, charge: leastCharge}
	}
	o := s.overlay(k, key, op.kind)
	out := o.apply(op)
	if out.failure == nil {
		o.commit()
	}
	return out
}

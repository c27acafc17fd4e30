package disk

// commit is the one goroutine that writes.
func (s *Store) commit() {
	defer close(s.over)
	for closing := false; !closing; {
		select {
		case <-s.wake:
		case <-s.quit:
			closing = true
		}
		g := s.take()
		if g == nil {
			continue
		}
		if len(g.records) > 0 {
			if err := s.log.write(g.records); err != nil {
				s.Fail(err)
				return
			}
		}
		s.done(g)
	}
}

// take takes what has gathered, between two operations.
func (s *Store) take() *group {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.pending
	if len(g.records) == 0 && len(g.answers) == 0 {
		return nil
	}
	s.pending = group{records: s.spare}
	s.spare = nil
	s.writing = &g
	s.inFlight++
	s.room.Broadcast()
	return &g
}

// done hands the answers on, in order.
func (s *Store) done(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = nil
	if cap(g.records) <= maxSpare {
		s.spare = g.records[:0]
	}
	s.answers = append(s.answers, g.answers...)
	s.written++
	signal(s.tell)
}

// answer is the goroutine that calls answers, while the next group is written.
func (s *Store) answer() {
	for {
		select {
		case <-s.tell:
			s.answerAll()
		case <-s.over:
			s.answerAll()
			return
		}
	}
}

func (s *Store) answerAll() {
	s.mu.Lock()
	answers, groups := s.answers, s.written
	s.answers, s.written = nil, 0
	s.mu.Unlock()
	for _, answer := range answers {
		answer()
	}
	s.mu.Lock()
	s.inFlight -= groups
	s.mu.Unlock()
}

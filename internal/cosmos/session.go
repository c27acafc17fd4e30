package cosmos

import "sync"

// sessionsKept bounds the memory of sessions. What falls out is read at the
// account's mercy, as everything is in the process next door.
const sessionsKept = 1024

// sessions remembers, for the executions that this process met last, the session
// token of the last answer about each. The zero value is empty.
type sessions struct {
	mu     sync.Mutex
	tokens map[string]string
	oldest [sessionsKept]string // a ring of the keys of tokens
	next   int
}

func (s *sessions) of(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[id]
}

func (s *sessions) remember(id, token string) {
	if token == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = make(map[string]string)
	}
	if _, known := s.tokens[id]; !known {
		delete(s.tokens, s.oldest[s.next])
		s.oldest[s.next] = id
		s.next = (s.next + 1) % sessionsKept
	}
	s.tokens[id] = token
}

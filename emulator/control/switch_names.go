package control

// knownSwitch is a rule of an emulator that can be turned off.
type knownSwitch struct {
	off       string // what is so while it is off
	perEntity bool   // may also be turned off for one entity: "name/entity"
}

// knownSwitches are all the switches there are. Each names a rule and is asked for at the one place where the rule is
// decided, or at the few.
var knownSwitches = map[string]knownSwitch{
	// Messages and locks in queues.
	"servicebus.ttl":                   {off: "messages that arrive never expire"},
	"servicebus.ttl-ceiling":           {off: "a message may live longer than its entity allows"},
	"servicebus.locked-unexpired":      {off: "a message whose time to live ends while it is locked is expired at its settlement"},
	"servicebus.deferred-unexpired":    {off: "deferred messages expire"},
	"servicebus.dead-letter-unexpired": {off: "dead letters expire"},
	"servicebus.dead-letter-expired":   {off: "expired messages vanish where they should be dead letters"},
	"servicebus.dead-letter-reason":    {off: "what the broker dead-letters by itself carries no reason and no description"},
	"servicebus.dead-letter-count":     {off: "dead letters begin to count anew"},
	"servicebus.dead-letter-uncounted": {off: "deliveries that fail in a dead letter queue are counted"},
	"servicebus.dead-letter-forward":   {off: "dead letters are not forwarded"},
	"servicebus.dead-letter-accepted":  {off: "who dead-letters a message is answered rejected"},
	"servicebus.max-delivery":          {off: "a message comes back however often it has failed"},
	"servicebus.delivery-count":        {off: "delivery counts do not rise, so nothing is dead-lettered for them"},
	"servicebus.count-from-zero":       {off: "a delivery counts itself already when it is made"},
	"servicebus.abandon-counted":       {off: "abandoning does not count a delivery"},
	"servicebus.release-uncounted":     {off: "releasing counts a delivery"},
	"servicebus.header-limit":          {off: "properties of any size are taken, and may grow to any size"},
	"servicebus.modified-properties":   {off: "properties that a settlement modifies stay as they were"},
	"servicebus.receivers-in-turn":     {off: "of waiting receivers the last is served first"},
	"servicebus.receive-and-delete":    {off: "what is received without a lock stays in the queue"},
	"servicebus.old-place":             {off: "what comes back to a queue without sessions stands behind all others"},
	"servicebus.deferral":              {off: "a deferred message is available again at once"},
	"servicebus.deferred-lock-token":   {off: "deferred messages come without their lock's token"},
	"servicebus.lock-expiry":           {off: "locks of messages and sessions never expire"},
	"servicebus.lock-expiry-counted":   {off: "the expiry of a lock does not count a delivery"},
	"servicebus.lock-renewal":          {off: "renewing a lock is answered and extends nothing"},
	"servicebus.lock-lost":             {off: "settling with a stale lock is answered as done and changes nothing"},
	"servicebus.locks-survive":         {off: "locks end with the link they were given out on"},
	"servicebus.duplicate-detection":   {off: "a message with a known MessageID is taken again"},
	"servicebus.scheduled-duplicates":  {off: "scheduled messages are not looked at for duplicates"},
	"servicebus.schedule":              {off: "scheduled messages are available at once"},
	"servicebus.activation-number":     {off: "a scheduled message keeps its number and enqueued time, in a queue without sessions"},
	"servicebus.cancel-scheduled":      {off: "cancelling a scheduled message is answered and cancels nothing"},
	"servicebus.session-lock":          {off: "a session that is locked is given to the next who names it"},
	"servicebus.session-freed":         {off: "a session stays locked when its receiver has gone"},
	"servicebus.session-turns":         {off: "of sessions with messages the latest comes first"},
	"servicebus.session-messages":      {off: "new messages of a free session go to whoever holds another one"},
	"servicebus.session-withdrawal":    {off: "sessions are granted to clients that have given up asking"},
	"servicebus.session-close-uncounted": {
		off: "closing a session counts a delivery of every message that was locked under it"},
	"servicebus.session-lock-expiry-counted": {
		off: "the expiry of a session's lock does not count the deliveries under it"},
	"servicebus.empty-session-state": {off: "an empty session state is a state"},

	// Topics and forwarding.
	"servicebus.subscription-rules": {off: "subscriptions get every message, whatever their rules say"},
	"servicebus.rule-actions":       {off: "the actions of rules change nothing"},
	"servicebus.topic-fan-out":      {off: "only a topic's first subscription gets messages"},
	"servicebus.auto-forward":       {off: "messages stay in a queue that forwards"},
	"servicebus.hop-limit":          {off: "a message is forwarded however often it has been: in a circle, for ever"},
	"servicebus.enqueued-number":    {off: "a forwarded message does not remember the number it had first"},

	// Sending, and the form of messages.
	"servicebus.batch-atomic":         {off: "a refused batch leaves the messages before the one that was refused for"},
	"servicebus.batch-envelope":       {off: "a batch is enqueued as one message, in its envelope"},
	"servicebus.size-limit":           {off: "messages and batches of any size are taken"},
	"servicebus.max-message-size":     {off: "senders are not told the largest message"},
	"servicebus.entity-size":          {off: "entities are never full"},
	"servicebus.entity-status":        {off: "disabled entities work like others"},
	"servicebus.foreign-annotations":  {off: "annotations of senders are dropped, whether the broker knows them or not"},
	"servicebus.message-id":           {off: "a message without an id gets none"},
	"servicebus.stripped-annotations": {off: "annotations that belong to the broker are taken over from senders"},
	"servicebus.exact-annotations":    {off: "active messages carry an annotation with their state"},
	"servicebus.peek-unlocked":        {off: "peeking shows the locks of others"},
	"servicebus.delivery-tag":         {off: "delivery tags have the bytes of the lock token in the wrong order"},

	// Connections, links and rights.
	"servicebus.cbs-freed":           {off: "a connection can put tokens in one session only"},
	"servicebus.put-token-not-found": {off: "a token for an entity that does not exist is accepted"},
	"servicebus.auth":                {off: "any token is taken, and allows everything"},
	"servicebus.claims":              {off: "links need no claim, nor a token"},
	"servicebus.change-detaches":     {off: "links stay when their entity is changed or deleted"},
	"servicebus.token-expiry":        {off: "links and connections outlive their tokens"},
	"servicebus.idle-link":           {off: "idle links stay"},
	"servicebus.idle-connection":     {off: "connections without links stay"},

	"cosmos.if-match":        {off: "If-Match is ignored: the last writer wins", perEntity: true},
	"cosmos.batch-atomic":    {off: "a failed batch keeps the operations before the failed one"},
	"cosmos.ttl":             {off: "items never expire"},
	"cosmos.auth":            {off: "any key is taken"},
	"downstream.idempotency": {off: "Idempotency-Keys are forgotten: every call is an effect of its own"},
}

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
	"servicebus.auto-delete":          {off: "idle entities stay, whatever they are configured to"},
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

	// Documents: preconditions, batches, patches.
	"cosmos.if-match":          {off: "If-Match is ignored: the last writer wins", perEntity: true},
	"cosmos.check-and-write":   {off: "what a single write needs is looked at before the write and not with it: all of a race may win"},
	"cosmos.create-once":       {off: "creating what exists replaces it"},
	"cosmos.absent":            {off: "replacing or deleting what does not exist is answered as done"},
	"cosmos.upsert-absent":     {off: "an upsert under If-Match of what does not exist is refused"},
	"cosmos.new-etag":          {off: "a replaced item keeps its ETag"},
	"cosmos.batch-atomic":      {off: "a failed batch keeps the operations before the failed one"},
	"cosmos.batch-isolated":    {off: "the operations of a batch are seen one by one"},
	"cosmos.batch-own-view":    {off: "an operation of a batch does not see what those before it have written"},
	"cosmos.failed-dependency": {off: "in a failed batch, operations before the failed one are answered as done"},
	"cosmos.failing-status":    {off: "the operation that a batch failed for is answered 424 like all others"},
	"cosmos.batch-limit":       {off: "a batch may have any number of operations"},
	"cosmos.size-limit":        {off: "items and batches of any size are taken"},
	"cosmos.patch-condition":   {off: "the conditions of patches are ignored"},
	"cosmos.patch-atomic":      {off: "a patch that fails leaves what its first operations have done"},
	"cosmos.patch-limit":       {off: "a patch may have any number of operations"},
	"cosmos.partition-key":     {off: "an item is stored under the key that the request names, whatever its own is"},
	"cosmos.unique-keys":       {off: "unique keys are not unique"},
	"cosmos.timestamp":         {off: "a replaced item keeps its _ts"},
	"cosmos.one-clock":         {off: "Date is by the clock of the machine, _ts by that of the emulator"},
	"cosmos.session-rises":     {off: "session tokens do not rise"},
	"cosmos.session-read":      {off: "a read with a session token may see what was before it"},
	"cosmos.strong-read":       {off: "a strong read may see the past"},
	"cosmos.session-reached":   {off: "a session that is ahead of the data is answered all the same"},

	// Time to live.
	"cosmos.ttl":       {off: "items never expire"},
	"cosmos.ttl-item":  {off: "an item's own time to live is ignored"},
	"cosmos.ttl-never": {off: "a time to live of -1 is none: such items expire by the container's default"},
	"cosmos.ttl-read":  {off: "reading still finds what has expired"},
	"cosmos.ttl-write": {off: "writes and batches still find what has expired"},
	"cosmos.ttl-query": {off: "queries still find what has expired"},
	"cosmos.ttl-feed":  {off: "the change feed still has what has expired"},

	// Queries and feeds.
	"cosmos.feed-order":   {off: "the change feed is in the order in which items were made"},
	"cosmos.continuation": {off: "a continuation counts results, so writes between two pages hide or repeat some"},
	"cosmos.gateway":      {off: "queries across partitions may order and count"},

	// Rights, and throttling.
	"cosmos.auth":            {off: "any key and any token is taken"},
	"cosmos.token-expiry":    {off: "expired tokens of the test credential are taken"},
	"cosmos.token-signature": {off: "tokens of the test credential are taken whatever key they carry"},
	"cosmos.date-skew":       {off: "a signature is good for ever"},
	"cosmos.retry-after":     {off: "a client that is throttled is not told how long to wait"},

	"downstream.idempotency": {off: "Idempotency-Keys are forgotten: every call is an effect of its own"},
	"downstream.reply-ends":  {off: "the bodies of replies never end"},
}

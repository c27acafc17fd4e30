package atom

import "encoding/xml"

// Queue describes a queue.
type Queue struct {
	XMLName xml.Name `xml:"QueueDescription"`
	spaces
	LockDuration                        *string
	MaxSizeInMegabytes                  *int64
	RequiresDuplicateDetection          *bool
	RequiresSession                     *bool
	DefaultMessageTimeToLive            *string
	DeadLetteringOnMessageExpiration    *bool
	DuplicateDetectionHistoryTimeWindow *string
	MaxDeliveryCount                    *int32
	EnableBatchedOperations             *bool
	SizeInBytes                         *int64
	MessageCount                        *int64
	IsAnonymousAccessible               *bool
	AuthorizationRules                  *AuthorizationRules
	Status                              *string
	ForwardTo                           *string
	UserMetadata                        *string
	CreatedAt                           *string
	UpdatedAt                           *string
	AccessedAt                          *string
	SupportOrdering                     *bool
	CountDetails                        *Counts
	AutoDeleteOnIdle                    *string
	EnablePartitioning                  *bool
	EntityAvailabilityStatus            *string
	ForwardDeadLetteredMessagesTo       *string
	EnableExpress                       *bool
	MaxMessageSizeInKilobytes           *int64
}

// Topic describes a topic.
type Topic struct {
	XMLName xml.Name `xml:"TopicDescription"`
	spaces
	DefaultMessageTimeToLive            *string
	MaxSizeInMegabytes                  *int64
	RequiresDuplicateDetection          *bool
	DuplicateDetectionHistoryTimeWindow *string
	EnableBatchedOperations             *bool
	SizeInBytes                         *int64
	FilteringMessagesBeforePublishing   *bool
	IsAnonymousAccessible               *bool
	AuthorizationRules                  *AuthorizationRules
	Status                              *string
	UserMetadata                        *string
	CreatedAt                           *string
	UpdatedAt                           *string
	AccessedAt                          *string
	SupportOrdering                     *bool
	CountDetails                        *Counts
	SubscriptionCount                   *int64
	AutoDeleteOnIdle                    *string
	EnablePartitioning                  *bool
	EntityAvailabilityStatus            *string
	EnableSubscriptionPartitioning      *bool
	EnableExpress                       *bool
	MaxMessageSizeInKilobytes           *int64
	SQLFilterCount                      *int64 `xml:"SqlFilterCount"`
	CorrelationFilterCount              *int64
}

// Subscription describes a subscription.
type Subscription struct {
	XMLName xml.Name `xml:"SubscriptionDescription"`
	spaces
	LockDuration                              *string
	RequiresSession                           *bool
	DefaultMessageTimeToLive                  *string
	DeadLetteringOnMessageExpiration          *bool
	DeadLetteringOnFilterEvaluationExceptions *bool
	DefaultRuleDescription                    *Rule // sent at creation, never answered
	MessageCount                              *int64
	MaxDeliveryCount                          *int32
	EnableBatchedOperations                   *bool
	Status                                    *string
	ForwardTo                                 *string
	CreatedAt                                 *string
	UpdatedAt                                 *string
	AccessedAt                                *string
	UserMetadata                              *string
	CountDetails                              *Counts
	ForwardDeadLetteredMessagesTo             *string
	AutoDeleteOnIdle                          *string
	EntityAvailabilityStatus                  *string
}

// Counts are the messages of an entity. They are written only: a client cannot set them.
type Counts struct {
	Space                   string `xml:"xmlns:d2p1,attr"`
	Active                  int64  `xml:"d2p1:ActiveMessageCount"`
	DeadLetters             int64  `xml:"d2p1:DeadLetterMessageCount"`
	Scheduled               int64  `xml:"d2p1:ScheduledMessageCount"`
	TransferringDeadLetters int64  `xml:"d2p1:TransferDeadLetterMessageCount"`
	Transferring            int64  `xml:"d2p1:TransferMessageCount"`
}

// AuthorizationRules are the keys of an entity.
type AuthorizationRules struct {
	Rules []AuthorizationRule `xml:"AuthorizationRule"`
}

// AuthorizationRule is a key and what it allows.
type AuthorizationRule struct {
	Type         Type `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
	ClaimType    *string
	ClaimValue   *string
	Rights       []string `xml:"Rights>AccessRights"`
	CreatedTime  *string
	ModifiedTime *string
	KeyName      *string
	PrimaryKey   *string
	SecondaryKey *string
}

// Namespace describes the namespace.
type Namespace struct {
	XMLName xml.Name `xml:"NamespaceInfo"`
	spaces
	Alias          *string
	CreatedTime    string
	MessagingSKU   string
	MessagingUnits *int64
	ModifiedTime   string
	Name           string
	NamespaceType  string
}

func (*Queue) element() string        { return "QueueDescription" }
func (*Topic) element() string        { return "TopicDescription" }
func (*Subscription) element() string { return "SubscriptionDescription" }
func (*Namespace) element() string    { return "NamespaceInfo" }

func (d *Queue) complete() { d.declare(); d.CountDetails.complete() }

func (d *Topic) complete() { d.declare(); d.CountDetails.complete() }

func (d *Subscription) complete() {
	d.declare()
	d.CountDetails.complete()
	d.DefaultRuleDescription = nil
}

func (d *Namespace) complete() { d.declare() }

func (c *Counts) complete() {
	if c != nil {
		c.Space = spaceCounts
	}
}

func (d *Queue) clean() {
	d.XMLName, d.spaces = xml.Name{}, spaces{}
	d.SizeInBytes, d.MessageCount, d.CountDetails = nil, nil, nil
	d.CreatedAt, d.UpdatedAt, d.AccessedAt, d.EntityAvailabilityStatus = nil, nil, nil, nil
	d.AuthorizationRules.clean(&d.AuthorizationRules)
}

func (d *Topic) clean() {
	d.XMLName, d.spaces = xml.Name{}, spaces{}
	d.SizeInBytes, d.CountDetails, d.SubscriptionCount, d.SQLFilterCount, d.CorrelationFilterCount = nil, nil, nil, nil, nil
	d.CreatedAt, d.UpdatedAt, d.AccessedAt, d.EntityAvailabilityStatus = nil, nil, nil, nil
	d.AuthorizationRules.clean(&d.AuthorizationRules)
}

func (d *Subscription) clean() {
	d.XMLName, d.spaces = xml.Name{}, spaces{}
	d.MessageCount, d.CountDetails = nil, nil
	d.CreatedAt, d.UpdatedAt, d.AccessedAt, d.EntityAvailabilityStatus = nil, nil, nil, nil
	if d.DefaultRuleDescription != nil {
		d.DefaultRuleDescription.clean()
	}
}

func (d *Namespace) clean() { d.XMLName, d.spaces = xml.Name{}, spaces{} }

// clean makes no difference between no rules and an empty list of them.
func (r *AuthorizationRules) clean(at **AuthorizationRules) {
	if r != nil && len(r.Rules) == 0 {
		*at = nil
	}
}

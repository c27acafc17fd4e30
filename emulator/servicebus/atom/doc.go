// Package atom holds the documents of Service Bus's management API as they travel: ATOM entries and feeds with a
// description of a queue, a topic, a subscription, a rule or a namespace in each, and the error document. It knows how
// they are written and read, and nothing of what they mean.
//
//	<entry>
//	  <title>orders</title>
//	  <content type="application/xml">
//	    <QueueDescription>…</QueueDescription>
//	  </content>
//	</entry>
//
// What a client leaves out stays nil, so that whoever uses a description can tell it from a zero. Elements are written in
// the order and with the prefixes of the service, since some clients find them by these; they are read in any order and
// whatever the prefixes. Elements that no description has are skipped, as the service skips them.
package atom

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
// What it promises, each held by the tests that name it:
//
//	A1  What has been read and is written is read as the same again.
//	A2  What a client leaves out stays nil, so that whoever uses a description can tell it from a zero.
//	A3  What a client may send and cannot set, such as counts and times, is taken away.
//	A4  Elements are read in any order and whatever the prefixes; those that no description has are skipped, as the
//	    service skips them.
//	A5  Elements are written in the order and with the prefixes of the service, since some clients find them by these.
//	A6  A document that cannot be read is an error that says why, whatever it holds.
package atom

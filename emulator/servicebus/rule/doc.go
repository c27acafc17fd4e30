// Package rule decides which messages of a topic a subscription gets, and what is changed on the way: SQL filters,
// correlation filters and SQL actions. It knows nothing of AMQP and of queues.
//
//	message ──▶ filter ──matches──▶ action ──▶ the subscription's copy
//	                └─does not──▶ nothing
//
// What it promises, each held by the tests that name it:
//
//	R1  A user property that does not exist is unknown, and so is whatever is computed from it or compared with it. A
//	    filter matches only what is true: neither false nor unknown.
//	R2  NOT, AND and OR are those of three values: what one operand decides alone is decided.
//	R3  Names are compared without case, string values with it.
//	R4  IS NULL is true of a property that does not exist or is null; EXISTS is true of one that exists, null or not.
//	R5  A correlation filter matches if every property it names exists and is equal, numbers by value whatever their
//	    type.
//	R6  What is wrong with an expression is said with the place where it is, when the rule is made: a system property
//	    that does not exist, a parameter without a value, more than 1024 characters, more than 32 statements.
//	R7  What cannot be computed, such as a division by zero or the order of a string and a number, is an error of that
//	    message, never false; so is a string that no message has room for.
//	R8  An action changes the copy it is given, statement by statement, and what one sets the next one sees. A number
//	    keeps the type that the property has if it fits.
//
// Where the grammar's documentation says nothing, C# decides, as it does for the service: strings are added to one
// another, integers divide as integers and wrap around.
package rule

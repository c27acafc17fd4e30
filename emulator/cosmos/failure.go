package cosmos

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// failure is a refusal as the service words it: an HTTP status, a substatus that
// its clients branch on, and a message for people.
type failure struct {
	status    int
	substatus int // 0: none
	message   string
}

func (f *failure) Error() string { return f.message }

// Substatus codes of the service that are used here.
const (
	partitionKeyMismatch  = 1001
	readSessionNotReached = 1002 // with 404
	rangeGone             = 1002 // with 410
	ownerMissing          = 1003
	crossPartitionQuery   = 1004
	conditionNotMet       = 1110
	throttled             = 3200
)

func refuse(status int, format string, args ...any) *failure {
	return &failure{status: status, message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *failure {
	return refuse(http.StatusBadRequest, format, args...)
}

// noDatabase and noContainer are the 404 of what is asked for something inside
// it. Its substatus tells clients that not the item is missing, but all of them.
func noDatabase(database string) *failure {
	f := refuse(http.StatusNotFound, "Owner resource does not exist: there is no database %q.", database)
	f.substatus = ownerMissing
	return f
}

func noContainer(database, container string) *failure {
	f := refuse(http.StatusNotFound, "Owner resource does not exist: database %q has no container %q.", database, container)
	f.substatus = ownerMissing
	return f
}

// notImplemented refuses what the service does and this emulator does not.
func notImplemented(what string) *failure {
	return badRequest("This emulator does not implement %s.", what)
}

// codes are the words that stand beside a status in the body of a refusal.
var codes = map[int]string{
	http.StatusBadRequest:            "BadRequest",
	http.StatusUnauthorized:          "Unauthorized",
	http.StatusForbidden:             "Forbidden",
	http.StatusNotFound:              "NotFound",
	http.StatusMethodNotAllowed:      "MethodNotAllowed",
	http.StatusRequestTimeout:        "RequestTimeout",
	http.StatusConflict:              "Conflict",
	http.StatusGone:                  "Gone",
	http.StatusPreconditionFailed:    "PreconditionFailed",
	http.StatusRequestEntityTooLarge: "RequestEntityTooLarge",
	http.StatusFailedDependency:      "FailedDependency",
	http.StatusTooManyRequests:       "TooManyRequests",
	449:                              "RetryWith",
	http.StatusInternalServerError:   "InternalServerError",
	http.StatusServiceUnavailable:    "ServiceUnavailable",
}

func codeOf(status int) string {
	if code, ok := codes[status]; ok {
		return code
	}
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// condition splits what a rule says an answer is: a code, a substatus, or both
// as "NotFound/1002". What it leaves open follows from the status.
func condition(status int, text string) (code string, substatus int) {
	code, number, _ := strings.Cut(text, "/")
	if n, err := strconv.Atoi(code); err == nil {
		code, substatus = "", n
	} else if n, err := strconv.Atoi(number); err == nil {
		substatus = n
	}
	if code == "" {
		code = codeOf(status)
	}
	if substatus == 0 && status == http.StatusTooManyRequests {
		substatus = throttled
	}
	return code, substatus
}

// queryFailure words what a query is refused for as the service does: a list of
// errors inside the message.
func queryFailure(err error) *failure {
	syntax, ok := err.(*syntaxError) //nolint:errorlint // the parser returns it unwrapped
	if !ok {
		return badRequest("%s", err)
	}
	o := &object{}
	o.set("severity", "Error")
	where := &object{}
	where.set("start", integerOf(int64(syntax.start)))
	where.set("end", integerOf(int64(syntax.end)))
	o.set("location", where)
	o.set("code", syntax.code)
	o.set("message", syntax.message)
	all := &object{}
	all.set("errors", []any{o})
	return badRequest("Message: %s", textOf(all))
}

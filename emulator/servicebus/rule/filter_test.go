package rule_test

import (
	"errors"
	"strings"
	"testing"

	"oneeffect/emulator/servicebus/rule"
)

func TestFiltersThatMatchAndThoseThatDoNot(t *testing.T) { // R1, R2, R3, R4
	for expression, want := range map[string]bool{
		"1=1": true, "1=0": false, "1 <> 2": true, "1 != 1": false, "TRUE = true": true, "true = FALSE": false,

		// Properties: names without case, values with it; user. is the default scope.
		"color = 'blue'": true, "COLOR = 'blue'": true, "Color = 'Blue'": false, "user.color = 'blue'": true, "USER.Color = 'blue'": true,
		"sys.Label = 'order'": true, "SYS.label = 'order'": true, "Label = 'order'": false, "[color] = 'blue'": true, `"color" = 'blue'`: true,
		"[50% off] = 'yes'": true, "[a.b] = 'dotted'": true, "user.[a.b] = 'dotted'": true, "sys.CorrelationId = 'c''1'": true,
		"property('COLOR') = 'blue'": true, "p('co' + 'lor') = 'blue'": true, "p(missing) = 'blue'": false,

		// What does not exist is unknown, and so is what is made of it.
		"missing = 1": false, "missing <> 1": false, "NOT missing = 1": false, "missing + 1 > 0": false, "-missing < 0": false,
		"missing LIKE '%'": false, "missing NOT LIKE '%'": false, "missing IN (1)": false, "missing NOT IN (1)": false,
		"color LIKE missing": false, "color LIKE 'b%' ESCAPE missing": false, "nothing = NULL": false, "nothing <> 1": false,

		// Three values.
		"missing = 1 OR 1=1": true, "1=1 OR missing = 1": true, "missing = 1 OR 1=0": false, "1=0 OR missing = 1": false,
		"NOT (missing = 1 AND 1=0)": true, "NOT (1=0 AND missing = 1)": true, "NOT (missing = 1 AND 1=1)": false, "NOT (1=1 AND missing = 1)": false,
		"NOT (missing = 1 OR missing = 2)": false, "NOT NOT 1=1": true, "NOT 1=1 OR 1=1": true, "NOT (1=1 OR 1=1)": false,
		"1=0 AND 1=0 OR 1=1": true, "1=1 OR 1=0 AND 1=0": true, "(1=1 OR 1=0) AND 1=0": false,

		// IS NULL and EXISTS.
		"missing IS NULL": true, "nothing IS NULL": true, "color IS NULL": false, "missing IS NOT NULL": false, "nothing IS NOT NULL": false,
		"color IS NOT NULL": true, "EXISTS(color)": true, "exists(missing)": false, "EXISTS(nothing)": true, "EXISTS(sys.ReplyTo)": false,
		"sys.ReplyTo IS NULL": true, "EXISTS(other)": true, "EXISTS(user.[50% off])": true,

		// Numbers by value, whatever their type.
		"quantity = 10": true, "quantity = 10.0": true, "price > 12": true, "price >= 12.5": true, "price < 12.5": false, "price <= 12.5": true,
		"big > 1": true, "small = -3": true, "small < +0": true, "ratio = 0.5": true, "ratio = 5E-1": true, "quantity > 9 AND quantity < 11": true,
		"text = 5": false, "text <> 5": true, "urgent = true": true, "urgent <> TRUE": false, "urgent = 1": false,
		"due = @noon": true, "due > @noon": false, "due >= @noon": true, "id = @guid": true, "wait = @minute": true, "wait > @minute": false, "id <> id": false,
		"other = other": false, "'a' < 'b'": true, "'a' >= 'b'": false, "newid() <> newid()": true, "'Z' < 'a'": true,

		// Arithmetic: C#.
		"1 + 2 * 3 = 7": true, "(1 + 2) * 3 = 9": true, "7 / 2 = 3": true, "7 / 2.0 = 3.5": true, "-7 / 2 = -3": true, "7 % 3 = 1": true, "7.5 % 2 = 1.5": true,
		"10 - 4 - 3 = 3": true, "quantity * price = 125": true, "'a' + 'b' = 'ab'": true, "'a' + 1 = 'a1'": true, "1 + 'a' = '1a'": true, "'x' + TRUE = 'xTrue'": true,
		"- - 1 = 1": true, "9223372036854775807 + 1 < 0": true, "1.5 + 1 = 2.5": true, "3.5 - 1 = 2.5": true, "quantity+1=11": true,

		// LIKE.
		"color LIKE 'b%'": true, "color LIKE '%ue'": true, "color LIKE 'b_ue'": true, "color LIKE 'blue'": true, "color LIKE 'b'": false, "color LIKE '%'": true,
		"color LIKE '____'": true, "color LIKE '_____'": false, "color LIKE '%l%e%'": true, "color LIKE ''": false, "color NOT LIKE 'r%'": true, "color LIKE 'B%'": false,
		"color LIKE pattern": true, "'ABC%' LIKE 'ABC\\%' ESCAPE '\\'": true, "'ABCD' LIKE 'ABC\\%' ESCAPE '\\'": false, "'a_b' LIKE 'a!_b' ESCAPE '!'": true,
		"'a!' LIKE 'a!!' ESCAPE '!'": true, "'a' LIKE 'a!' ESCAPE '!'": false, "'aXb' LIKE 'a!_b' ESCAPE '!'": false, "line LIKE 'one%two'": true, "'aab' LIKE '%ab'": true,
		"'%' LIKE '%%' ESCAPE '%'": true, "'x' LIKE '%%' ESCAPE '%'": false, "'' LIKE '%'": true, "'ä' LIKE '_'": true,

		// IN.
		"color IN ('red', 'blue')": true, "color NOT IN ('red', 'blue')": false, "color IN ('red')": false, "color NOT IN ('red')": true, "quantity IN (1, 5+5)": true,
		"color IN ('red', missing)": false, "color NOT IN ('red', missing)": false, "color IN ('blue', missing)": true, "color IN (1, @text)": true,

		// Parameters.
		"color = @text": true, "color = @TEXT": true, "quantity = @int": true, "price = @float": true, "urgent = @yes": true, "sys.Label = @bare": true, "@null = 1": false,
	} {
		if got, err := match(t, expression); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", expression, got, err, want)
		}
	}
}

func TestWhatCannotBeEvaluatedIsAnError(t *testing.T) { // R7
	for expression, want := range map[string]string{
		"quantity / 0 = 1":            "division by zero",
		"quantity % (1 - 1) = 1":      "division by zero",
		"text > 4":                    "a string and an integer have no order",
		"urgent < true":               "a boolean and a boolean have no order",
		"due > 'noon'":                "a time and a string have no order",
		"color - 1 = 0":               "a string - an integer",
		"-color = 0":                  "an integer - a string",
		"due + due = 1":               "a time + a time",
		"quantity LIKE '1%'":          "LIKE needs strings, not an integer",
		"color LIKE 'b%' ESCAPE 'xx'": "ESCAPE needs one character",
		"color LIKE 'b%' ESCAPE ''":   "ESCAPE needs one character",
		"p(quantity) = 1":             "property() needs a string, not an integer",
		"1=1 AND quantity / 0 = 1":    "division by zero",
		"NOT quantity / 0 = 1":        "division by zero",
		"quantity IN (1, 1/0)":        "division by zero",
		"wait > 1":                    "a duration and an integer have no order",
		"other + 'x' = 'x'":           "a []uint8 + a string",
		"id > id":                     "a GUID and a GUID have no order",
	} {
		got, err := match(t, expression)
		if got || !errors.Is(err, rule.ErrEvaluation) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want an error with %q", expression, got, err, want)
		}
	}
	// What decides alone is not evaluated further.
	for _, expression := range []string{"1=1 OR quantity / 0 = 1", "NOT (1=0 AND quantity / 0 = 1)", "quantity IN (10, 1/0)"} {
		if got, err := match(t, expression); err != nil || !got {
			t.Errorf("%s: %v, %v; want true", expression, got, err)
		}
	}
}

func TestMistakesAreSaidWithTheirPlace(t *testing.T) { // R6
	for expression, want := range map[string]string{
		"":                         "character 1: here is the end where a value should stand",
		"color":                    "character 1: this is a value; a filter is a condition",
		"color =":                  "character 8: here is the end where a value should stand",
		"color = 'blue":            "character 9: the string that begins here does not end",
		"color = blue'":            "character 13: the string that begins here does not end",
		"[color = 1":               "character 1: the name that begins here does not end",
		"[] = 1":                   "character 1: a name must not be empty",
		"color == 1":               `character 8: here is "=" where a value should stand`,
		"(color = 1":               `character 11: here is the end where ")" should stand`,
		"color = 1)":               `character 10: here is ")" where the filter should end`,
		"color = 1 color = 2":      `character 11: here is "color" where the filter should end`,
		"sys.Colour = 1":           "character 5: there is no system property Colour; there are ContentType, CorrelationId, Label",
		"sys.Subject = 1":          "character 5: there is no system property Subject: a message's subject is sys.Label",
		"sys.DeliveryCount=1":      "character 5: the system property DeliveryCount is not supported by this emulator",
		"sys. = 1":                 `character 6: here is "=" where the name of a property should follow`,
		"my.color = 1":             `character 1: "my" is no scope`,
		"color = @missing":         "character 9: the parameter @missing has no value",
		"color = @":                "character 9: a parameter needs a name after @",
		"color IS blue":            `character 10: here is "blue" where NULL should follow IS`,
		"1 IS NULL":                "character 1: IS NULL asks about a property, and this is none",
		"color NOT = 1":            `character 11: here is "=" where IN or LIKE should follow NOT`,
		"color IN 1":               `character 10: here is the constant 1 where "(" should stand`,
		"color IN ()":              `character 11: here is ")" where a value should stand`,
		"color IN (1 2)":           `character 13: here is the constant 2 where ")" should stand`,
		"EXISTS(1)":                "character 8: here is the constant 1 where a value should stand",
		"color AND 1=1":            "character 1: AND joins conditions, and this is a value",
		"1=1 AND color":            "character 9: AND joins conditions, and this is a value",
		"NOT color":                "character 5: NOT joins conditions, and this is a value",
		"(1=1) = 1":                "character 1: = takes values, and this is a condition",
		"1 = (1=1)":                "character 5: = takes values, and this is a condition",
		"1 + (1=1) = 2":            "character 5: + takes values, and this is a condition",
		"-(1=1) = 1":               "character 2: - takes values, and this is a condition",
		"(1=1) LIKE 'a'":           "character 1: LIKE takes values, and this is a condition",
		"upper(color) = 1":         "character 1: there is no function upper",
		"99999999999999999999 = 1": "character 1: the integer 99999999999999999999 is larger than any of 64 bits",
		"1E999 = 1":                "character 1: the number 1E999 cannot be read",
		"1E = 1":                   "character 1: the number 1E cannot be read",
		"1abc = 1":                 `character 1: a number cannot be followed by "a"`,
		"color ! 1":                `character 7: "!" has no meaning here`,
		"color = 1;":               `character 10: here is ";" where the filter should end`,
		"SET = 1":                  `character 1: here is "SET" where a value should stand`,
		"_color = 1":               `character 1: "_" has no meaning here`,
		"1 = 1 OR '" + strings.Repeat("ä", 1024) + "' = 'x'": "character 1025: an expression has at most 1024 characters, this one 1041",
	} {
		_, err := rule.ParseFilter(expression, nil)
		syntax, ok := errors.AsType[*rule.SyntaxError](err)
		if !ok || !strings.HasPrefix(syntax.Error(), want) {
			t.Errorf("%s: %v; want %q", expression, err, want)
		}
	}
	longest := "'" + strings.Repeat("ä", 1017) + "' = ''"
	if n := len([]rune(longest)); n != rule.MaxExpression {
		t.Fatalf("the longest expression has %d characters", n)
	}
	if _, err := rule.ParseFilter(longest, nil); err != nil {
		t.Errorf("an expression of %d characters: %v", rule.MaxExpression, err)
	}
}

func TestTrueAndFalseFilters(t *testing.T) {
	if ok, err := (rule.True{}).Match(order()); !ok || err != nil {
		t.Errorf("true: %v, %v", ok, err)
	}
	if ok, err := (rule.False{}).Match(order()); ok || err != nil {
		t.Errorf("false: %v, %v", ok, err)
	}
}

func TestCorrelationFiltersWantEveryPropertyEqual(t *testing.T) { // R5
	type system = map[string]string
	type user = map[string]any
	for name, c := range map[string]struct {
		filter rule.Correlation
		want   bool
	}{
		"one of the system's":       {rule.Correlation{System: system{"Label": "order"}}, true},
		"with case":                 {rule.Correlation{System: system{"Label": "Order"}}, false},
		"not there":                 {rule.Correlation{System: system{"ReplyTo": ""}}, false},
		"all":                       {rule.Correlation{System: system{"Label": "order", "SessionId": "s"}, User: user{"COLOR": "blue", "quantity": int64(10)}}, true},
		"all but one":               {rule.Correlation{System: system{"Label": "order"}, User: user{"color": "blue", "quantity": int64(11)}}, false},
		"a number of another type":  {rule.Correlation{User: user{"quantity": 10.0, "small": int64(-3), "ratio": 0.5}}, true},
		"a number as a string":      {rule.Correlation{User: user{"text": int64(5)}}, false},
		"a boolean":                 {rule.Correlation{User: user{"urgent": true}}, true},
		"a time":                    {rule.Correlation{User: user{"due": noon}}, true},
		"null equals nothing":       {rule.Correlation{User: user{"nothing": nil}}, false},
		"a user property not there": {rule.Correlation{User: user{"missing": "x"}}, false},
	} {
		if got, err := c.filter.Match(order()); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}
